"""The worker: runs are made in a process of its own, which may die, or be held up by a node, and loses no run."""

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from latentloom.nodes.execution.events import Event
from latentloom.nodes.graph.graph import graph_to_plain
from latentloom.parallel.progress import Foreseen, RankWork
from latentloom.pipelines.components.memory import Held
from latentloom.pipelines.costs.ran import Took
from latentloom.pipelines.values import Place, to_plain
from latentloom.ui.live.live import Live
from latentloom.ui.live.state import AGAIN, GIVEN_UP, MAX_RESTARTS, MadeFile, Outcome, RunRecord
from latentloom.ui.runs.runs import Runs
from latentloom.ui.worker import process as process_module
from latentloom.ui.worker.process import WorkerProcess
from latentloom.ui.worker.program import Worker, thinned
from latentloom.ui.worker.wire import Ask, Line, Order, Picture, read_line, written
from latentloom.ui.worker.work import WorkerLost
from support.toy_server import DEADLINE_S, finished, graph, settings_in, until

ROOT = Path(__file__).resolve().parents[2]
HELD = Held(folder="/m", component="vae", device="cpu", num_bytes=3)
NODES = '''
"""Nodes that wait for a file, and that hold the interpreter."""
import time
from pathlib import Path

from latentloom.nodes.graph.signature import read_spec
from latentloom.parallel.progress import Progress


def gate(folder: str, progress: Progress) -> int:
    """Waits until there is a file `open`."""
    with Path(folder, "reached").open("a") as reached:
        reached.write("x")
    while not Path(folder, "open").exists():
        progress.check()
        time.sleep(0.01)
    return 1


def hold(digits: int) -> int:
    """Reckons one number in C, and lets nobody else work."""
    round(5, -digits)
    return 1


NODES = {
    "odd_Gate": read_spec(gate, title="Gate", category="odd", is_output=True, is_kept=False),
    "odd_Hold": read_spec(hold, title="Hold", category="odd", is_output=True, is_kept=False),
}
'''


@pytest.fixture(scope="module")
def specs() -> dict[str, Any]:
    made: dict[str, Any] = {}
    exec(NODES, made)  # noqa: S102 (ours, as the worker imports it)
    return {id: dataclasses.replace(spec, id=id) for id, spec in made["NODES"].items()}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """One worker for all tests here, any of which may cost it."""
    folder = tmp_path_factory.mktemp("worker")
    (folder / "nodes").mkdir(mode=0o700)
    (folder / "nodes" / "odd.py").write_text(NODES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_module.doors, "order", lambda: {"folder": str(folder / "nodes"), "origins": {}})
        work = WorkerProcess(folder / "cache")
        yield work
        work.close()
    assert work.pid == 0


class Kept:
    """Work that outlives the runs of one test."""

    def __init__(self, work: WorkerProcess) -> None:
        self.make, self.loaded, self.measured = work.make, work.loaded, work.measured

    def close(self) -> None:
        pass


@pytest.fixture
def runs(tmp_path: Path, work: WorkerProcess, specs: dict[str, Any]) -> Iterator[Runs]:
    runs = Runs(settings_in(tmp_path), Live(), specs=specs, work=Kept(work))
    yield runs
    runs.close()


def gated(folder: Path) -> Any:
    return graph({"gate": ("odd_Gate", {"folder": str(folder)})})


def times(folder: Path) -> int:
    """How often its gate was reached."""
    path = folder / "reached"
    return len(path.read_text()) if path.exists() else 0


def kill(work: WorkerProcess) -> None:
    os.kill(work.pid, signal.SIGKILL)


def test_a_run_whose_worker_is_killed_begins_again_and_those_behind_it_wait(
    runs: Runs, work: WorkerProcess, tmp_path: Path
) -> None:
    held, later = (runs.submit("ada", gated(tmp_path)).runs[0] for _ in range(2))
    until(lambda: times(tmp_path) == 1)
    folder = tmp_path / "out" / runs.book.get("ada", held).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in (".half-x1y2z3a4.png", "whole.png"):
        (folder / name).touch()
    kill(work)
    until(lambda: times(tmp_path) == 2)
    assert [path.name for path in folder.iterdir()] == ["whole.png"]
    run = runs.book.get("ada", held)
    assert (run.state, run.note, run.restarts) == ("running", AGAIN, 1)
    assert runs.book.get("ada", later).state == "waiting"
    (tmp_path / "open").touch()
    assert [finished(runs, "ada", id).state for id in (held, later)] == ["done", "done"]


