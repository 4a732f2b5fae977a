"""The executor: what it runs, what it reuses, what it tells, and how it ends."""

import importlib
import json
import logging
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from latentloom.nodes.execution import records
from latentloom.nodes.execution.cache import DiskCache, MemoryCache
from latentloom.nodes.execution.events import Event
from latentloom.nodes.execution.run import RunResult
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.problems import GraphError
from latentloom.nodes.graph.signature import read_spec
from latentloom.parallel.errors import is_out_of_memory
from latentloom.parallel.machine import logs
from latentloom.pipelines.values import Image
from support.prepared import run

PICTURE = {
    "seed": ("Number", {"value": "$seed"}),
    "picture": ("Picture", {"value": "@seed.int", "size": 4}),
    "ground": ("Picture", {"size": 4}),
    "blend": ("Blend", {"image": "@picture.image", "other": "@ground.image"}),
    "save": ("Save", {"image": "@blend.image"}),
}
SEED = {"seed": {"type": "int", "default": 7}}
Runner = Callable[..., RunResult]


@pytest.fixture
def start(toys: ModuleType, tmp_path: Path) -> Runner:
    memory = MemoryCache(10**7)

    def start(graph: Any, **options: Any) -> RunResult:
        toys.CALLS.clear()
        options = {"memory_cache": memory, "workspace": Workspace(output_dir=tmp_path / "out"), **options}
        return run(graph, toys.SPECS, **options)

    return start


def cached(result: RunResult) -> dict[str, str]:
    return {name: record.cached for name, record in result.nodes.items()}


def test_only_what_the_outputs_need_runs(toys: ModuleType, start: Runner) -> None:
    nodes = {
        "n": ("Number", {"value": 2}),
        "sum": ("Add", {"a": "@n.int"}),
        "idle": ("Echo", {}),
        "shown": ("Show", {"text": "x"}),
    }
    result = start(toys.graph(nodes, outputs={"total": "sum.float"}))
    assert result.state == "ok" and result.outputs == {"total": 3.0}
    assert set(result.nodes) == {"n", "sum", "shown"} and sorted(toys.CALLS) == ["add", "number", "show"]


@pytest.mark.parametrize(("target", "value"), [("total", 3.0), ("sum", 3.0), ("n", 2)])
def test_targets_name_outputs_or_nodes(target: str, value: float, toys: ModuleType, start: Runner) -> None:
    nodes = {"n": ("Number", {"value": 2}), "sum": ("Add", {"a": "@n.int"}), "shown": ("Show", {"text": "x"})}
    result = start(toys.graph(nodes, outputs={"total": "sum.float"}), targets=[target])
    assert result.outputs == {target: value} and "show" not in toys.CALLS


def test_unknown_target_and_wrong_graph_are_refused_before_anything_runs(toys: ModuleType, start: Runner) -> None:
    events: list[Event] = []
    with pytest.raises(GraphError, match="did you mean 'sum'"):
        start(toys.graph({"sum": ("Add", {"a": 1})}), targets=["sun"], sink=events.append)
    with pytest.raises(GraphError, match="a is not given"):
        start(toys.graph({"sum": ("Add", {})}), sink=events.append)
    assert events == [] and toys.CALLS == []


def test_unchanged_run_is_all_cached_and_calls_no_node(toys: ModuleType, start: Runner) -> None:
    graph = toys.graph(PICTURE, params=SEED, outputs={"picture": "blend.image"})
    first = start(graph)
    assert sorted(toys.CALLS) == ["blend", "number", "picture", "picture", "save"]
    again = start(graph)
    assert toys.CALLS == [] and again.state == "ok"
    assert again.outputs["picture"] is first.outputs["picture"]
    assert cached(again) == {
        "seed": "unneeded",
        "picture": "unneeded",
        "ground": "unneeded",
        "blend": "memory",
        "save": "memory",
    }
    assert again.nodes["save"].files == first.nodes["save"].files


def test_changing_the_seed_runs_only_what_depends_on_it_and_going_back_runs_nothing_of_it(
    toys: ModuleType, start: Runner
) -> None:
    graph = toys.graph(PICTURE, params=SEED, outputs={"picture": "blend.image"})
    start(graph, targets=["picture"])
    result = start(graph, targets=["picture"], overrides={"seed": 8})
    assert sorted(toys.CALLS) == ["blend", "number", "picture"]
    assert cached(result)["ground"] == "memory"
    start(graph, targets=["picture"])
    assert toys.CALLS == []


def test_a_vanished_or_changed_file_is_saved_again_and_nothing_else_runs(toys: ModuleType, start: Runner) -> None:
    graph = toys.graph(PICTURE, params=SEED)
    file = Path(start(graph).nodes["save"].files[0])
    for change in (file.unlink, lambda: file.write_bytes(b"edited")):
        change()
        start(graph)
        assert toys.CALLS == ["save"]


