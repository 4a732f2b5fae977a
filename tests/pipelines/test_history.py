"""What runs took, kept; what predictions learn from it; and how well they did."""

import dataclasses
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latentloom.parallel.progress import Factors, Setting
from latentloom.pipelines.costs import ran as ran_module
from latentloom.pipelines.costs.machine import named_machine
from latentloom.pipelines.costs.ran import FILE, Ran, keep, kept
from latentloom.pipelines.planning.history import history_table, key_of, learned

SETTING = Setting(
    machine="here",
    model="FLUX.1-dev",
    class_name="FluxTransformer2DModel",
    fingerprint="f",
    dtype="bf16",
    quantization="none",
    is_compiled=False,
    width=1024,
    height=1024,
    frames=1,
    batch=1,
    text_tokens=512,
)


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
        **plain,  # pyright: ignore[reportArgumentType]
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
