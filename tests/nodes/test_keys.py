"""Recipe keys: equal where results are equal, and linear to compute."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
import torch

from latentloom.nodes.execution.run import run
from latentloom.nodes.execution.schedule import schedule
from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph.spec import Socket, read_spec
from latentloom.pipelines.values import Depth, Image


def key(toys: ModuleType, nodes: dict, name: str, workspace: Workspace = HERE, **parts: object) -> str:
    graph = toys.graph(nodes, **parts)
    return schedule(graph, toys.SPECS, overrides={}, workspace=workspace, targets=[name]).keys[name]


def test_names_titles_layout_and_the_user_s_own_keys_do_not_matter(toys: ModuleType) -> None:
    one = key(toys, {"n": ("Number", {"value": 2}), "sum": ("Add", {"a": "@n.int"})}, "sum")
    other = key(toys, {"m": ("Number", {"value": 2}), "s": ("Add", {"a": "@m.int"})}, "s", layout={"m": [1, 2]})
    own = {"$schema": "x.json", "meta": {"shot": 3}}
    third = key(toys, {"n": ("Number", {"value": 2}), "sum": ("Add", {"a": "@n.int"})}, "sum", **own)
    assert one == other == third


def test_defaults_and_whole_floats_do_not_matter(toys: ModuleType) -> None:
    keys = {key(toys, {"s": ("Add", inputs)}, "s") for inputs in ({"a": 2}, {"a": 2.0}, {"a": 2, "b": 1})}
    assert len(keys) == 1


def test_values_types_links_and_what_feeds_them_matter(toys: ModuleType) -> None:
    keys = [
        key(toys, {"s": ("Add", {"a": 2})}, "s"),
        key(toys, {"s": ("Add", {"a": 3})}, "s"),
        key(toys, {"s": ("Add", {"a": 1, "b": 2})}, "s"),
        key(toys, {"s": ("Slow", {"value": 2})}, "s"),
        key(toys, {"n": ("Number", {"value": 1}), "s": ("Add", {"a": "@n.int"})}, "s"),
        key(toys, {"n": ("Number", {"value": 2}), "s": ("Add", {"a": "@n.int"})}, "s"),
    ]
    assert len(set(keys)) == len(keys)


def test_fingerprint_and_output_folder_matter(toys: ModuleType, tmp_path: Path) -> None:
    nodes = {"r": ("ReadText", {"path": toys.path_of(tmp_path, "one")})}
    one = key(toys, nodes, "r")
    toys.path_of(tmp_path, "two")
    assert key(toys, nodes, "r") != one
    saving = {"p": ("Picture", {}), "s": ("Save", {"image": "@p.image"})}
    folders = {key(toys, saving, "s", Workspace(output_dir=tmp_path / name)) for name in "ab"}
    assert len(folders) == 2


@pytest.mark.parametrize("length", [1000, 2000])
def test_a_chain_takes_one_hash_for_each_node(length: int, toys: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    real = hashlib.sha256
    monkeypatch.setattr("hashlib.sha256", lambda data: (hashed.append(len(data)), real(data))[1])
    plan = schedule(toys.chain(length), toys.SPECS, overrides={}, workspace=HERE)
    assert len(hashed) == length and max(hashed) < 400
    assert plan.order == tuple(f"n{i}" for i in range(length))
    assert toys.CALLS == []


def paint(size: int = 2, depth: Depth = "floats") -> Image:
    dtype = torch.uint8 if depth == "bytes" else torch.float32
    return Image(pixels=torch.zeros(1, size, size, 3, dtype=dtype))


def keep(image: Annotated[Image, Socket(takes_bytes=True)]) -> str:
    return str(image.pixels.dtype)


def look(image: Image) -> str:
    return str(image.pixels.dtype)


@pytest.mark.parametrize(
    ("nodes", "targets", "found"),
    [
        ({"k": "keep"}, ("k",), "torch.uint8"),
        ({"k": "keep", "l": "look"}, ("k",), "torch.uint8"),
        ({"k": "keep", "l": "look"}, ("k", "l"), "torch.float32"),
        ({"k": "keep"}, ("k", "p"), "torch.float32"),
    ],
)
def test_pixels_are_made_as_bytes_where_every_use_takes_them(
    nodes: dict[str, str], targets: Sequence[str], found: str, toys: ModuleType
) -> None:
    specs = {call.__name__: read_spec(call, title="", category="") for call in (paint, keep, look)}
    assert [socket.name for socket in specs["paint"].inputs] == ["size"]
    graph = toys.graph({"p": ("paint", {}), **{name: (kind, {"image": "@p.image"}) for name, kind in nodes.items()}})
    made = run(graph, specs, targets=targets)
    assert {made.outputs[name] for name in targets if name != "p"} == {found}
    alone = run(graph, specs, targets=("p",))
    assert alone.outputs["p"].pixels.is_floating_point()
    assert (alone.nodes["p"].key == made.nodes["p"].key) == (found == "torch.float32")  # caches keep them apart
