"""What pages are told: everything once, then only what changed, the newest of it, and nobody else's."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from latentloom.nodes.execution.events import Event
from latentloom.parallel.machine.now import DeviceNow
from latentloom.ui.contract.run import QueuePlace
from latentloom.ui.live import live as live_module
from latentloom.ui.live.live import KEPT_NODES, KEPT_REMOVALS, KEPT_RUNS, Live, PageSeen
from latentloom.ui.live.state import NodeState, RunRecord, after

DEADLINE_S = 20.0


def run(id: str, user: str = "ada", state: str = "running", **fields: object) -> RunRecord:
    nodes = {"a": NodeState(), "b": NodeState()}
    known = {"batch": "b", "name": "n", "created": 1.0, "folder": "f", "nodes": nodes, **fields}
    return RunRecord.model_validate({"id": id, "user": user, "state": state, **known})


def test_the_first_message_is_full_and_the_next_only_what_changed() -> None:
    live, seen = Live(), PageSeen()
    live.put_run(run("one"))
    live.put_run(run("two"))
    first = live.changes("ada", seen)
    assert first is not None
    assert first.full and set(first.runs) == {"one", "two"} and set(first.runs["one"].nodes) == {"a", "b"}
    assert live.changes("ada", seen) is None
    live.put_node("two", "b", NodeState(state="running", done=1, total=4))
    second = live.changes("ada", seen)
    assert second is not None
    assert not second.full and set(second.runs) == {"two"} and set(second.runs["two"].nodes) == {"b"}
    assert (second.runs["two"].done, second.runs["two"].total) == (1, 5)
    assert "queue" not in second.to_plain() and second.seq > first.seq


def test_seconds_left_are_told_only_where_they_are_known() -> None:
    live, seen = Live(), PageSeen()
    live.put_run(run("one"))
    begun = after(NodeState(), Event(kind="started", run="one"), now=1.0)
    for left_s, told in ((None, None), (40.004, 40.0), (None, None)):
        begun = after(begun, Event(kind="progress", run="one", done=1, total=16, left_s=left_s), now=2.0)
        live.put_node("one", "a", begun)
        message = live.changes("ada", seen)
        assert message is not None
        assert (message.runs["one"].left_s, message.runs["one"].nodes["a"].left_s) == (told, told)


def test_seconds_left_of_a_run_are_those_that_the_newest_event_told() -> None:
    live, seen = Live(), PageSeen()
    live.put_run(run("one"))
    steps = Event(kind="progress", run="one", done=15, total=16, left_s=2.0, run_left_s=42.0)
    live.put_node("one", "a", after(NodeState(state="running"), steps, now=2.0))
    decoding = after(NodeState(), Event(kind="started", run="one", left_s=40.0, run_left_s=40.0), now=4.0)
    for name, node, told in (("b", decoding, (40.0, 4.0, False)), ("b", NodeState(state="done"), (42.0, 2.0, False))):
        live.put_node("one", name, node)
        message = live.changes("ada", seen)
        assert message is not None
        row = message.runs["one"]
        assert (row.left_s, row.left_at, row.is_left_least) == told
    unknown = after(decoding, Event(kind="phase", run="one", message="decoding"), now=5.0)
    assert (unknown.left_s, unknown.run_left_s) == (None, None)


def test_a_slow_page_gets_the_newest_state_only() -> None:
    live, seen = Live(), PageSeen()
    live.put_run(run("one"))
    live.changes("ada", seen)
    for step in range(100):
        live.put_node("one", "a", NodeState(state="running", done=step, total=100))
    message = live.changes("ada", seen)
    assert message is not None and message.runs["one"].nodes["a"].done == 99
    assert live.changes("ada", seen) is None


def test_the_newest_event_dates_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100, 200))
    monkeypatch.setattr(live_module, "time", SimpleNamespace(time=lambda: float(next(times))))
    live, seen = Live(), PageSeen()
    live.put_run(run("one"))
    live.put_node("one", "a", NodeState(done=1))
    message = live.changes("ada", seen)
    assert message is not None and message.t == 101_000


def test_users_see_their_own_runs_and_others_as_places_in_the_queue() -> None:
    live = Live()
    live.put_run(run("hers"))
    live.put_run(run("his", user="bob"))
    his = QueuePlace(id="his", is_mine=True, state="running", name="secret")
    hers = QueuePlace(id="hers", is_mine=True, state="waiting", name="mine")
    live.put_queue([("bob", his), ("ada", hers)])
    message = live.changes("ada", PageSeen())
    assert message is not None and set(message.runs) == {"hers"}
    assert message.queue == [QueuePlace(id=None, is_mine=False, state="running", name=""), hers]


def test_what_others_do_is_no_news() -> None:
    live, seen = Live(), PageSeen()
    live.put_run(run("his", user="bob"))
    live.changes("ada", seen)
    live.put_node("his", "a", NodeState(done=1))
    live.count("bob", "results")
    live.remove_run("bob", "his")
    assert live.changes("ada", seen) is None


def test_removed_runs_are_told_and_too_many_of_them_make_a_full_message() -> None:
    live, seen = Live(), PageSeen()
    live.put_run(run("one"))
    live.changes("ada", seen)
    live.remove_run("ada", "one")
    message = live.changes("ada", seen)
    assert message is not None and message.removed == ["one"] and message.runs == {}
    for number in range(KEPT_REMOVALS + 1):
        live.remove_run("ada", str(number))
    message = live.changes("ada", seen)
    assert message is not None and message.full


def test_counters_and_devices_are_told_when_they_change() -> None:
    live, seen = Live(), PageSeen()
    live.changes("ada", seen)
    live.count("ada", "library")
    message = live.changes("ada", seen)
    assert message is not None and (message.library, message.results) == (1, 0)
    cpu = DeviceNow(name="cpu", title="a CPU", total_bytes=2, used_bytes=1, load=None)
    live.put_devices([cpu])
    live.put_devices([cpu])
    message = live.changes("ada", seen)
    assert message is not None and message.devices == [cpu]
    assert live.changes("ada", seen) is None


def test_only_the_newest_runs_that_are_over_keep_their_nodes() -> None:
    live = Live()
    for number in range(KEPT_NODES + 5):
        live.put_run(run(str(number), state="done", ended=float(number)))
    message = live.changes("ada", PageSeen())
    assert message is not None
    with_nodes = [id for id, told in message.runs.items() if told.nodes]
    assert with_nodes == [str(number) for number in range(5, KEPT_NODES + 5)]


def test_a_clock_that_is_set_back_hides_no_new_run() -> None:
    live, seen = Live(), PageSeen()
    for number in range(KEPT_RUNS):
        live.put_run(run(str(number), state="done", ended=9000.0))
    live.put_run(run("new"))
    live.changes("ada", seen)
    live.put_run(run("new", state="done", ended=5.0, nodes={"a": NodeState(state="done")}))
    message = live.changes("ada", seen)
    assert message is not None and message.runs["new"].state == "done"
    assert set(message.runs["new"].nodes) == {"a"}


def test_a_run_that_begins_tells_all_its_nodes() -> None:
    live, seen = Live(), PageSeen()
    for number in range(KEPT_NODES + 2):
        live.put_run(run(str(number), state="waiting"))
    last = str(KEPT_NODES + 1)
    first = live.changes("ada", seen)
    assert first is not None and first.runs[last].nodes == {} and first.runs["0"].nodes != {}
    live.put_run(run(last))
    message = live.changes("ada", seen)
    assert message is not None and set(message.runs[last].nodes) == {"a", "b"}


def test_a_page_is_woken_from_another_thread_and_misses_nothing() -> None:
    live = Live()
    live.put_run(run("one"))

    def work() -> None:
        for done in range(1, 1001):
            live.put_node("one", "a", NodeState(done=done))

    async def watch() -> int:
        seen, done = PageSeen(), 0
        with live.watching("ada") as watcher:
            thread = threading.Thread(target=work)
            thread.start()
            while done < 1000:
                if (message := live.changes("ada", seen)) is not None:
                    assert message.runs["one"].nodes["a"].done >= done
                    done = message.runs["one"].nodes["a"].done
                elif not await watcher.changed(DEADLINE_S):
                    break
            thread.join(DEADLINE_S)
        return done

    assert asyncio.run(watch()) == 1000


def test_a_bell_that_was_heard_rings_again() -> None:
    async def watch() -> list[bool]:
        live = Live()
        live.put_run(run("one"))
        heard: list[bool] = []
        with live.watching("ada") as watcher:
            for done in (1, 2):
                live.put_node("one", "a", NodeState(done=done))
                heard.append(await watcher.changed(DEADLINE_S))
        return heard

    assert asyncio.run(watch()) == [True, True]


def test_a_wait_without_news_ends() -> None:
    async def watch() -> bool:
        live = Live()
        with live.watching("ada") as watcher:
            live.count("bob", "results")
            return await watcher.changed(0.01)

    assert asyncio.run(watch()) is False
