"""Runs on the server: what they make and say, their order, sweeps, cancelling, deleting, and what is refused."""

import dataclasses
import json
import platform
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latentloom.nodes.execution.events import Event
from latentloom.nodes.execution.manifest import Told
from latentloom.nodes.execution.watch import Token
from latentloom.nodes.files.picture_files import WORKFLOW_KEY, read_metadata
from latentloom.nodes.graph.graph import read_graph
from latentloom.nodes.graph.problems import GraphError
from latentloom.pipelines.values import Place
from latentloom.ui.errors import Conflict, NotHere
from latentloom.ui.live.live import Live, PageSeen
from latentloom.ui.live.state import Outcome, RunRecord
from latentloom.ui.runs import runs as runs_module
from latentloom.ui.runs.results import Results
from latentloom.ui.runs.runs import Runs
from latentloom.ui.runs.workers import RunWorkers
from latentloom.ui.settings import MAX_WAITING
from support.checkout import ROOT
from support.prepared import spied
from support.toy_server import (
    DEADLINE_S,
    OPEN,
    ORDER,
    REACHED,
    finished,
    gated,
    graph,
    pictured,
    reset,
    runs_in,
    settings_in,
    until,
)


def one(runs: Runs, workflow: Any, user: str = "ada", **parts: Any) -> str:
    return runs.submit(user, workflow, **parts).runs[0]


def test_a_run_makes_a_result_and_tells_how_each_node_did(runs: Runs, tmp_path: Path) -> None:
    run = finished(runs, "ada", one(runs, pictured()))
    assert (run.state, run.error) == ("done", "")
    assert {name: node.state for name, node in run.nodes.items()} == {"picture": "done", "save": "done"}
    [made] = run.made
    assert (made.kind, made.node, made.width, made.height, made.name) == ("image", "save", 8, 8, "star.png")
    assert run.nodes["save"].files == (made.id,)
    assert (tmp_path / "out" / made.path).is_file()
    assert (tmp_path / "out" / run.folder / "manifest.json").is_file()


def test_a_run_is_prepared_once_when_it_is_put_into_the_queue_and_once_where_it_is_made(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = spied(monkeypatch, lambda: threading.get_ident())
    run = finished(runs, "ada", one(runs, pictured()))
    assert run.state == "done" and threads.count(threading.get_ident()) == 1 and len(threads) == 2


def test_what_an_earlier_run_made_is_taken_from_memory_and_the_node_says_why(runs: Runs) -> None:
    finished(runs, "ada", one(runs, pictured()))
    run = finished(runs, "ada", one(runs, pictured()))
    node = run.nodes["picture"]
    assert (node.state, node.cached) == ("cached", "memory")
    assert node.message == "unchanged since an earlier run; taken from memory"
    assert len(run.made) == 1


def kept(runs: Runs, user: str) -> str:
    """Where another run of the user's finds its picture."""
    node = finished(runs, user, one(runs, pictured(), user)).nodes["picture"]
    return node.cached if node.state == "cached" else node.state


def test_users_who_log_in_find_only_what_they_made_themselves(tmp_path: Path) -> None:
    reset()
    users = {"ada": "x", "bob": "x"}
    with runs_in(tmp_path, users=users) as runs:
        assert [kept(runs, user) for user in ("ada", "bob", "ada", "bob")] == ["done", "done", "memory", "memory"]
    with runs_in(tmp_path, users={**users, "eve": "x", "local": "x"}) as runs:  # memory is empty, the disk is not
        assert [kept(runs, user) for user in ("ada", "bob", "eve", "local")] == ["disk", "disk", "done", "done"]


def test_a_fresh_data_folder_has_a_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reset()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "account"))
    for name in ("one", "two"):
        with runs_in(tmp_path / name) as runs:
            assert kept(runs, "ada") == "done"
    with runs_in(tmp_path / "one") as runs:
        assert kept(runs, "ada") == "disk"
    assert not (tmp_path / "account").exists()


def test_a_cache_that_the_owner_shares_does_not_say_whose_it_is(tmp_path: Path) -> None:
    reset()
    shared = {"shared_cache_dir": tmp_path / "shared"}
    with runs_in(tmp_path / "one", **shared) as runs:
        assert kept(runs, "ada") == "done"
    with runs_in(tmp_path / "two", **shared) as runs:
        node = finished(runs, "ada", one(runs, pictured())).nodes["picture"]
    assert node.cached == "shared" and "here or by another program" in node.message


