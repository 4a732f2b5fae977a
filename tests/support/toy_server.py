"""A server's runs with toy nodes: a gate that a test opens, and pictures that cost nothing."""

import io
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.graph.spec import NodeSpec
from latentloom.nodes.registry import SPECS as REAL
from latentloom.parallel.progress import SILENT, Progress
from latentloom.ui.live.live import Live
from latentloom.ui.live.state import RunRecord
from latentloom.ui.runs.runs import Runs
from latentloom.ui.settings import Settings
from latentloom.ui.store.quota import Quota
from support import toys

DEADLINE_S = 60.0
OPEN: defaultdict[str, threading.Event] = defaultdict(threading.Event)
REACHED: defaultdict[str, threading.Event] = defaultdict(threading.Event)
ORDER: list[str] = []  # the names of the gates, as they were reached


def gate(value: float = 0.0, name: str = "gate", progress: Progress = SILENT) -> float:
    """Two steps; the second one waits until the test opens the gate."""
    progress.phase("waiting")
    progress.step(1, 2, lambda: torch.full((4, 6, 3), 200, dtype=torch.uint8))
    ORDER.append(name)
    REACHED[name].set()
    end = time.monotonic() + DEADLINE_S
    while not OPEN[name].wait(0.005):
        progress.check()
        assert time.monotonic() < end, f"nobody opened {name}"
    progress.step(2, 2)
    return value


SPECS: dict[str, NodeSpec] = {
    **toys.SPECS,
    "Gate": read_spec(gate, id="Gate", title="Gate", category="toys", is_output=True),
    "LoomSaveImage": REAL["LoomSaveImage"],
    "LoomLoadImage": REAL["LoomLoadImage"],
}
graph: Callable[..., Any] = toys.graph


def reset() -> None:
    toys.reset()
    OPEN.clear()
    REACHED.clear()
    ORDER.clear()


def settings_in(folder: Path, **changes: Any) -> Settings:
    return Settings(output_dir=folder / "out", data_dir=folder / "data", **changes)


@contextmanager
def runs_in(folder: Path, live: Live | None = None, *, quota: Quota | None = None, **changes: Any) -> Iterator[Runs]:
    runs = Runs(settings_in(folder, **changes), live or Live(), specs=SPECS, quota=quota)
    try:
        yield runs
    finally:
        runs.close()


def gated(name: str) -> Any:
    return graph({"gate": ("Gate", {"name": name})})


def pictured(**parts: Any) -> Any:
    """A picture that is saved; its value is the param."""
    return graph(
        {
            "picture": ("Picture", {"value": "$value", "size": 8}),
            "save": ("LoomSaveImage", {"image": "@picture.image", "name": "star"}),
        },
        params={"value": {"type": "int", "default": 7}},
        **parts,
    )


def png(width: int = 8, height: int = 8, color: str = "teal", *, format: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), color).save(file, format)
    return file.getvalue()


def copying(path: Any, **save: Any) -> dict[str, Any]:
    """A workflow file that saves a picture again, without a model; `save` are more inputs of Save Image."""
    load = {"type": "LoomLoadImage", "inputs": {"path": path}}
    kept = {"type": "LoomSaveImage", "inputs": {"image": {"from": "load.image"}, **save}}
    return {"format": 1, "name": "copy", "nodes": {"load": load, "save": kept}}


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        pause.wait(0.005)


def ended(client: Any, run: str) -> dict[str, Any]:
    """The run once it is over, as a client of the API sees it."""
    until(lambda: client.get(f"/loom/runs/{run}").json()["state"] not in ("waiting", "running"))
    return client.get(f"/loom/runs/{run}").json()


def finished(runs: Runs, user: str, id: str) -> RunRecord:
    """The run once it is over, with its nodes."""
    until(lambda: runs.book.get(user, id).is_over)
    return runs.book.with_nodes(runs.book.get(user, id))