def test_a_run_that_costs_worker_after_worker_is_given_up(runs: Runs, work: WorkerProcess, tmp_path: Path) -> None:
    [id] = runs.submit("ada", gated(tmp_path)).runs
    for deaths in range(MAX_RESTARTS + 1):
        until(lambda deaths=deaths: times(tmp_path) == deaths + 1)
        kill(work)
    run = finished(runs, "ada", id)
    assert (run.state, run.error, times(tmp_path)) == ("failed", GIVEN_UP, MAX_RESTARTS + 1)


def test_a_cancel_reaches_the_worker(runs: Runs, tmp_path: Path) -> None:
    [id] = runs.submit("ada", gated(tmp_path)).runs
    until(lambda: times(tmp_path) == 1)
    runs.book.cancel("ada", [id])
    assert finished(runs, "ada", id).state == "cancelled"


def test_a_run_goes_on_though_what_it_tells_is_lost(work: WorkerProcess, tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "open").touch()
    outcome = work.make(order("r", gated(tmp_path), tmp_path), lambda line: 1 / 0, threading.Event())
    assert outcome.state == "done" and "what run r told was lost; the run goes on" in caplog.text


@pytest.mark.parametrize(("what", "value"), [("loaded", [asdict(HELD)]), ("measured", None)])
def test_what_the_server_asks_is_answered_or_it_is_told_why_not(what: Any, value: Any) -> None:
    lines, asked = io.BytesIO(), SimpleNamespace(loaded=lambda: [HELD], measured=lambda: {}["cuda"])
    Worker(asked, lines)._answer(Ask(ask=3, what=what))
    line = read_line(lines.getvalue())
    assert (line.answer, line.value, line.error) == (3, value, "" if value else "'cuda'")


def test_a_node_that_holds_the_interpreter_costs_its_own_run_and_blames_no_other(
    work: WorkerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "LIMIT_S", 0.3)
    monkeypatch.setattr(process_module, "SILENT_S", 1.5)
    told: list[Line] = []
    beside = _Thread(lambda: work.make(order("gate", gated(tmp_path), tmp_path), told.append, threading.Event()))
    until(lambda: times(tmp_path) == 1)
    holding = graph({"sum": ("odd_Hold", {"digits": 300_000_000})})
    outcome = work.make(order("hold", holding, tmp_path), told.append, threading.Event())
    assert outcome.state == "failed" and outcome.code == "node-failed"
    assert outcome.error.startswith("node 'sum': it let nothing else work for 0.3 s of processor time")
    assert [(each.event.node, each.event.kind) for each in told if each.event][-1] == ("sum", "failed")
    ended = beside.raised()
    assert isinstance(ended, WorkerLost) and not ended.is_blamed


class _Thread(threading.Thread):
    def __init__(self, body: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._body = body
        self._raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._body()
        except BaseException as error:
            self._raised = error

    def raised(self) -> BaseException | None:
        self.join(DEADLINE_S)
        assert not self.is_alive()
        return self._raised


def order(run: str, workflow: Any, folder: Path) -> Order:
    where = {"folder": folder, "output_dir": folder, "roots": ()}
    return Order(run=run, graph=graph_to_plain(workflow), place=to_plain(Place()), max_pixels=1000, **where)


def test_a_worker_that_cannot_open_what_the_server_has_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module.doors, "order", lambda: {"folder": str(tmp_path / "gone"), "origins": {}})
    work = WorkerProcess(tmp_path)
    outcome = work.make(order("run", gated(tmp_path), tmp_path), lambda told: None, threading.Event())
    work.close()
    assert outcome.state == "failed" and "gone is not a folder" in outcome.error