def test_a_node_that_acts_without_files_always_acts(toys: ModuleType, start: Runner) -> None:
    graph = toys.graph({"e": ("Echo", {"text": "x"}), "s": ("Show", {"text": "@e.string"})})
    start(graph)
    start(graph)
    assert toys.CALLS == ["show"]


def test_a_changed_input_file_is_read_again(toys: ModuleType, start: Runner, tmp_path: Path) -> None:
    graph = toys.graph({"r": ("ReadText", {"path": toys.path_of(tmp_path, "one")})}, outputs={"text": "r.string"})
    assert start(graph).outputs == {"text": "one"}
    start(graph)
    assert toys.CALLS == []
    toys.path_of(tmp_path, "two")
    assert start(graph).outputs == {"text": "two"}


def test_a_fingerprint_that_needs_a_linked_value_leaves_the_node_uncached(
    toys: ModuleType, start: Runner, tmp_path: Path
) -> None:
    nodes = {
        "p": ("Echo", {"text": toys.path_of(tmp_path, "one")}),
        "r": ("ReadText", {"path": "@p.string"}),
        "e": ("Echo", {"text": "@r.string"}),
    }
    graph = toys.graph(nodes, outputs={"text": "e.string"})
    start(graph)
    toys.path_of(tmp_path, "two")
    assert start(graph).outputs == {"text": "two"}
    assert toys.CALLS == ["read_text", "echo"]


def test_a_missing_input_file_fails_before_anything_runs(toys: ModuleType, start: Runner) -> None:
    nodes = {"a": ("Picture", {}), "r": ("ReadText", {"path": "/no/such/file"}), "s": ("Show", {"text": "@r.string"})}
    result = start(toys.graph(nodes))
    assert result.state == "failed" and toys.CALLS == []
    assert "node 'r' (Read, ReadText): path '/no/such/file' does not exist" in str(result.failure)


def test_disk_cache_outlives_the_process(toys: ModuleType, start: Runner, tmp_path: Path) -> None:
    graph = toys.graph(PICTURE, params=SEED, outputs={"picture": "blend.image"})
    first = start(graph, memory_cache=None, disk_cache=DiskCache(tmp_path / "cache", 10**7))
    again = start(graph, memory_cache=MemoryCache(10**7), disk_cache=DiskCache(tmp_path / "cache", 10**7))
    assert toys.CALLS == []
    assert cached(again)["blend"] == cached(again)["save"] == "disk"
    assert torch.equal(again.outputs["picture"].pixels, first.outputs["picture"].pixels)


def test_a_cache_that_cannot_be_written_does_not_stop_the_run(toys: ModuleType, start: Runner) -> None:
    class Full:
        def get(self, key: str) -> None:
            return None

        def put(self, key: str, value: Any) -> None:
            raise OSError(28, "No space left on device")

    assert start(toys.graph(PICTURE, params=SEED), memory_cache=None, disk_cache=Full()).state == "ok"


def test_values_are_dropped_after_their_last_consumer(toys: ModuleType) -> None:
    alive: list[weakref.ref[Any]] = []
    peaks: list[int] = []

    def grow(image: Image | None = None) -> Image:
        peaks.append(sum(ref() is not None for ref in alive))
        made = Image(pixels=torch.zeros(1, 2, 2, 3) if image is None else image.pixels + 1)
        alive.append(weakref.ref(made.pixels))
        return made

    specs = {"Grow": read_spec(grow, id="Grow", title="Grow", category="toys")}
    nodes: dict[str, Any] = {"n0": ("Grow", {})}
    nodes |= {f"n{i}": ("Grow", {"image": f"@n{i - 1}.image"}) for i in range(1, 50)}
    result = run(toys.graph(nodes, outputs={"last": "n49.image"}), specs)
    assert result.outputs["last"].pixels.max() == 49
    assert len(peaks) == 50 and max(peaks) <= 2  # the input, and one that a thread has not let go of yet
    assert sum(ref() is not None for ref in alive) == 1


def test_cpu_nodes_overlap_and_device_nodes_never_do(toys: ModuleType) -> None:
    kinds = {"a": "Slow", "b": "Slow", "c": "SlowDevice", "d": "SlowDevice"}
    nodes = {name: (kind, {"seconds": 0.15}) for name, kind in kinds.items()}
    outputs = {name: f"{name}.float" for name in kinds}
    assert run(toys.graph(nodes, outputs=outputs), toys.SPECS).state == "ok"
    cpu, device = (sorted(s[1:] for s in toys.SPANS if s[0] == kind) for kind in ("cpu", "device"))
    assert cpu[1][0] < cpu[0][1], "the second CPU node starts before the first ends"
    assert device[1][0] >= device[0][1]
    assert cpu[0][0] < device[0][1] and device[0][0] < cpu[0][1], "the lanes run side by side"


