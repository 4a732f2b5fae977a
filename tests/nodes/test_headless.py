"""Sweeps without a page: past failures, again, beside another process."""

import dataclasses
import json
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from latentloom.nodes.execution.events import Event
from latentloom.nodes.execution.preflight import Foretold
from latentloom.nodes.execution.records import RunResult
from latentloom.nodes.graph.graph import graph_from_plain, graph_to_plain
from latentloom.nodes.graph.problems import Problem
from latentloom.nodes.headless import foretold, headless, job
from latentloom.nodes.headless.headless import MOST_FAULTS, Report, Tally, run_headless
from latentloom.nodes.headless.job import points_of
from latentloom.nodes.headless.job_list import as_job
from latentloom.nodes.headless.lifetime import LOCK_FILE, InUse, claimed
from support.prepared import spied

Sweep = Callable[..., tuple[list[Report], Tally]]


@pytest.fixture
def sweep(toys: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """`sweep({"read.path": ["a", "b"]})` runs a workflow that reads a file; its reports, and what they come to."""
    for module in (headless, job):
        monkeypatch.setattr(module, "SPECS", toys.SPECS)
    nodes = {"read": ("ReadText", {"path": "a"}), "show": ("Show", {"text": "@read.string"}), "f": ("Number", {})}

    def run(points: Mapping[str, Sequence[Any]], graph: Any = None, **options: Any) -> tuple[list[Report], Tally]:
        (name, values) = next(iter(points.items()))
        stops = options.pop("stops_on_error", False)
        watching = {key: options.pop(key) for key in ("sink", "cancel") if key in options}
        tally = Tally(len(values), stops_on_error=stops)
        out, varied = tmp_path / "out", [{name: value} for value in values]
        asked = {"file": tmp_path / "w.json", "roots": (tmp_path,), "out": out}
        found = points_of(graph or toys.graph(nodes), {}, varied, **asked)
        job = dataclasses.replace(as_job(found, out=out), **options)
        return list(run_headless(job, tally, **watching)), tally

    return run


def told(reports: Sequence[Report]) -> list[tuple[str, str]]:
    return [(report.folder.name.partition("=")[2], report.state) for report in reports]


def test_one_run_is_prepared_once_and_each_of_a_sweep_for_its_check_and_its_run(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    notes = spied(monkeypatch)
    assert told(sweep({"read.path": ["a"]})[0]) == [("a", "ok")] and len(notes) == 1
    notes.clear()
    assert told(sweep({"read.path": ["a", "b"]})[0]) == [("a", "ok"), ("b", "ok")] and len(notes) == 4


@pytest.mark.parametrize("width", [1, 3])
def test_what_failed_is_passed_by_and_tried_again_last(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(headless, "width_of", lambda place: width)
    for name in "ad":
        (tmp_path / name).write_text(name)
    reports, tally = sweep({"read.path": ["a", "b", "c", "d"]})
    assert told(reports) == [("a", "ok"), ("b", "failed"), ("c", "failed"), ("d", "ok")]
    assert (tally.state, tally.num_left, [each.overrides for each in tally.failures]) == (
        *("failed", 0),
        [{"read.path": "b"}, {"read.path": "c"}],
    )
    for name in "ce":
        (tmp_path / name).write_text(name)
    reports, _ = sweep({"read.path": ["a", "b", "c", "d", "e"]}, resume=True)
    assert told(reports) == [("a", "resumed"), ("d", "resumed"), ("e", "ok"), ("b", "failed"), ("c", "ok")]


def test_it_stops_at_the_first_error_where_that_is_asked(sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    reports, tally = sweep({"read.path": ["a", "b", "c"]}, stops_on_error=True)
    assert told(reports) == [("a", "failed")]
    assert (tally.num_left, tally.why_ended) == (2, "it was asked to stop at the first error")


@pytest.mark.parametrize(
    ("kind", "most", "code"), [("memory", 2, "out-of-memory"), ("type", 2, "node-failed"), ("value", 4, "bad-input")]
)
def test_the_same_failure_in_a_row_ends_a_sweep_soon_where_the_machine_is_at_fault(
    sweep: Sweep, toys: ModuleType, kind: str, most: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latentloom.nodes.headless.headless.MOST_FAULTS", 2)
    monkeypatch.setattr("latentloom.nodes.headless.headless.MOST_REFUSED", 4)
    graph = toys.graph({"f": ("Fail", {"kind": kind}), "n": ("Number", {})}, outputs={"x": "f.float", "n": "n.int"})
    reports, tally = sweep({"n.value": range(6)}, graph)
    assert len(reports) == most and tally.num_left == 6 - most
    told = [*(report.to_plain() for report in reports), *tally.to_plain()["failures"]]
    assert {each["code"] for each in told} == {code}
    assert tally.to_plain()["why_ended"] == f"{most} runs in a row failed for the same reason"
    reports, tally = sweep({"f.value": range(6)}, graph)  # a refusal has the value in its sentence
    assert len(reports) == (6 if kind == "value" else most)


def test_a_run_that_succeeds_between_failures_has_them_counted_anew_and_one_without_manifest_is_no_success() -> None:
    made, full = RunResult(run="r", state="ok", outputs={}, nodes={}, seconds=1.0), ValueError("the disk is full")
    failed, good, untold = (
        Report(point=1, folder=Path("out"), overrides={}, result=result, problem=problem)
        for result, problem in ((None, full), (made, None), (made, full))
    )
    tally = Tally(3 * MOST_FAULTS)
    for report in (*[failed] * (MOST_FAULTS - 1), good, failed):
        tally.add(report)
    assert (good.state, untold.state, tally.why_ended) == ("ok", "failed", "")


def test_a_cancel_ends_a_sweep_that_has_failures(sweep: Sweep, toys: ModuleType) -> None:
    cancel = threading.Event()

    def sink(event: Event) -> None:
        if event.kind == "run_failed":
            cancel.set()

    graph = toys.graph({"f": ("Fail", {})}, outputs={"x": "f.float"})
    reports, tally = sweep({"f.value": range(5)}, graph, sink=sink, cancel=cancel)
    assert [report.state for report in reports] == ["failed", "cancelled"]
    assert (tally.state, tally.num_left) == ("cancelled", 4)


def test_a_folder_that_cannot_be_written_fails_its_own_run_only(sweep: Sweep, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "read.path=a").write_text("a file in the way")
    reports, _ = sweep({"read.path": ["a", "b"]})
    assert told(reports) == [("a", "failed"), ("b", "ok")] and "cannot be written" in reports[0].error
    assert [report.code for report in reports] == ["not-written", ""]


def test_a_run_that_another_process_makes_is_left_to_it_with_resume(sweep: Sweep, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    with claimed(tmp_path / "out" / "read.path=a"):
        reports, tally = sweep({"read.path": ["a", "b"]}, resume=True)
        assert told(reports) == [("b", "ok"), ("a", "busy")]
        assert tally.state == "ok" and "is being written by process" in reports[1].error
        for values, resume in ((["a", "b"], False), (["a"], False), (["a"], True)):
            with pytest.raises(InUse, match=r"is being written by process \d+"):
                sweep({"read.path": values}, resume=resume)
    assert told(sweep({"read.path": ["a", "b"]}, resume=True)[0]) == [("a", "ok"), ("b", "resumed")]


def test_what_another_process_makes_meanwhile_is_found_in_the_end(
    sweep: Sweep, toys: ModuleType, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    sweep({"read.path": ["a"]}, resume=True)  # as the other process will leave it
    manifest = tmp_path / "out" / "read.path=a" / "manifest.json"
    text = manifest.read_text()
    manifest.unlink()
    claim = claimed(manifest.parent)
    claim.__enter__()

    def sink(event: Event) -> None:
        if event.kind == "run_finished":
            manifest.write_text(text)
            claim.__exit__(None, None, None)

    reports, _ = sweep({"read.path": ["a", "b"]}, resume=True, sink=sink)
    assert told(reports) == [("b", "ok"), ("a", "resumed")]
    assert toys.CALLS.count("read_text") == 2


def test_nothing_but_results_stays_in_the_folders(sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "out" / "read.path=a").mkdir(parents=True)
    (tmp_path / "out" / "read.path=a" / LOCK_FILE).touch()  # of a process that was killed
    sweep({"read.path": ["a", "b"]})
    files = sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert [path.as_posix() for path in files] == ["read.path=a/manifest.json", "read.path=b/manifest.json"]
    assert json.loads((tmp_path / "out" / files[0]).read_text())["state"] == "failed"


def test_resume_passes_by_what_is_there_though_it_would_not_fit_now(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x")
    sweep({"read.path": ["a"]})
    large = [Problem("read", "", "memory", "it does not fit", kind="estimate")]
    monkeypatch.setattr(foretold, "foretell", lambda *args, **kwargs: Foretold(problems=large))
    assert told(sweep({"read.path": ["a", "b"]}, resume=True)[0]) == [("b", "failed"), ("a", "resumed")]
    assert told(sweep({"read.path": ["a", "b"]}, resume=True, stops_on_error=True)[0]) == [("b", "failed")]


def test_what_is_there_takes_no_room_of_the_disk_with_resume(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    sweep({"read.path": ["a"]})
    monkeypatch.setattr(foretold, "foretell", lambda *args, **kwargs: Foretold(problems=[], num_bytes=3 << 20))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=7 << 20, total=8 << 30))
    points = {"read.path": ["a", "b", "c"]}
    assert told(sweep(points, resume=True)[0]) == [("a", "resumed"), ("b", "ok"), ("c", "ok")]
    reports, _ = sweep(points)
    assert told(reports) == [("c", "failed"), ("a", "ok"), ("b", "ok")] and "9 MiB to " in reports[0].error
    assert told(sweep(points, is_forced=True)[0]) == [("a", "ok"), ("b", "ok"), ("c", "ok")]


def test_resume_passes_by_what_only_the_user_s_own_keys_changed(sweep: Sweep, toys: ModuleType, tmp_path: Path) -> None:
    def saving(**own: Any) -> Any:
        nodes = {"p": ("Picture", {"value": 1}), "s": ("Save", {"image": "@p.image"})}
        graph = toys.graph(nodes)
        return graph_from_plain({**graph_to_plain(graph), **own})

    points = {"p.value": [1, 2]}
    sweep(points, saving(meta={"ticket": 1}))
    told_meta = json.loads((tmp_path / "out" / "p.value=1" / "manifest.json").read_text())["workflow"]["meta"]
    assert told_meta == {"ticket": 1}
    for own in ({"meta": {"ticket": 2}}, {}, {"$schema": "x.json", "meta": {"ticket": [1.5, None]}}):
        assert [report.state for report in sweep(points, saving(**own), resume=True)[0]] == ["resumed"] * 2
    assert toys.CALLS.count("save") == 2
    assert [report.state for report in sweep(points, saving(name="other"), resume=True)[0]] == ["ok"] * 2
