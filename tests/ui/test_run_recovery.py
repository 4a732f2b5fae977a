"""A server that starts again: what waited waits in the same order, what ran goes first, what was made is there."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from latentloom.ui.live.live import Live, PageSeen
from latentloom.ui.live.state import AGAIN, GIVEN_UP, MAX_RESTARTS, NodeState, Outcome, RunRecord, order_of, recovered
from latentloom.ui.runs import runs as runs_module
from latentloom.ui.runs.book import RunBook
from latentloom.ui.runs.queue import RunQueue
from latentloom.ui.runs.records import RunRecords
from latentloom.ui.runs.results import ResultFilter, Results
from support.toy_server import DEADLINE_S, OPEN, ORDER, REACHED, finished, gated, pictured, reset, runs_in, settings_in

TESTS = Path(__file__).resolve().parent.parent

KILLED = """
import sys, pathlib
sys.path[:0] = [{tests!r}]
import support.checkout
from support.toy_server import DEADLINE_S, REACHED, finished, gated, pictured, settings_in, SPECS
from latentloom.ui.live.live import Live
from latentloom.ui.runs.runs import Runs
runs = Runs(settings_in(pathlib.Path({folder!r})), Live(), specs=SPECS)
done = runs.submit("ada", pictured()).runs[0]
finished(runs, "ada", done)
held = runs.submit("ada", gated("held")).runs[0]
assert REACHED["held"].wait(DEADLINE_S)
mine = [runs.submit("ada", gated(name)).runs[0] for name in "ab"]
other = runs.submit("bob", gated("other")).runs[0]
runs.book.move("ada", mine[1], mine[0])
print(done, held, *mine, other, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def fresh() -> None:
    reset()


def test_a_killed_server_loses_nothing(tmp_path: Path) -> None:
    code = KILLED.format(tests=str(TESTS), folder=str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        done, held, a, b, other = server.stdout.readline().split()
        server.send_signal(signal.SIGKILL)
        assert server.wait(DEADLINE_S) == -signal.SIGKILL
    with runs_in(tmp_path) as runs:
        assert REACHED["held"].wait(DEADLINE_S)
        assert runs.book.get("ada", held).note == AGAIN
        results = Results(settings_in(tmp_path), runs)
        [result] = results.list("ada", ResultFilter())
        assert result.run == done and results.path("ada", result.id).is_file()
        for name in ("held", "a", "b", "other"):
            OPEN[name].set()
        for user, id in [("ada", held), ("ada", a), ("ada", b), ("bob", other)]:
            assert finished(runs, user, id).state == "done"
    assert ORDER == ["held", "other", "b", "a"]


def test_a_server_that_ends_in_order_leaves_its_run_to_the_next_one(tmp_path: Path) -> None:
    with runs_in(tmp_path) as runs:
        id = runs.submit("ada", gated("gate")).runs[0]
        assert REACHED["gate"].wait(DEADLINE_S)
    OPEN["gate"].set()
    with runs_in(tmp_path) as runs:
        run = finished(runs, "ada", id)
    assert (run.state, run.note, run.restarts) == ("done", AGAIN, 0)
    assert ORDER == ["gate", "gate"]


def test_a_run_is_not_given_up_for_servers_that_end_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where its step takes longer than the server waits."""
    monkeypatch.setattr(runs_module, "CLOSE_S", 0.01)
    with runs_in(tmp_path) as runs:
        held, later = (runs.submit("ada", gated(name)).runs[0] for name in ("held", "later"))
        assert REACHED["held"].wait(DEADLINE_S)
        monkeypatch.setattr(runs.book, "end", lambda id, outcome: None)  # as if the step never ended
    kept = {run.id: run for run in RunRecords(tmp_path / "data").all()}
    assert {(run.state, run.restarts) for run in kept.values()} == {("waiting", 0)}
    assert RunRecords(tmp_path / "data").read_order() == [held, later]


def test_a_run_that_ends_while_the_server_does_is_done(tmp_path: Path) -> None:
    records = RunRecords(tmp_path)
    book = RunBook(records, Live())
    book.add([make("a" * 16, "waiting")], gated("gate"))
    assert book.begin_next(lambda run: True)
    book.stop_all()
    book.end("a" * 16, Outcome(state="done"))
    assert [run.state for run in records.all()] == ["done"]


def test_a_page_that_comes_back_is_told_what_was_and_what_waits(tmp_path: Path) -> None:
    with runs_in(tmp_path) as runs:
        finished(runs, "ada", runs.submit("ada", pictured()).runs[0])
    live = Live()
    with runs_in(tmp_path, live):
        message = live.changes("ada", PageSeen())
    assert message is not None and message.full
    [told] = message.runs.values()
    assert told.state == "done" and told.nodes["save"].files != ()


def test_a_batch_keeps_its_order(tmp_path: Path) -> None:
    with runs_in(tmp_path) as runs:
        ids = runs.submit("ada", pictured(), sweep=["value=1..6"]).runs
        for id in ids:
            finished(runs, "ada", id)
    with runs_in(tmp_path) as runs:
        assert [run.id for run in runs.list("ada")] == list(reversed(ids))


def test_damaged_records_are_put_aside(tmp_path: Path) -> None:
    with runs_in(tmp_path) as runs:
        good, bad, moved = (finished(runs, "ada", runs.submit("ada", pictured()).runs[0]).id for _ in range(3))
    [folder] = (tmp_path / "data").glob("users/*/runs")
    (folder / f"{bad}.json").write_text('{"id": "half')
    (folder / f"{moved}.json").rename(folder / "elsewhere.json")
    (tmp_path / "data" / "queue.json").write_text("[[[")
    with runs_in(tmp_path) as runs:
        assert [run.id for run in runs.list("ada")] == [good]
    assert (folder / f"{bad}.json.damaged").is_file()
    assert (folder / "elsewhere.json.damaged").is_file()


def test_a_run_whose_workflow_is_damaged_fails_in_words(tmp_path: Path) -> None:
    with runs_in(tmp_path) as runs:
        held = runs.submit("ada", gated("held")).runs[0]
        assert REACHED["held"].wait(DEADLINE_S)
        batch = runs.submit("ada", gated("lost"))
    [path] = (tmp_path / "data").glob(f"users/*/batches/{batch.batch}.json")
    path.write_text("not json")
    OPEN["held"].set()
    with runs_in(tmp_path) as runs:
        finished(runs, "ada", held)
        run = finished(runs, "ada", batch.runs[0])
    assert run.state == "failed" and "could not be read again" in run.error


def make(id: str, state: str, **fields: object) -> RunRecord:
    known = {"batch": "0" * 16, "user": "ada", "name": "n", "created": 1.0, "folder": "f", **fields}
    return RunRecord.model_validate({"id": id, "state": state, "nodes": {"a": NodeState(state="running")}, **known})


waits = partial(make, state="waiting")


def test_a_run_that_ends_the_server_again_and_again_is_given_up() -> None:
    run = make("a", "running", started=5.0)
    for _ in range(MAX_RESTARTS):
        again = recovered(run, now=9.0)
        assert (again.state, again.started, again.nodes["a"].state) == ("waiting", None, "waiting")
        run = again.model_copy(update={"state": "running"})
    given_up = recovered(run, now=9.0)
    assert (given_up.state, given_up.error, given_up.ended) == ("failed", GIVEN_UP, 9.0)
    assert given_up.nodes["a"].state == "skipped"


def test_what_ran_comes_first_then_the_order_of_the_queue_then_time() -> None:
    runs = [
        make("done", "done"),
        make("young", "waiting", created=8.0),
        make("old", "waiting", created=7.0),
        make("second", "waiting"),
        make("first", "waiting"),
        make("ran_late", "running", started=3.0),
        make("ran_early", "running", started=2.0),
    ]
    order = ["ran_late", "first", "second", "gone"]
    assert order_of(runs, order) == ["ran_early", "ran_late", "first", "second", "old", "young"]


def test_a_state_that_cannot_be_kept_is_said_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run: RunRecord) -> None:
        raise ValueError("the disk is full")

    with runs_in(tmp_path) as runs:
        id = runs.submit("ada", gated("gate")).runs[0]
        assert REACHED["gate"].wait(DEADLINE_S)
        monkeypatch.setattr(runs.book.records, "write", refuse)
        OPEN["gate"].set()
        run = finished(runs, "ada", id)
    assert run.state == "done" and "the disk is full" in runs.book.get("ada", id).note


def test_a_batch_that_cannot_be_kept_is_refused_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RunRecords(tmp_path)
    book = RunBook(records, Live())
    written: list[str] = []
    write = records.write

    def refuse_second(run: RunRecord) -> None:
        if written:
            raise ValueError("the disk is full")
        write(run)
        written.append(run.id)

    monkeypatch.setattr(records, "write", refuse_second)
    with pytest.raises(ValueError, match="disk is full"):
        book.add([make("a" * 16, "waiting"), make("b" * 16, "waiting")], gated("gate"))
    assert book.of("ada") == [] and list(tmp_path.glob("users/*/*/*.json")) == []


def test_what_is_kept_names_no_default(tmp_path: Path) -> None:
    with runs_in(tmp_path) as runs:
        id = finished(runs, "ada", runs.submit("ada", pictured()).runs[0]).id
    [path] = (tmp_path / "data").glob(f"users/*/runs/{id}.json")
    assert json.loads(path.read_text())["nodes"]["picture"].keys() <= {"state", "started", "seconds"}


def test_a_run_that_was_being_cancelled_is_not_begun_again() -> None:
    run = recovered(make("a", "running", is_ending=True), now=9.0)
    assert (run.state, run.nodes["a"].state, run.row().note) == ("cancelled", "skipped", "")


def test_users_take_turns_as_they_were_told_before_the_server_ended() -> None:
    kept: list[Sequence[str]] = []
    queue = RunQueue(kept.append)
    queue.add(waits(f"a{n}", user="ada") for n in range(3))
    queue.take()
    queue.add([waits("idle", user="bob", priority="idle"), waits("b1", user="bob")])
    queue.add([waits("c1", user="cyd"), waits("a3", user="ada", priority="next")])
    assert queue.ids == ("b1", "c1", "a3", "a1", "a2", "idle") == tuple(kept[-1])
    queue.take()
    left = queue.waiting
    again = RunQueue(kept.append)
    again.add(left)
    assert again.ids == queue.ids == ("c1", "a3", "a1", "a2", "idle")
    again = RunQueue(kept.append)
    again.add([waits("b1", user="bob"), *left, *(waits(id, user="ada", is_back=True) for id in "xy")])
    assert again.ids[:3] == ("x", "y", "b1"), "what was under way goes first"
    again.take()
    assert again.ids[:2] == ("y", "b1")
