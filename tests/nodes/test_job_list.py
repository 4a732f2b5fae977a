"""Several files, and lines that name them, as the points of one run; their folders, their shares, and what stays."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from latentloom.nodes.execution.events import Event
from latentloom.nodes.graph.graph import graph_text
from latentloom.nodes.headless import headless, job, job_list
from latentloom.nodes.headless.headless import Report, Tally, run_headless
from latentloom.nodes.headless.job import Headless
from latentloom.nodes.headless.job_list import read_jobs, share
from latentloom.nodes.headless.lifetime import claimed

Asked = Callable[..., Headless]
PARAMS = {"seed": {"type": "int", "default": 1, "min": 0}, "text": {"type": "string", "default": "a/b"}}


@pytest.fixture
def asked(toys: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """`asked("a.json", name="{seed}")`, or with `lines`: a job list of the workflows a.json and b.json."""
    monkeypatch.chdir(tmp_path)
    for module in (headless, job):
        monkeypatch.setattr(module, "SPECS", toys.SPECS)
    nodes = {"n": ("Number", {"value": "$seed"}), "show": ("Show", {"text": "$text"})}
    for name in ("a", "b"):
        graph = toys.graph(nodes, params=PARAMS, outputs={f"{name}_made": "n.int"})
        (tmp_path / f"{name}.json").write_text(graph_text(graph))

    def ask(*files: str, lines: Any = None, settings: Any = (), sweeps: Any = (), name: str = "") -> Headless:
        if lines is not None:
            text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
            (tmp_path / "jobs.jsonl").write_text(text)
        jobs = None if lines is None else Path("jobs.jsonl")
        given: dict[str, Any] = {"settings": settings, "sweeps": sweeps, "allowed": (), "name": name}
        return read_jobs([*map(Path, files)], jobs, out=Path("out"), **given)

    return ask


def folders(job: Headless) -> list[str]:
    return [point.folder.as_posix() for point in job.points]


def made(job: Headless, **changed: Any) -> tuple[list[Report], Tally, list[Event]]:
    events: list[Event] = []
    tally = Tally(len(job.points) + len(job.refused))
    return list(run_headless(replace(job, **changed), tally, sink=events.append)), tally, events


def test_several_files_are_points_of_one_run_each_in_a_folder_of_its_own(asked: Asked) -> None:
    job = asked("a.json", "b.json", settings=["text=x"], sweeps=["seed=1,2"])
    assert folders(job) == ["out/a/seed=1", "out/a/seed=2", "out/b/seed=1", "out/b/seed=2"]
    reports, tally, events = made(job)
    told = [(r.point, r.workflow, r.state, r.outputs) for r in reports]
    assert told == [
        (1, "a.json", "ok", {"a_made": 1}),
        (2, "a.json", "ok", {"a_made": 2}),
        (3, "b.json", "ok", {"b_made": 1}),
        (4, "b.json", "ok", {"b_made": 2}),
    ]
    assert {(e.point, e.workflow) for e in events} == {(point, file) for point, file, *_ in told}
    assert {"point": 3, "workflow": "b.json"}.items() <= reports[2].to_plain().items()
    assert (tally.state, tally.counts["ok"], tally.num_runs) == ("ok", 4, 4)


def test_one_file_stays_as_it_was(asked: Asked) -> None:
    assert folders(asked("a.json")) == ["out"]
    assert folders(asked("a.json", sweeps=["seed=4"])) == ["out/seed=4"]
    report = made(asked("a.json"))[0][0]
    assert "workflow" not in report.to_plain()


def test_lines_are_jobs_with_values_sweeps_and_folders_of_their_own(asked: Asked) -> None:
    lines = [
        {"workflow": "a.json", "params": {"seed": 3}},
        "",
        {"workflow": "b.json", "params": {"seed": 3, "text": "hi"}, "out": "shots/one"},
        {"workflow": "a.json", "sweep": ["seed=1..5:2"], "out": "many"},
        {"workflow": "b.json"},
    ]
    job = asked(lines=lines, settings=["text=t"])
    many = [f"out/many/seed={seed}" for seed in (1, 3, 5)]
    assert folders(job) == ["out/a/seed=3", "out/shots/one", *many, "out/b"]
    assert [point.number for point in job.points] == [1, 2, 3, 4, 5, 6]
    assert [point.overrides["text"] for point in job.points] == ["t", "hi", "t", "t", "t", "t"]
    assert {report.state for report in made(job)[0]} == {"ok"}
    assert {report.state for report in made(job, resume=True)[0]} == {"resumed"}


def test_what_a_line_gives_comes_before_what_the_command_gives(asked: Asked) -> None:
    job = asked(lines=[{"workflow": "a.json", "params": {"seed": 3}}, {"workflow": "a.json"}], settings=["seed=9"])
    assert [point.overrides["seed"] for point in job.points] == [3, 9]


def test_a_list_comes_from_standard_input(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.BytesIO(b'{"workflow": "a.json"}\r\n\r\n{"workflow": "b.json"}')
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=text))
    given: dict[str, Any] = {"settings": (), "sweeps": (), "allowed": ()}
    assert folders(read_jobs([], Path("-"), out=Path("out"), **given)) == ["out/a", "out/b"]


WRONG: Mapping[str, Any] = {
    "line 1: the file is not JSON": "no json",
    "line 2: 'seed' names no workflow; write a job as": '"seed"',
    "line 3: a job has no 'param'; did you mean 'params'?": {"workflow": "a.json", "param": {}},
    "line 4: sweep is 'seed=1..4'; write a job as {": {"workflow": "a.json", "sweep": "seed=1..4"},
    "line 5: c.json does not exist": {"workflow": "c.json"},
    "line 6: 'sed' is no param of this workflow; did you mean 'seed'?": {"workflow": "a.json", "params": {"sed": 1}},
    "line 7: seed is 1.5; it takes a whole number": {"workflow": "a.json", "params": {"seed": 1.5}},
    "line 8: out is '../x'; give a name inside the output folder": {"workflow": "a.json", "out": "../x"},
    "line 9: --set seed and --sweep seed give the same value": {
        **{"workflow": "a.json", "params": {"seed": 1}, "sweep": ["seed=1,2"]}
    },
    "line 10: the file is not JSON that we read": '{"workflow": "a.json", "out": "x", "out": "y"}',
}


def test_a_wrong_line_is_named_by_its_number_and_the_others_are_made(asked: Asked) -> None:
    reports, tally, _ = made(asked(lines=[*WRONG.values(), {"workflow": "a.json", "out": "x"}]))
    assert [report.point for report in reports] == [*range(1, 12)]
    for words, report in zip(WRONG, reports, strict=False):
        assert report.error.startswith(words) and "\n" not in report.error
    assert [report.state for report in reports] == ["failed"] * 10 + ["ok"]
    assert (tally.state, len(tally.failures), tally.is_retryable) == ("failed", 10, False)


def test_where_all_lines_are_wrong_nothing_is_run_and_all_are_named(asked: Asked, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 1: c.json does not exist.*\nline 2: 'd' names no workflow"):
        made(asked(lines=[{"workflow": "c.json"}, '"d"']))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("files", "lines", "words"),
    [
        ([], None, "no workflow is named; give one or several files, or --jobs with a list of them"),
        (["a.json"], [], "files and --jobs are both given"),
        ([], ["", " "], "jobs.jsonl has no jobs; write one on each line, such as"),
        (["a.json", "c.json"], None, "c.json: c.json does not exist"),
        (["a.json", "a.json"], None, "a.json would write into out/a, as a.json does; give each an out of its own, or"),
        ([], [{"workflow": "a.json", "out": "x"}, {"workflow": "b.json", "out": "x"}], "line 2 would write into out/x"),
    ],
)
def test_what_is_no_list_is_refused(files: list[str], lines: Any, words: str, asked: Asked) -> None:
    with pytest.raises(ValueError) as caught:
        made(asked(*files, lines=lines))
    assert words in str(caught.value)


def test_a_list_has_no_more_runs_than_a_sweep(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_list, "MAX_RUNS", 3)
    two = {"workflow": "a.json", "sweep": ["seed=1,2"]}
    assert len(asked(lines=[two, {"workflow": "b.json"}]).points) == 3
    with pytest.raises(ValueError, match="the list asks for more than 3 runs"):
        asked(lines=[two, two | {"out": "other"}])


def test_a_list_with_a_wrong_line_that_was_asked_to_end_is_to_be_gone_on_with(asked: Asked) -> None:
    job = asked(lines=[{"workflow": "a.json"}, "no json", {"workflow": "b.json"}])
    tally = Tally(3)
    for _ in run_headless(job, tally):  # the wrong line comes first
        tally.finish.set()
    assert (tally.state, tally.num_left, tally.is_retryable) == ("ended", 2, True)
    assert made(job)[1].is_retryable is False  # all was tried


def test_a_run_of_a_list_that_another_process_makes_is_left_to_it(asked: Asked) -> None:
    job = asked("a.json", "b.json")
    with claimed(Path("out/a")):
        reports, tally, _ = made(job, resume=True)
    assert [(report.workflow, report.state) for report in reports] == [("b.json", "ok"), ("a.json", "busy")]
    assert tally.num_left == 1


# ---- Names.


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("{workflow}-{seed}-{index:04}", "out/a-7-0001"),
        ("{workflow}/{text}", "out/a/a_b"),
        ("{n.value:03}", "out/007"),
    ],
)
def test_names_are_made_of_tokens(name: str, folder: str, asked: Asked) -> None:
    settings = ["n.value=7"] if "n.value" in name else ["seed=7"]
    assert folders(asked("a.json", settings=settings, name=name)) == [folder]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{sed}", "--name {sed}: there is no {sed}; did you mean 'seed'?"),
        ("{seed", "--name {seed: "),
        ("{text:d}", "--name {text:d}: "),
        ("{text.__class__}", "there is no {text.__class__}"),
        ("../x{{}}", "--name ../x{{}} gives '../x{}'; write a name, such as {workflow}-{index:04}"),
    ],
)
def test_what_is_no_name_is_refused(name: str, words: str, asked: Asked) -> None:
    with pytest.raises(ValueError) as caught:
        asked("a.json", name=name)
    assert words in str(caught.value)


def test_names_that_are_alike_or_of_another_result_get_numbers(asked: Asked) -> None:
    job = asked("a.json", "b.json", sweeps=["seed=1,2"], name="{workflow}")
    assert folders(job) == ["out/a", "out/a-2", "out/b", "out/b-2"]
    made(job)
    again = asked("a.json", "b.json", sweeps=["seed=1,2"], name="{workflow}")
    assert folders(again) == folders(job)
    assert {report.state for report in made(again, resume=True)[0]} == {"resumed"}
    assert folders(asked("a.json", settings=["seed=2"], name="{workflow}")) == ["out/a-2"]
    assert folders(asked("a.json", settings=["seed=3"], name="{workflow}")) == ["out/a-3"]


# ---- Shares.

ARRAY = {"SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_MIN": "1"}


def test_shares_make_all_and_nothing_twice(asked: Asked) -> None:
    lines = [*({"workflow": "a.json", "params": {"seed": seed}} for seed in range(6)), {"workflow": "c.json"}]
    job = asked(lines=lines)
    shares = [share(job, f"{index}/3", {}) for index in range(3)]
    assert [[point.number for point in each.points] for each in shares] == [[1, 4], [2, 5], [3, 6]]
    assert [[*each.refused] for each in shares] == [[7], [], []]
    assert [report.point for report in made(shares[1])[0]] == [2, 5]
    empty = share(asked("a.json", "b.json"), "5/6", {})
    assert made(empty)[0] == [] and empty.is_sweep


@pytest.mark.parametrize(
    ("environment", "numbers"),
    [
        ({}, [1, 2, 3, 4]),
        ({"SLURM_ARRAY_TASK_ID": "1", **ARRAY}, [1, 3]),
        ({"SLURM_ARRAY_TASK_ID": "2", **ARRAY}, [2, 4]),
        ({"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_STEP": "4", **ARRAY, "SLURM_ARRAY_TASK_MIN": "0"}, [2, 4]),
        ({"JOB_COMPLETION_INDEX": "3", "JOB_COMPLETIONS": "4"}, [4]),
        ({"JOB_COMPLETION_INDEX": "3"}, [1, 2, 3, 4]),
    ],
)
def test_a_task_of_an_array_has_its_share(
    environment: dict[str, str], numbers: list[int], asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    found = share(asked("a.json", sweeps=["seed=1..4"]), "", environment)
    assert [point.number for point in found.points] == numbers
    assert len(caplog.messages) == bool(environment)


@pytest.mark.parametrize("text", ["3/3", "1", "a/b", "-1/3", "1/0"])
def test_what_is_no_share_is_refused(text: str, asked: Asked) -> None:
    with pytest.raises(ValueError, match=r"which is no share; write --shard I/N with I from 0 to N-1, such as 0/3"):
        share(asked("a.json"), text, {})


@pytest.mark.parametrize("step", ["1", "4"])
def test_a_task_whose_array_has_gaps_is_refused(step: str, asked: Asked) -> None:
    task = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_STEP": step, **ARRAY}
    with pytest.raises(ValueError, match=r"SLURM_ARRAY_TASK_ID gives '.*', which is no share; write --shard I/N"):
        share(asked("a.json", "b.json"), "", task)