SERVER = """
import json, sys, pathlib
from latentloom.nodes.graph.graph import read_graph
from latentloom.ui.live.live import Live
from latentloom.ui.runs.runs import Runs
from latentloom.ui.settings import Settings
from latentloom.ui.views.installed import models_view
from latentloom.ui.worker.process import WorkerProcess
import time
folder = pathlib.Path(sys.argv[1])
settings = Settings(output_dir=folder / "out", data_dir=folder / "data")
work = WorkerProcess(settings.cache_dir)
runs = Runs(settings, Live(), work=work)
def made():
    [id] = runs.submit("ada", read_graph(pathlib.Path(sys.argv[2])), overrides={"denoise.steps": 2}).runs
    while not runs.book.get("ada", id).is_over:
        time.sleep(0.02)
    run = runs.book.with_nodes(runs.book.get("ada", id))
    return run.model_dump(mode="json")
first, second = made(), made()
told = {
    "runs": [first, second],
    "preview": (runs.preview("ada", first["id"], "denoise") or b"")[:4].hex(),
    "loaded": sorted(each.component for each in models_view(settings, loaded=work.loaded()).loaded),
    "heavy": [name for name in ("torch", "diffusers", "transformers") if name in sys.modules],
    "worker": work.pid,
}
print(json.dumps(told), flush=True)
sys.stdin.read()
"""


def test_a_model_runs_in_the_worker_alone_which_dies_with_its_server(tmp_path: Path) -> None:
    """The server has no torch afterwards, and shows all that it did when it had."""
    workflow = ROOT / "workflows" / "bobbin" / "first_picture.json"
    command = [sys.executable, "-c", SERVER, str(tmp_path), str(workflow)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        worker = psutil.Process(told["worker"])
        server.kill()
    worker.wait(DEADLINE_S)
    assert told["heavy"] == []
    first, second = (RunRecord.model_validate(each) for each in told["runs"])
    assert (first.state, second.state) == ("done", "done"), first.error
    denoise = first.nodes["denoise"]
    assert (denoise.done, denoise.total, denoise.preview > 0, denoise.outlook != "") == (2, 2, True, True)
    assert [len(denoise.ranks), first.made[0].prompt, first.made[0].seed] == [1, "a red star", 7]
    assert {name: node.cached for name, node in second.nodes.items() if node.state == "cached"} == {
        **dict.fromkeys(("load_model", "encode_text", "empty_latents", "denoise"), "unneeded"),
        "decode": "memory",
    }
    assert told["preview"] == b"RIFF".hex()
    assert {"transformer", "vae"} <= set(told["loaded"])


def test_what_a_run_tells_is_the_same_on_the_other_side() -> None:
    rank = RankWork(rank=1, device="cpu", seconds=0.5, sent_bytes=7)
    foreseen = Foreseen(
        plan="ring=2", why="w", machine="m", is_measured=False, steps=2, step_s=float("inf"), text_s=1, decode_s=1,
        load_s=0.25, num_bytes=3, rejected=[("ulysses=2", 1.5, "slower")],
    )  # fmt: skip
    told = Event(
        kind="took", run="r", node="a/1/b", time_s=1.5, done=1, total=2, message="\u00e4", is_loading=True, code="c",
        frees_device=True, seconds=0.1, left_s=0.0, run_left_s=2.5, ranks=(rank,), foreseen=foreseen,
        took=Took(steps=2, step_s=None),
    )  # fmt: skip
    made = MadeFile(
        id="1" * 16, node="save", kind="image", name="n.png", path="p/n.png", width=2, height=1, bytes=4, time=1.0
    )
    picture = Picture(width=2, height=1, pixels=bytes(range(250, 256)))
    line = Line(run="r", event=told, picture=picture, made=made, thread=9)
    back = read_line(written(line))
    assert back.event is not None and dataclasses.asdict(back.event) == dataclasses.asdict(told)
    assert (back.picture, back.made, back.thread) == (picture, made, 9)
    odd = Line(run="r", event=Event(kind="failed", run="r", node="n", message="x\udc80"))
    assert read_line(written(odd)).event.message == "x?"
    outcome = Outcome(state="done", seconds=1.0, plan="ring=2", made=(made,))
    assert read_line(written(Line(run="r", outcome=outcome))).outcome == outcome


def test_previews_that_come_closer_than_a_page_shows_them_are_left_out() -> None:
    told: list[int] = []
    times = iter([0.0, 0.01, 0.05, 0.2, 0.21])
    thin = thinned(lambda each: told.append(each.event.done if each.event else -1), clock=lambda: next(times))
    picture = Picture(width=1, height=1, pixels=bytes(3))
    for done in (1, 2, 3, 4, 5):
        thin(Line(event=Event(kind="progress", run="r", node="n", done=10 * done, total=50)))
        thin(Line(event=Event(kind="preview", run="r", node="n", done=done, total=5), picture=picture))
    assert told == [10, 1, 20, 30, 40, 4, 50, 5]
