"""Toy nodes: add, echo, slow, fail, save and the like. `CALLS` lists the nodes that really ran, in order."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch

from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.graph.spec import NodeSpec, Saved, Socket
from latentloom.parallel.progress import SILENT, Progress
from latentloom.pipelines.values import Image

CALLS: list[str] = []
SPANS: list[tuple[str, float, float]] = []
WAITING = threading.Event()  # set when `wait_steps` has begun


def reset() -> None:
    CALLS.clear()
    SPANS.clear()
    WAITING.clear()


def number(value: Annotated[int, Socket(min=0, max=100)] = 0) -> int:
    CALLS.append("number")
    return value


def add(a: float, b: float = 1.0) -> float:
    CALLS.append("add")
    return a + b


def echo(text: str = "", mode: Literal["plain", "loud"] = "plain", flag: bool = False) -> str:
    CALLS.append("echo")
    return text.upper() if mode == "loud" or flag else text


def picture(value: int = 0, size: Annotated[int, Socket(min=1, max=512)] = 4) -> Image:
    CALLS.append("picture")
    return Image(pixels=torch.full((1, size, size, 3), value / 255))


def blend(image: Image, other: Image | None = None) -> Image:
    CALLS.append("blend")
    return Image(pixels=image.pixels if other is None else (image.pixels + other.pixels) / 2)


def read_text(path: str, workspace: Workspace = HERE) -> str:
    CALLS.append("read_text")
    return workspace.input_path(path, socket="path").read_text()


def read_print(values: Mapping[str, Any], workspace: Workspace) -> str:
    return workspace.input_path(values["path"], socket="path").read_text()


def save(image: Image, name: str = "picture", workspace: Workspace = HERE) -> Saved:
    CALLS.append("save")
    path = workspace.output_path(f"{name}.bin", socket="name")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image.pixels.numpy().tobytes())
    return Saved(files=(str(path),))


def show(text: str) -> None:
    CALLS.append("show")


def slow(value: float = 0.0, seconds: float = 0.1) -> float:
    start = time.perf_counter()
    time.sleep(seconds)
    SPANS.append(("cpu", start, time.perf_counter()))
    return value


def slow_device(value: float = 0.0, seconds: float = 0.1) -> float:
    start = time.perf_counter()
    time.sleep(seconds)
    SPANS.append(("device", start, time.perf_counter()))
    return value


def wait_steps(value: float = 0.0, steps: int = 3, progress: Progress = SILENT) -> float:
    CALLS.append("wait_steps")
    progress.phase("waiting")
    for i in range(steps):
        WAITING.set()
        progress.step(i + 1, steps, lambda: torch.zeros(2, 2, 3, dtype=torch.uint8))
        if steps > 100:
            time.sleep(0.005)
    return value


def fail(value: float = 0.0, kind: Literal["value", "type", "disk", "memory"] = "value") -> float:
    CALLS.append("fail")
    if kind == "value":
        raise ValueError(f"value is {value}; it takes another; choose one")
    if kind == "disk":
        raise OSError(28, "No space left on device", "/somewhere/file")
    raise TypeError("these do not add") if kind == "type" else MemoryError()


SPECS: dict[str, NodeSpec] = {
    "Number": read_spec(number, id="Number", title="Number", category="toys"),
    "Add": read_spec(add, id="Add", title="Add", category="toys"),
    "Echo": read_spec(echo, id="Echo", title="Echo", category="toys"),
    "Picture": read_spec(picture, id="Picture", title="Picture", category="toys", uses_device=True),
    "Blend": read_spec(blend, id="Blend", title="Blend", category="toys"),
    "ReadText": read_spec(read_text, id="ReadText", title="Read", category="toys", fingerprint=read_print),
    "Save": read_spec(save, id="Save", title="Save", category="toys", is_output=True),
    "Show": read_spec(show, id="Show", title="Show", category="toys", is_output=True),
    "Slow": read_spec(slow, id="Slow", title="Slow", category="toys"),
    "SlowDevice": read_spec(slow_device, id="SlowDevice", title="Slow", category="toys", uses_device=True),
    "WaitSteps": read_spec(wait_steps, id="WaitSteps", title="Wait", category="toys", uses_device=True),
    "Fail": read_spec(fail, id="Fail", title="Fail", category="toys"),
}


def graph(nodes: Mapping[str, tuple[str, Mapping[str, Any]]], **parts: Any) -> Any:
    """A workflow from {name: (type, inputs)}; an input "@a.b" is a link, "$p" a param."""
    from latentloom.nodes.graph.graph import graph_from_plain

    def entry(value: Any) -> Any:
        if isinstance(value, str) and value[:1] in "@$" and len(value) > 1:
            return {"from": value[1:]} if value[0] == "@" else {"param": value[1:]}
        return value

    plain = {
        name: {"type": kind, "inputs": {k: entry(v) for k, v in inputs.items()}}
        for name, (kind, inputs) in nodes.items()
    }
    outputs = {name: {"from": target} for name, target in parts.pop("outputs", {}).items()}
    return graph_from_plain({"format": 1, "name": "toy", "nodes": plain, "outputs": outputs, **parts})


def chain(length: int) -> Any:
    """`length` adds in a row."""
    nodes: dict[str, Any] = {"n0": ("Add", {"a": 0})}
    for i in range(1, length):
        nodes[f"n{i}"] = ("Add", {"a": f"@n{i - 1}.float", "b": 0.5})
    return graph(nodes, outputs={"sum": f"n{length - 1}.float"})


def path_of(folder: Path, text: str) -> str:
    (folder / "text.txt").write_text(text)
    return str(folder / "text.txt")