def test_where_users_log_in_a_cache_of_the_owners_holds_what_they_made_themselves(tmp_path: Path) -> None:
    reset()
    shared = {"shared_cache_dir": tmp_path / "shared", "users": {"ada": "x"}}
    for name, became in (("one", "done"), ("two", "disk")):
        with runs_in(tmp_path / name, **shared) as runs:
            assert kept(runs, "ada") == became


def test_a_run_from_before_the_choice_of_noise_is_opened_with_what_it_had(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = one(runs, pictured())
    finished(runs, "ada", id)
    monkeypatch.setattr(Told, "is_drawn_by_diffusers", True)
    monkeypatch.setattr(
        runs_module, "drawn_by_diffusers", lambda graph: graph.model_copy(update={"description": "as it was drawn"})
    )
    assert runs.get("ada", id).graph["description"] == "as it was drawn"


def test_a_run_whose_record_counts_the_runs_of_its_batch_as_older_versions_did_is_found(tmp_path: Path) -> None:
    with runs_in(tmp_path) as first:
        id = one(first, pictured())
        finished(first, "ada", id)
    [record] = tmp_path.rglob(f"*{id}*.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), "num_runs": 3}))
    with runs_in(tmp_path) as again:
        assert again.book.get("ada", id).state == "done"


def test_a_failure_is_one_sentence_and_the_rest_is_skipped(runs: Runs) -> None:
    workflow = graph({"bad": ("Fail", {}), "sum": ("Add", {"a": "@bad.float"})}, outputs={"sum": "sum.float"})
    run = finished(runs, "ada", one(runs, workflow))
    assert run.state == "failed" and "it takes another; choose one" in run.error
    assert run.code == run.nodes["bad"].code == run.row().code == "bad-input"
    assert (run.nodes["bad"].state, run.nodes["sum"].state) == ("failed", "skipped")
    assert run.nodes["sum"].message == "it needs bad, which failed"


def test_advice_on_the_page_names_no_command_line(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    workflow = graph({"read": ("ReadText", {"path": str(tmp_path / "x.txt")})}, outputs={"text": "read.string"})
    run = finished(runs, "ada", one(runs, workflow))
    assert "lies outside the allowed folders" in run.error and "upload it" in run.error
    assert "--" not in run.error


def test_a_sweep_makes_a_batch_whose_runs_say_what_varied(runs: Runs) -> None:
    batch = runs.submit("ada", pictured(), sweep=["value=1..3"])
    assert [runs.book.get("ada", id).varied for id in batch.runs] == [{"value": 1}, {"value": 2}, {"value": 3}]
    made = [finished(runs, "ada", id) for id in batch.runs]
    assert [run.params for run in made] == [{"value": 1}, {"value": 2}, {"value": 3}]
    assert {run.batch for run in made} == {batch.batch}
    assert runs.get("ada", batch.runs[1]).graph["params"]["value"]["default"] == 2
    assert runs.get("ada", batch.runs[1]).versions["python"] == platform.python_version()


def test_run_to_here_leaves_a_picture_with_the_workflow_inside(runs: Runs, tmp_path: Path) -> None:
    run = finished(runs, "ada", one(runs, pictured(), targets=["picture"], overrides={"value": 9}))
    assert list(run.nodes) == ["picture"]
    [made] = run.made
    assert (made.node, made.name) == ("picture", "picture.png")
    assert '"default": 9' in read_metadata(tmp_path / "out" / made.path)[WORKFLOW_KEY]


def test_a_workflow_that_saves_nothing_shows_its_outputs(runs: Runs) -> None:
    workflow = graph({"picture": ("Picture", {"size": 4})}, outputs={"star": "picture.image"})
    run = finished(runs, "ada", one(runs, workflow))
    assert [made.name for made in run.made] == ["picture.png"]


def test_a_batch_of_pictures_becomes_a_result_each(runs: Runs, tmp_path: Path) -> None:
    workflow = graph(
        {"a": ("Picture", {"size": 4}), "save": ("LoomSaveImage", {"image": "@a.image", "name": "deep/er"})}
    )
    run = finished(runs, "ada", one(runs, workflow))
    assert [made.path for made in run.made] == [f"{run.folder}/deep/er.png"]
    assert Results(settings_in(tmp_path), runs).path("ada", run.made[0].id).is_file()


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"overrides": {"nothing": 1}}, "no param of this workflow"),
        ({"overrides": {"value": "many"}}, "value"),
        ({"targets": ["nowhere"]}, "no output or node"),
        ({"sweep": ["value=4..1"]}, "ends before it begins"),
        ({"sweep": [f"value=0..{MAX_WAITING}"]}, "asks for 1001 runs; at most 1000"),
    ],
)
def test_what_cannot_run_is_refused_before_it_waits(runs: Runs, parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        runs.submit("ada", pictured(), **parts)
    assert runs.list("ada") == []


def test_a_workflow_that_makes_nothing_is_refused(runs: Runs) -> None:
    with pytest.raises(ValueError, match="makes nothing"):
        runs.submit("ada", graph({"echo": ("Echo", {})}))
    with pytest.raises(GraphError, match="not installed"):
        runs.submit("ada", graph({"echo": ("Unknown", {})}))


def test_a_waiting_run_is_cancelled_at_once_and_a_running_one_at_its_next_step(runs: Runs) -> None:
    first, second = one(runs, gated("first")), one(runs, gated("second"))
    assert REACHED["first"].wait(DEADLINE_S)
    runs.book.cancel("ada", [second])
    assert runs.book.get("ada", second).state == "cancelled"
    runs.book.cancel("ada", [first])
    assert runs.book.get("ada", first).is_ending
    run = finished(runs, "ada", first)
    assert (run.state, run.nodes["gate"].state) == ("cancelled", "cancelled")
    assert ORDER == ["first"]
    runs.book.cancel("ada", [first])
    assert runs.book.get("ada", first).state == "cancelled"


def test_users_take_turns_and_each_orders_his_own(runs: Runs) -> None:
    held = one(runs, gated("held"))
    assert REACHED["held"].wait(DEADLINE_S)
    mine = [one(runs, gated(name)) for name in ("a", "b", "c", "d")]
    others = [one(runs, gated(name), user="bob") for name in ("x", "y")]
    runs.book.move("ada", mine[2], mine[0])
    runs.book.set_priority("ada", [mine[0]], "idle")
    runs.book.set_priority("ada", [mine[3]], "next")
    for ids, priority in ((mine[:1], "idle"), ([others[0]], "next")):
        with pytest.raises(NotHere):
            runs.book.set_priority("eve", ids, priority)
    for name in ("held", *"abcdxy"):
        OPEN[name].set()
    for user, id in [*(("ada", id) for id in (held, *mine)), *(("bob", id) for id in others)]:
        finished(runs, user, id)
    assert ORDER == ["held", "x", "d", "y", "c", "b", "a"]
    with pytest.raises(Conflict, match="does not wait"):
        runs.book.move("ada", mine[0], None)
    with pytest.raises(Conflict, match="does not wait"):
        runs.book.set_priority("ada", mine, "next")


def test_a_selection_or_all_is_cancelled_and_none_begins_in_between(runs: Runs) -> None:
    held, other = one(runs, gated("held")), one(runs, gated("other"), user="bob")
    assert REACHED["held"].wait(DEADLINE_S)
    mine = [one(runs, gated(name)) for name in "abc"]
    with pytest.raises(NotHere):
        runs.book.cancel("ada", [mine[0], other])
    assert runs.book.cancel("ada", [mine[1], mine[1]]) == [mine[1]]
    assert [runs.book.get("ada", id).state for id in mine] == ["waiting", "cancelled", "waiting"]
    assert set(runs.book.cancel("ada")) == {held, mine[0], mine[2]}
    OPEN["other"].set()
    assert finished(runs, "ada", held).state == "cancelled" and finished(runs, "bob", other).state == "done"
    assert ORDER == ["held", "other"] and runs.book.cancel("ada") == []


def test_who_waits_is_told_how_long_the_others_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reset()
    live, seen = Live(), PageSeen()
    asked: list[set[str]] = []
    monkeypatch.setattr(
        runs_module, "predicted_seconds", lambda prepared, needed, **_: asked.append(set(needed)) or 12.5
    )
    with runs_in(tmp_path, live) as runs:
        batch = runs.submit("ada", gated("gate"), sweep=["gate.value=1..2"]).runs
        assert REACHED["gate"].wait(DEADLINE_S) and asked == []  # it began at once
        one(runs, gated("later"), user="bob")
        assert asked == [{"gate"}]
        queue = live.changes("ada", seen).queue  # type: ignore[union-attr]
        assert queue is not None
        assert [(each.is_mine, each.state, each.left_s) for each in queue] == [
            (True, "running", None),
            (False, "waiting", 12.5),
            (True, "waiting", None),
        ]
        OPEN["gate"].set()
        finished(runs, "ada", batch[0])
        assert REACHED["later"].wait(DEADLINE_S)
        queue = live.changes("ada", seen).queue  # type: ignore[union-attr]
        assert queue is not None and [each.id for each in queue if each.state == "waiting"] == [batch[1]]
        assert queue[-1].left_s is not None and queue[-1].left_s != 12.5, "what the one before it took"
        runs.book.cancel("ada", [batch[1]])
        OPEN["later"].set()


def test_the_latest_preview_is_a_small_webp_and_few_are_kept(runs: Runs) -> None:
    id = one(runs, gated("gate"))
    assert REACHED["gate"].wait(DEADLINE_S)
    data = runs.preview("ada", id, "gate")
    assert data is not None and data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    assert runs.preview("ada", id, "gate") is data
    assert runs.get("ada", id).nodes["gate"].preview == 1
    OPEN["gate"].set()
    finished(runs, "ada", id)
    assert runs.preview("ada", id, "gate") is data
    runs._previews.budget_bytes = runs._previews.used_bytes  # there is room for one
    one(runs, gated("later"))
    assert REACHED["later"].wait(DEADLINE_S)
    assert runs.preview("ada", id, "gate") is None
    OPEN["later"].set()


def test_pages_hear_of_a_run_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    reset()
    live, seen = Live(), PageSeen()
    with runs_in(tmp_path, live) as runs:
        id = one(runs, gated("gate"))
        assert REACHED["gate"].wait(DEADLINE_S)
        message = live.changes("ada", seen)
        assert message is not None and message.queue[0].state == "running"
        told = message.runs[id]
        assert (told.state, told.done, told.total, told.nodes["gate"].done) == ("running", 1, 2, 1)
        OPEN["gate"].set()
        finished(runs, "ada", id)
        message = live.changes("ada", seen)
        assert message is not None and message.queue == []
        assert (message.runs[id].state, message.runs[id].nodes["gate"].state) == ("done", "done")


def test_deleting_a_run_removes_its_files_and_leaves_what_others_put_there(runs: Runs, tmp_path: Path) -> None:
    first, second = (finished(runs, "ada", one(runs, pictured())) for _ in range(2))
    folder = tmp_path / "out" / first.folder
    (folder / "notes.txt").write_text("mine")
    Results(settings_in(tmp_path), runs).thumbnail("ada", first.made[0].id)
    runs.delete("ada", first.id)
    runs.delete("ada", second.id)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert not (tmp_path / "out" / second.folder).exists()
    assert list((tmp_path / "data").glob("users/*/*/*")) == []


def test_a_running_run_is_not_deleted(runs: Runs) -> None:
    id = one(runs, gated("gate"))
    assert REACHED["gate"].wait(DEADLINE_S)
    with pytest.raises(Conflict, match="cancel it first"):
        runs.delete("ada", id)
    OPEN["gate"].set()


def test_an_output_folder_that_cannot_be_written_is_told_before_and_fails_the_run_in_words(
    runs: Runs, tmp_path: Path
) -> None:
    waiting = (one(runs, gated("before")), one(runs, pictured()))[1]
    assert REACHED["before"].wait(DEADLINE_S)
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(GraphError, match="cannot be written"):
        runs.submit("ada", pictured())
    OPEN["before"].set()
    run = finished(runs, "ada", waiting)
    assert run.state == "failed" and "cannot be written" in run.error and run.code == "not-written"
    assert run.nodes["save"].state == "skipped"


def test_models_run_and_tell_their_steps(tmp_path: Path) -> None:
    workflow = read_graph(ROOT / "workflows" / "bobbin" / "first_picture.json")
    runs = Runs(settings_in(tmp_path), Live())
    try:
        run = finished(runs, "local", one(runs, workflow, "local", overrides={"denoise.steps": 2}))
    finally:
        runs.close()
    assert run.state == "done", run.error
    [made] = run.made
    assert (made.prompt, made.seed) == ("a red star", 7)
    assert (run.nodes["denoise"].done, run.nodes["denoise"].total) == (2, 2)
    assert run.nodes["denoise"].preview > 0


def test_a_second_worker_begins_when_the_steps_of_the_first_have_begun(runs: Runs) -> None:
    book = runs.book
    runs.close()
    began: list[str] = []
    steps, ends = threading.Event(), threading.Event()

    def execute(run: RunRecord, tell: Callable[[Event], None], cancel: Token) -> Outcome:
        began.append(run.id)
        if len(began) == 1:
            assert steps.wait(DEADLINE_S)
            tell(Event(kind="progress", run=run.id, node="gate", done=1, total=2))
        assert ends.wait(DEADLINE_S)
        return Outcome(state="done")

    ids = list(runs.submit("ada", gated("gate"), sweep=["gate.value=1..3"]).runs)
    workers = RunWorkers(2, book, execute)
    until(lambda: began)
    assert began == ids[:1]
    steps.set()
    until(lambda: len(began) == 2)
    ends.set()
    for id in ids:
        finished(runs, "ada", id)
    workers.close(DEADLINE_S)
    assert began == ids


def test_a_sweep_in_other_groups_of_devices_waits_for_what_runs(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says why it is so; those of one sweep run beside each other."""
    place = Place(devices=("cpu",) * 2)
    sharing = dataclasses.replace(place, replicas=2), "2 groups of 1 device"
    monkeypatch.setattr(runs_module, "sharing_of", lambda points, **_: sharing if len(points) > 1 else None)
    monkeypatch.setattr(runs, "_settings", dataclasses.replace(runs._settings, place=place, shares_out=True))
    book, ends = runs.book, threading.Event()
    began: list[str] = []
    runs.close()

    def execute(run: RunRecord, tell: Callable[[Event], None], cancel: Token) -> Outcome:
        began.append(run.id)
        tell(Event(kind="progress", run=run.id, node="gate", done=1, total=2))
        assert ends.wait(DEADLINE_S)
        return Outcome(state="done")

    first = one(runs, gated("gate"))
    sent = runs.submit("ada", gated("gate"), sweep=["gate.value=1..2"])
    assert sent.shared_out == sharing[1] and [runs._groups(book.get("ada", id)) for id in sent.runs] == [2, 2]
    workers = RunWorkers(4, book, execute, groups=runs._groups)
    until(lambda: began)
    assert [book.get("ada", id).state for id in sent.runs] == ["waiting", "waiting"] and began == [first]
    ends.set()
    for id in (first, *sent.runs):
        finished(runs, "ada", id)
    workers.close(DEADLINE_S)


def test_the_machine_is_measured_while_no_run_is_under_way_and_runs_wait_for_it(runs: Runs) -> None:
    with runs.idle():
        waiting = one(runs, gated("held"))
        assert not REACHED["held"].wait(0.05) and runs.book.get("ada", waiting).state == "waiting"
    assert REACHED["held"].wait(DEADLINE_S)
    with pytest.raises(Conflict, match="at work"), runs.idle():
        pass
    OPEN["held"].set()
    finished(runs, "ada", waiting)
    until(lambda: not _is_busy(runs))


def _is_busy(runs: Runs) -> bool:
    try:
        with runs.idle():
            return False
    except Conflict:
        return True


def test_a_worker_outlives_what_a_run_throws(runs: Runs) -> None:
    book = runs.book
    runs.close()

    def execute(run: RunRecord, tell: Callable[[Event], None], cancel: Token) -> Outcome:
        raise KeyError("boom")

    ids = runs.submit("ada", gated("gate"), sweep=["gate.value=1..2"]).runs
    workers = RunWorkers(1, book, execute)
    for id in ids:
        run = finished(runs, "ada", id)
        assert run.state == "failed" and "KeyError" in run.error and run.code == "internal"
    workers.close(DEADLINE_S)


def test_runs_that_are_asked_for_all_at_once_all_run(runs: Runs) -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.append(one(runs, pictured()))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert {finished(runs, "ada", id).state for id in ids} == {"done"} and len(ids) == 12