def test_failure_names_the_node_skips_what_needs_it_and_keeps_the_cause(toys: ModuleType, start: Runner) -> None:
    nodes = {
        "ok": ("Number", {"value": 1}),
        "bad": ("Fail", {"value": "@ok.int"}),
        "after": ("Add", {"a": "@bad.float"}),
        "last": ("Add", {"a": "@after.float"}),
    }
    events: list[Event] = []
    result = start(toys.graph(nodes, outputs={"x": "last.float", "n": "ok.int"}), sink=events.append)
    assert result.state == "failed" and result.outputs == {"n": 1}
    assert {name: r.state for name, r in result.nodes.items()} == {
        "ok": "ok",
        "bad": "failed",
        "after": "skipped",
        "last": "skipped",
    }
    assert result.failure is not None and isinstance(result.failure.__cause__, ValueError)
    assert str(result.failure) == "node 'bad' (Fail, Fail): value is 1.0; it takes another; choose one"
    assert result.nodes["after"].message == "it needs bad, which failed"
    assert result.nodes["last"].message == "it needs after, which was skipped"
    assert {e.code for e in events if e.kind in ("failed", "run_failed")} == {"bad-input"}
    assert [(e.kind, e.node) for e in events][-4:] == [
        ("failed", "bad"),
        ("skipped", "after"),
        ("skipped", "last"),
        ("run_failed", ""),
    ]


def test_after_a_failure_running_nodes_finish_and_no_new_one_starts(toys: ModuleType, start: Runner) -> None:
    nodes = {"slow": ("Slow", {"seconds": 0.3}), "next": ("Add", {"a": "@slow.float"}), "bad": ("Fail", {})}
    result = start(toys.graph(nodes, outputs={"a": "next.float", "b": "bad.float"}))
    assert result.nodes["slow"].state == "ok"
    assert result.nodes["next"].message == "the run stopped because bad failed"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("type", "stopped with TypeError: these do not add; the error behind this one says where"),
        ("disk", "No space left on device; check the path and the free space"),
        ("memory", "ran out of memory"),
    ],
)
def test_other_exceptions_get_a_sentence(kind: str, words: str, toys: ModuleType, start: Runner) -> None:
    failure = start(toys.graph({"bad": ("Fail", {"kind": kind})}, outputs={"x": "bad.float"})).failure
    assert failure is not None and words in failure.sentence and failure.__cause__.__traceback__ is not None


def test_a_linked_scalar_is_checked_when_it_arrives(toys: ModuleType, start: Runner) -> None:
    nodes = {"n": ("Number", {"value": 0}), "p": ("Picture", {"size": "@n.int"})}
    result = start(toys.graph(nodes, outputs={"x": "p.image"}))
    assert result.failure is not None and "size is 0; it takes 1 to 512" in result.failure.sentence


def test_events_tell_the_whole_story_in_order(toys: ModuleType, start: Runner) -> None:
    graph = toys.graph(
        {"n": ("Number", {}), "w": ("WaitSteps", {"value": "@n.int", "steps": 2})}, outputs={"x": "w.float"}
    )
    events: list[Event] = []
    start(graph, sink=events.append, previews=True)
    assert [(e.kind, e.node) for e in events] == [
        ("run_started", ""),
        ("started", "n"),
        ("finished", "n"),
        ("started", "w"),
        ("phase", "w"),
        ("progress", "w"),
        ("preview", "w"),
        ("progress", "w"),
        ("preview", "w"),
        ("finished", "w"),
        ("run_finished", ""),
    ]
    assert [e.time_s for e in events] == sorted(e.time_s for e in events) and len({e.run for e in events}) == 1
    assert events[0].total == 2 and events[7].done == 2
    events.clear()
    start(graph, sink=events.append)
    assert [(e.kind, e.node) for e in events] == [
        ("run_started", ""),
        ("cached", "n"),
        ("cached", "w"),
        ("run_finished", ""),
    ]


def test_no_preview_is_made_when_nobody_watches_and_a_bad_sink_stops_nothing(toys: ModuleType, start: Runner) -> None:
    kinds: list[str] = []

    def sink(event: Event) -> None:
        kinds.append(event.kind)
        raise RuntimeError("the page went away")

    assert start(toys.graph({"w": ("WaitSteps", {})}, outputs={"x": "w.float"}), sink=sink).state == "ok"
    assert "progress" in kinds and "preview" not in kinds


