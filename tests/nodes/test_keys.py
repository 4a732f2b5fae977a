"""Recipe keys: equal where results are equal, and linear to compute."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
import torch

from latentloom.nodes.execution.schedule import drawn_by_seed, recipe_keys
from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.graph.resolve import Resolved, resolve
from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.graph.spec import Socket
from latentloom.nodes.headless.workflow_files import EXAMPLES
from latentloom.nodes.preview.walk import Walk
from latentloom.nodes.registry import SPECS
from latentloom.nodes.steps.denoising import noise_recipe
from latentloom.pipelines.values import Depth, Image
from support.prepared import needs_of, run, schedule


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


def test_the_version_of_a_node_and_the_package_that_it_comes_from_matter(toys: ModuleType) -> None:
    graph, spec = toys.graph({"n": ("Number", {"value": 1})}), toys.SPECS["Number"]
    specs = [spec, dataclasses.replace(spec, version=2), dataclasses.replace(spec, origin="studio 1.0")]
    nodes = [{"n": Resolved(graph.nodes["n"], each, {"value": 1}, {})} for each in specs]
    assert len({recipe_keys(["n"], each, {}, {}, {}, {})["n"] for each in nodes}) == len(specs)


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


EAGER_KEY = "d76958da5e621af77dc55e7f90ebbf4afda718be51ab5f7ac6333b5122ad4e09"
# What Load Model with builtin:bobbin had before there were engines, of files whose fingerprint is "files".
COMPILED_KEY = "fb257bcba1f0646c7adefc93f2026e462db7d87d33dd76dfd4626e34ec5506db"


def model_key(toys: ModuleType, version: int, inputs: dict[str, object]) -> str:
    graph = toys.graph({"load": ("LoomLoadModel", {"source": "builtin:bobbin", **inputs})})
    node = graph.nodes["load"].model_copy(update={"version": version})
    prepared = ready(graph.model_copy(update={"nodes": {"load": node}}), SPECS)
    assert not prepared.problems
    nodes = resolve(prepared.graph, prepared.specs)
    return recipe_keys(["load"], nodes, {"load": "files"}, {}, {}, {})["load"]


@pytest.mark.parametrize(
    ("version", "inputs", "key"),
    [
        (1, {}, EAGER_KEY),
        (1, {"compiled": False, "cuda_graph": True}, EAGER_KEY),
        (1, {"compiled": True}, COMPILED_KEY),
        (2, {}, EAGER_KEY),
        (2, {"engine": "inductor"}, COMPILED_KEY),
        *((2, {"engine": "eager", "graphs": graphs}, EAGER_KEY) for graphs in ("auto", "on", "off")),
        (2, {"text_encoder": "device"}, EAGER_KEY),
    ],
)
def test_what_was_kept_before_there_were_engines_is_found(
    toys: ModuleType, version: int, inputs: dict[str, object], key: str
) -> None:
    assert model_key(toys, version, inputs) == key


def test_another_engine_and_texts_on_the_cpu_have_keys_of_their_own(toys: ModuleType) -> None:
    assert model_key(toys, 2, {"engine": "tensorrt"}) not in (EAGER_KEY, COMPILED_KEY)
    assert model_key(toys, 2, {"text_encoder": "cpu"}) not in (EAGER_KEY, COMPILED_KEY)


# ---- noise

PAINTED = {
    "load": ("LoomLoadModel", {"source": "builtin:bobbin", "device": "cpu"}),
    "text": ("LoomEncodeText", {"model": "@load.model", "prompt": "a red star"}),
    "picture": ("LoomLoadImage", {"path": "picture.png"}),
    "start": ("LoomEncodeImage", {"model": "@load.model", "image": "@picture.image"}),
    "denoise": (
        "LoomDenoise",
        {"model": "@load.model", "conditioning": "@text.conditioning", "latents": "@start.latents", "seed": 7},
    ),
}


def painted_keys(toys: ModuleType, *, dtype: str = "fp32", noise: str = "", at: tuple[str, ...] = ()) -> dict[str, str]:
    graph = toys.graph(PAINTED)
    overrides = {"load.dtype": dtype, **{f"{name}.noise": noise for name in at}}
    workspace = Workspace(roots=(EXAMPLES,))
    return dict(schedule(graph, SPECS, overrides=overrides, workspace=workspace, targets=["denoise"]).keys)


def known_keys(keys: dict[str, str]) -> tuple[str, str]:
    """What nodes of these sources had before there was a choice of noise."""
    size = {"width": 0, "height": 0, "frames": 0, "fps": 0.0, "seed": 0}
    links = [("model", keys["load"], "model"), ("image", keys["picture"], "image")]
    start = _hash(("LoomEncodeImage", 1, size, links, ""))
    asked = {"seed": 7, "steps": 0, "guidance": 0.0, "strength": 1.0, "guidance_2": 0.0, "distilled_guidance": 0.0}
    asked |= {"step_cache": "none", "cache_threshold": 0.0, "sampling": None, "mask": None}
    links = [("model", keys["load"], "model"), ("conditioning", keys["text"], "conditioning")]
    return start, _hash(("LoomDenoise", 1, asked, [*links, ("latents", keys["start"], "latents")], ""))


def _hash(recipe: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(recipe).encode()).hexdigest()


def test_what_was_kept_before_there_was_a_choice_of_noise_is_found_where_it_is_the_same(toys: ModuleType) -> None:
    both = ("start", "denoise")
    whole = painted_keys(toys)
    assert (whole["start"], whole["denoise"]) == known_keys(whole)
    assert painted_keys(toys, noise="diffusers", at=both) == whole
    stock = painted_keys(toys, dtype="bf16", noise="diffusers", at=both)
    assert (stock["start"], stock["denoise"]) == known_keys(stock)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_in_half_precision_the_noise_of_a_seed_has_keys_of_its_own(dtype: str, toys: ModuleType) -> None:
    half, stock = painted_keys(toys, dtype=dtype), painted_keys(toys, dtype=dtype, noise="diffusers", at=("denoise",))
    assert stock["start"] == half["start"] != known_keys(half)[0]
    assert half["denoise"] != stock["denoise"] == known_keys(half)[1]


def test_the_noise_of_a_model_that_is_not_known_has_a_key_of_its_own(toys: ModuleType) -> None:
    graph, overrides = toys.graph(PAINTED), {"load.source": "gone"}
    walk = Walk(ready(graph, SPECS, overrides), workspace=HERE)
    needs = needs_of(graph, SPECS, overrides=overrides, targets=["denoise"])
    assert drawn_by_seed(walk, needs) == {"start", "denoise"}


def test_what_a_node_was_given_nothing_for_before_it_had_a_socket_for_it_leaves_the_key_of_older_results() -> None:
    older = {"width": 64, "seed": 3, "mask": None}
    assert noise_recipe({**older, "noise": "seed", "last_image": None}) == (1, older)
