"""What runs took, kept; what predictions learn from it; and how well they did."""

import dataclasses
import json
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latentloom.__main__ import main
from latentloom.nodes.headless.plans import plan_model
from latentloom.parallel.progress import Factors, Foreseen, Setting
from latentloom.pipelines.costs import ran as ran_module
from latentloom.pipelines.costs.machine import named_machine
from latentloom.pipelines.costs.ran import FILE, Ran, Took, keep, kept, ran_of
from latentloom.pipelines.forecast.explained import as_text
from latentloom.pipelines.forecast.forecast import Forecast
from latentloom.pipelines.forecast.history import (
    LEAST_RUNS,
    corrected,
    history_table,
    in_words,
    key_of,
    learned,
    setting_of,
)

SETTING = Setting(
    machine="here",
    model="FLUX.1-dev",
    class_name="FluxTransformer2DModel",
    fingerprint="f",
    dtype="bf16",
    quantization="none",
    engine="eager",
    width=1024,
    height=1024,
    frames=1,
    batch=1,
    text_tokens=512,
)


HERE = dataclasses.replace(named_machine("2x4090-pcie4"), name="here")


def ran(took_s: float = 0.5, *, setting: Setting = SETTING, **fields: object) -> Ran:
    plain = {"steps": 28, "text_s": 0.1, "decode_s": 1.0, "took_decode_s": 1.0, **fields}
    return Ran(
        day="2026-11-23",
        setting=setting,
        title="4 x H100",
        plan="ulysses=4",
        step_s=0.5,
        num_bytes=1 << 30,
        took_step_s=took_s,
        **plain,
    )


def test_what_is_kept_comes_back_and_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    assert kept(folder) == kept(None) == ()
    monkeypatch.setattr(ran_module, "MOST", 20)
    with ThreadPoolExecutor(4) as threads:  # as several processes do
        list(threads.map(lambda steps: keep(ran(steps=steps), folder), range(1, 30)))
    assert len(found := kept(folder)) == 20
    assert {each.steps for each in found} <= set(range(1, 30)) and found[0] == ran(steps=found[0].steps)
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(("was_compiled", "engine"), [(False, "eager"), (True, "inductor")])
def test_what_was_kept_before_there_were_engines_is_read(was_compiled: bool, engine: str, tmp_path: Path) -> None:
    plain = dataclasses.asdict(ran())
    setting = {name: value for name, value in plain["setting"].items() if name != "engine"}
    line = json.dumps({**plain, "setting": {**setting, "is_compiled": was_compiled}})
    keep(ran(), tmp_path)
    with sqlite3.connect(tmp_path / FILE) as lines:
        lines.execute("UPDATE runs SET line = ?", [line])
    lines.close()
    [found] = kept(tmp_path)
    assert found.setting == dataclasses.replace(SETTING, engine=engine)


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    keep(ran(), tmp_path)
    with sqlite3.connect(tmp_path / FILE) as lines:
        (good,) = lines.execute("SELECT line FROM runs").fetchone()
        bad = ("", "[]", "{}", good[:-9], good.replace("0.5", "-1"), good.replace('"here"', "7"), good + " " * 9999, 3)
        lines.executemany("INSERT INTO runs (line) VALUES (?)", [[line] for line in bad])
    lines.close()
    assert kept(tmp_path) == (ran(),)
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    assert kept(tmp_path) == ()
    keep(ran(), tmp_path)
    assert kept(tmp_path) == (ran(),)


def test_a_folder_that_takes_nothing_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    keep(ran(), tmp_path / "file")
    assert "is not kept for later" in caplog.text


def test_predictions_learn_from_the_last_runs_of_their_kind_within_bounds() -> None:
    slow = [ran(0.6, took_decode_s=3.0) for _ in range(9)]
    assert learned(SETTING, slow[:2]) == Factors()
    factors = learned(SETTING, [ran(5.0), *slow])
    assert (factors.step, factors.decode, factors.text) == (pytest.approx(1.2), 2.0, 1.0)
    assert (factors.num_runs, factors.basis) == (9, "model")
    other = dataclasses.replace(SETTING, class_name="WanTransformer3DModel")
    assert learned(other, slow).basis == "machine"
    assert learned(dataclasses.replace(SETTING, machine="there"), slow) == Factors()