def test_cancel_in_the_middle_of_a_node(toys: ModuleType, start: Runner) -> None:
    cancel = threading.Event()
    events: list[Event] = []
    nodes = {"w": ("WaitSteps", {"steps": 10_000}), "after": ("Add", {"a": "@w.float"})}
    graph = toys.graph(nodes, outputs={"x": "after.float"})
    canceller = threading.Thread(target=lambda: (toys.WAITING.wait(10), cancel.set()))
    canceller.start()
    began = time.perf_counter()
    result = start(graph, cancel=cancel, sink=events.append)
    canceller.join()
    assert result.state == "cancelled" and time.perf_counter() - began < 5
    assert (result.nodes["w"].state, result.nodes["after"].state) == ("cancelled", "skipped")
    assert [(e.kind, e.node) for e in events][-3:] == [("cancelled", "w"), ("skipped", "after"), ("run_cancelled", "")]
    cancel.clear()
    assert start(toys.graph({"w": ("WaitSteps", {})}, outputs={"x": "w.float"}), cancel=cancel).state == "ok"


def test_cancel_before_the_start_runs_nothing(toys: ModuleType, start: Runner) -> None:
    cancel = threading.Event()
    cancel.set()
    result = start(toys.graph(PICTURE, params=SEED), cancel=cancel)
    assert result.state == "cancelled" and toys.CALLS == []


@pytest.fixture
def _listening() -> Iterator[None]:
    """With Python's own answer to Ctrl-C: a shell starts background jobs with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_listening")
def test_interrupt_ends_the_running_node_and_goes_on(toys: ModuleType) -> None:
    """Ctrl-C without a handler: the run ends at the next border and the interrupt goes on."""
    import _thread

    spec = toys.SPECS["WaitSteps"]
    stopper = threading.Thread(target=lambda: (toys.WAITING.wait(10), _thread.interrupt_main()))
    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        run(toys.graph({"w": ("WaitSteps", {"steps": 10_000})}, outputs={"x": "w.float"}), {"WaitSteps": spec})
    stopper.join()
    # an interrupt that comes while a thread is being started leaves it to end by itself, at its next border
    for thread in threading.enumerate():
        if thread.name.startswith(("cpu", "device")):
            thread.join(5)
            assert not thread.is_alive()


def test_a_thousand_nodes_in_a_row_run_without_recursion(toys: ModuleType, start: Runner) -> None:
    result = start(toys.chain(1000))
    assert result.outputs == {"sum": 1.0 + 999 * 0.5} and len(toys.CALLS) == 1000


def test_a_torch_that_another_thread_is_importing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(
        "import import_gate, types\n"
        "import_gate.begun.set()\n"
        "import_gate.through.wait(9)\n"
        "class OutOfMemoryError(Exception): ...\n"
        "cuda = types.SimpleNamespace(is_initialized=lambda: False)\n"
    )
    gate = ModuleType("import_gate")
    begun, through = threading.Event(), threading.Event()
    vars(gate).update(begun=begun, through=through)
    monkeypatch.setitem(sys.modules, "import_gate", gate)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.syspath_prepend(tmp_path)
    with ThreadPoolExecutor(3) as threads:
        threads.submit(importlib.import_module, "torch")
        assert begun.wait(9)
        asked = threads.submit(is_out_of_memory, KeyError("a")), threads.submit(records.devices_in_use)
        wait(asked, timeout=0.1)  # where one does not wait it fails meanwhile
        through.set()
        assert [each.result() for each in asked] == [False, ["cpu"]]


def test_peak_memory_is_measured_on_the_device_lane(toys: ModuleType, start: Runner) -> None:
    nodes = start(toys.graph(PICTURE, params=SEED)).nodes
    assert nodes["seed"].peak_memory_bytes == 0 and nodes["picture"].seconds > 0
    if Path("/proc/self/clear_refs").exists():
        assert nodes["picture"].peak_memory_bytes > 0


def say(text: str) -> str:
    logging.getLogger("latentloom").warning("said %s", text)
    return text


def test_what_is_logged_in_any_thread_of_a_run_says_which_run_and_node_it_is_about(
    toys: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("latentloom")
    handlers, level = list(logger.handlers), logger.level
    logs.begin({logs.AS_JSON: "1"})
    try:
        graph = toys.graph(
            {"one": ("Say", {"text": "a"}), "two": ("Say", {"text": "@one.string"}), "other": ("Say", {"text": "b"})},
            outputs={"two": "two.string", "other": "other.string"},
        )
        with ThreadPoolExecutor(2) as threads:
            specs = {**toys.SPECS, "Say": read_spec(say, id="Say", title="Say", category="toys")}
            results = list(threads.map(lambda _: run(graph, specs), range(2)))
        logger.warning("after")
    finally:
        logger.handlers, logger.level = handlers, level
    *told, last = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    wanted = {
        (result.run, node, text)
        for result in results
        for node, text in [("one", "said a"), ("two", "said a"), ("other", "said b")]
    }
    assert {(each["run"], each["node"], each["message"]) for each in told} == wanted and len(told) == 6
    assert "run" not in last
