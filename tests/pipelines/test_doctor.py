import dataclasses
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from latentloom.__main__ import main
from latentloom.parallel.pool.trial import Tried
from latentloom.pipelines.doctor.examine import as_text, examine, has_problems, looked_at
from latentloom.pipelines.doctor.finding import Finding
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.pools import preloads

from .test_doctor_devices import the


def test_the_doctor_looks_at_everything_and_finds_no_problem_where_tests_pass(tmp_path: Path) -> None:
    found = examine(cache_dir=tmp_path / "not" / "there", trial=lambda: Tried("2 ranks added up 3 in 0.1 s"))
    assert not [finding for finding in found if finding.state == "problem" and finding.check != "memory"]
    checks = [finding.check for finding in found]
    assert {"python", "torch", "backends", "attention", "processor", "memory", "cache folder", "trial"} <= set(checks)
    assert {"shared memory", "open files", "loopback", "death signal"} <= set(checks) or sys.platform != "linux"
    assert the(found, "trial").says == "2 ranks added up 3 in 0.1 s"


def test_a_check_that_hangs_or_fails_is_a_finding() -> None:
    release = threading.Event()

    def hang() -> list[Finding]:
        release.wait()
        return []

    (late,) = looked_at("disk", hang, timeout_s=0.1)
    release.set()
    assert late.state == "problem" and "no answer in 0.1 s" in late.says and "file server" in late.mend
    (failed,) = looked_at("disk", lambda: [{}["x"]], timeout_s=30)
    assert failed.state == "problem" and "the check failed: 'x'" in failed.says


def test_a_trial_that_fails_is_a_problem_and_what_reads_the_machine_cannot_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: Any) -> Any:
        raise RuntimeError("rank 1 was silent\nand more")

    monkeypatch.setattr("latentloom.pipelines.doctor.examine.read_machine", fail)
    found = examine(cache_dir=None, trial=fail)
    assert "torch does not start (rank 1 was silent)" in the(found, "torch").says
    assert the(found, "trial").says == "the check failed: rank 1 was silent"
    found = examine(cache_dir=None, trial=lambda: Tried("ranks met without peer-to-peer", "turn off ACS"))
    assert (the(found, "trial").state, the(found, "trial").mend) == ("warning", "turn off ACS")


def test_the_trial_s_ranks_import_what_those_of_pools_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that starts CUDA when it is imported is found by the trial, too."""
    given: dict[str, Any] = {}

    def trial(devices: Sequence[str], **options: Any) -> Tried:
        given.update(options)
        return Tried("well")

    monkeypatch.setattr("latentloom.parallel.pool.trial.trial", trial)
    monkeypatch.setattr(
        "latentloom.pipelines.doctor.examine.examine",
        lambda *, cache_dir, data_dir, trial: [Finding(check="trial", says=trial().says)],
    )
    assert main(["doctor"]) == 0
    assert given["preload"] == preloads(describe_model("builtin:bobbin", device="cpu")) != []


def test_findings_are_printed_with_cures_and_a_sum() -> None:
    well = Finding(check="memory", says="enough")
    ill = Finding(check="lo", state="problem", says="it is absent", mend="ip link set lo up")
    text = as_text([well, ill, dataclasses.replace(ill, state="warning"), dataclasses.replace(ill, state="warning")])
    assert text.splitlines()[:3] == [
        "ok       memory  enough",
        "problem  lo      it is absent",
        "                 -> ip link set lo up",
    ]
    assert text.endswith("\n\n1 problem, 2 warnings")
    assert as_text([well]).endswith("\n\nall is well")
    assert has_problems([well, ill]) and not has_problems([well])


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warning", 0), ("problem", 1)])
def test_the_command_ends_with_1_where_there_is_a_problem(
    state: Any, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Finding(check="lo", state=state, says="as it is", mend="mend it")]
    monkeypatch.setattr("latentloom.pipelines.doctor.examine.examine", lambda **_: found)
    assert main(["doctor"]) == code
    assert "as it is" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out) == [dataclasses.asdict(found[0])]