def test_what_was_corrected_already_is_not_unlearned() -> None:
    right = [ran(0.5, step_factor=1.2, took_decode_s=None) for _ in range(9)]
    assert learned(SETTING, right).step == pytest.approx(1.2)


def test_the_table_tells_how_well_each_plan_was_predicted() -> None:
    other = dataclasses.replace(SETTING, model="Wan 2.2")
    (flux, wan) = history_table([ran(0.5), ran(0.25), ran(0.6), ran(1.0, setting=other)])
    assert (flux.num_runs, flux.median, flux.worst, flux.last) == (3, 1.0, 0.5, 1.2)
    assert (wan.model, wan.plan, wan.last_predicted_s, wan.last_took_s) == ("Wan 2.2", "ulysses=4", 0.5, 1.0)
    assert history_table([ran()], model="wan") == []


def test_a_machine_is_known_by_its_rates_however_many_devices_are_taken() -> None:
    assert key_of(named_machine("8xH100-nvlink")) == key_of(named_machine("1xH100"))
    assert key_of(named_machine("1xH100")) != key_of(named_machine("1xH200"))


def test_the_command_tells_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["plan", "--history"]) == 0
    assert capsys.readouterr().out.startswith("no run has been compared with its prediction here yet")
    keep(ran(0.6), tmp_path / "latentloom")
    assert main(["plan", "--history", "black-forest-labs/FLUX.1-dev"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1].split()[:2] == ["FLUX.1-dev", "ulysses=4"] and "1.20    1.20   1.20  500 ms, 600 ms" in told[1]
    assert main(["plan", "--history", "wan", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert main(["plan"]) == 2 and "no model or workflow is named" in capsys.readouterr().err


def test_what_was_learned_changes_predictions_and_not_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = plan_bobbin()
    assert in_words(found.machine.factors) == "" and "learned" not in as_text(found)
    setting = setting_of(found.model, found.canvas, HERE, text_tokens=found.demand.encode_tokens)
    for _ in range(LEAST_RUNS):
        keep(ran(0.6, setting=setting, took_decode_s=1.5), tmp_path / "latentloom")
    slower = plan_bobbin()
    assert found.chosen is not None and slower.chosen is not None
    assert slower.chosen.plan == found.chosen.plan
    assert slower.chosen.step.seconds == pytest.approx(1.2 * found.chosen.step.seconds)
    assert slower.chosen.decode_s == pytest.approx(1.5 * found.chosen.decode_s)
    told = "learned steps are corrected by 1.2, decoding by 1.5, from the last 3 such runs here"
    assert told in " ".join(as_text(slower).split())


def plan_bobbin() -> Forecast:
    return plan_model("builtin:bobbin", HERE, roots=())


def test_a_prediction_is_told_with_what_corrected_it() -> None:
    foreseen = Foreseen(
        plan="ulysses=1",
        why="",
        machine="4 x H100",
        is_measured=True,
        steps=28,
        step_s=0.5,
        text_s=0.1,
        decode_s=1.0,
        load_s=9.0,
        num_bytes=1,
        rejected=[("cfg=2", 1.0, "slower")],
    )
    better = corrected(foreseen, SETTING, [ran(0.6)] * LEAST_RUNS)
    assert (better.step_s, better.decode_s, better.load_s) == (pytest.approx(0.6), 1.0, 9.0)
    assert better.rejected == [("cfg=2", pytest.approx(1.2), "slower")] and better.factors.num_runs == LEAST_RUNS
    took = Took(steps=28, step_s=0.6, steps_s=17.0, num_bytes=5)
    kept_line = ran_of(better, took, torch="2.9")
    assert kept_line is not None and kept_line.ratio == pytest.approx(1.0)
    assert learned(SETTING, [kept_line] * LEAST_RUNS).step == pytest.approx(1.2)
    assert ran_of(foreseen, took, torch="2.9") is None and ran_of(better, Took(steps=1), torch="2.9") is None
