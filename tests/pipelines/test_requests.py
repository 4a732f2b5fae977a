"""Requests: refused with the nearest name, fed by the nodes' sockets, read by stages and families, and never twice."""

import ast
import contextlib
import dataclasses
import inspect
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch

import latentloom
from bodies.requests import counted
from latentloom import nodes
from latentloom.parallel.pool.pool import Pool
from latentloom.pipelines import placement, stages
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.pools import preloads
from latentloom.pipelines.requests import Decode, Denoise, EncodeImage, EncodeText, Request
from latentloom.pipelines.values import NUM_SEEDS, Conditioning, Image, Latents, Place, Sampling, to_plain

ROOT = Path(__file__).resolve().parents[2]
BOBBIN = describe_model("builtin:bobbin", device="cpu")
EMPTY = Latents(family="flux", width=64, height=64)
TEXT = Conditioning(family="flux", prompt="a", negative_prompt="", positive={})
PICTURE = Image(pixels=torch.zeros(1, 64, 64, 3))
# What each request cannot do without.
GIVEN: dict[type[Request], dict[str, Any]] = {
    EncodeText: {"model": BOBBIN, "prompt": "a"},
    EncodeImage: {"model": BOBBIN, "image": PICTURE},
    Denoise: {"model": BOBBIN, "conditioning": TEXT, "latents": EMPTY},
    Decode: {"model": BOBBIN, "latents": EMPTY},
}
KINDS = pytest.mark.parametrize("kind", GIVEN, ids=lambda kind: kind.__name__)

# ---- what is refused


@KINDS
def test_every_misspelt_name_is_refused_with_the_nearest(kind: type[Request]) -> None:
    for field in dataclasses.fields(kind):
        given = {**GIVEN[kind], f"{field.name}x": 1}
        with pytest.raises(ValueError) as made:
            kind(**given)
        with pytest.raises(ValueError) as by_name:
            stages.STAGES[kind.stage](**given)
        with pytest.raises(ValueError) as plain:
            stages.STAGES[kind.stage](given)
        assert f"{made.value}".startswith(f"{kind.__name__} has no {field.name}x; did you mean {field.name}? It has ")
        assert f"{made.value}" == f"{by_name.value}" == f"{plain.value}"


@KINDS
def test_every_wrong_type_is_refused_by_name(kind: type[Request]) -> None:
    for field in dataclasses.fields(kind):
        given = {**GIVEN[kind], field.name: [1]}
        with pytest.raises(ValueError, match=rf"^{field.name} is .*(give|choose)") as caught:
            stages.STAGES[kind.stage](given)
        assert "\n" not in str(caught.value)


@KINDS
def test_what_is_missing_is_named(kind: type[Request]) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} cannot be read .* 'model'"):
        stages.STAGES[kind.stage]()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"guidance": -1}, "guidance is -1; give a number that is not negative, or 0 for the model's own"),
        ({"strength": math.nan}, "strength is nan; give a number"),
        ({"guidance": 10**400}, "guidance is 1000"),
        ({"guidance": True}, "guidance is True; give a number"),
        ({"guidance": "3"}, "guidance is '3'; give a number"),
        ({"steps": 2.0}, "steps is 2.0; give a whole number from 1 to 1000, or 0 for the model's own"),
        ({"steps": True}, "steps is True; give a whole number"),
        ({"seed": NUM_SEEDS}, f"seed is {NUM_SEEDS}; give a whole number from 0 up to {NUM_SEEDS - 1}"),
        ({"seed": -1}, f"seed is -1; give a whole number from 0 up to {NUM_SEEDS - 1}"),
        ({"step_cache": "first"}, "step_cache is 'first'; did you mean first_block? choose one of none, first_block"),
        ({"model": EMPTY}, "model is a Latents; give a Model"),
        ({"plan": "ulysses=2"}, "plan is a str; give a ParallelPlan"),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        Denoise(**{**GIVEN[Denoise], **wrong})
    assert str(caught.value).startswith(sentence)


def test_the_stages_stand_at_the_root() -> None:
    assert latentloom.stages is stages
    with pytest.raises(ValueError, match="Denoise has no guidence; did you mean guidance"):
        latentloom.stages.denoise(**GIVEN[Denoise], guidence=7.0)


def test_a_request_of_another_stage_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="denoise got a Decode; give a Denoise, or its fields by name"):
        stages.denoise(Decode(model=BOBBIN, latents=EMPTY))  # type: ignore[arg-type]


def test_plain_data_and_values_make_the_same_request() -> None:
    request = Denoise(**GIVEN[Denoise], seed=7, guidance=3, sampling=Sampling(sigmas=(1.0, 0.5)))
    assert isinstance(request.guidance, float)
    plain = to_plain(request)
    assert plain["plan"] == to_plain(request.plan) and plain["sampling"]["sigmas"] == [1.0, 0.5]
    again = stages.made(Denoise, plain, {})
    assert (again.model, again.sampling, again.seed, again.plan) == (BOBBIN, request.sampling, 7, request.plan)
    assert stages.made(Denoise, request, {}) is request
    assert stages.made(Denoise, request, {"seed": 8}).seed == 8 and request.seed == 7
    assert stages.made(Denoise, plain, {"seed": 8}).seed == 8


# ---- who feeds it, who reads it

FED = {
    nodes.encode_text: EncodeText,
    nodes.encode_image: EncodeImage,
    nodes.denoise: Denoise,
    nodes.decode: Decode,
    nodes.decode_video: Decode,
}
SET_BY_PLACEMENT = {"plan", "split", "before"}
HOSTS = {"progress", "workspace"}  # what a node gets from its host, no socket


@pytest.mark.parametrize("node", FED, ids=lambda node: node.__name__)
def test_each_socket_that_feeds_a_stage_is_a_field_of_its_request(node: Any) -> None:
    kind = FED[node]
    fields = {field.name: field for field in dataclasses.fields(kind)}
    types, wanted = get_type_hints(node), get_type_hints(kind)
    sockets = {name: each for name, each in inspect.signature(node).parameters.items() if name not in HOSTS}
    assert fields.keys() - sockets.keys() <= SET_BY_PLACEMENT
    for name, socket in sockets.items():
        assert name in fields, f"{kind.__name__} has no {name}"
        factory = fields[name].default_factory
        if socket.default is None and fields[name].default is not None:  # nothing is linked: the field's own
            assert types[name] == wanted[name] | None and factory is wanted[name]
            continue
        assert types[name] == wanted[name], name
        assert factory is dataclasses.MISSING
        default = inspect.Parameter.empty if fields[name].default is dataclasses.MISSING else fields[name].default
        assert (socket.default, type(socket.default)) == (default, type(default)), name


def trees(*folders: str) -> Iterator[ast.Module]:
    for folder in folders:
        for path in sorted((ROOT / folder).glob("*.py")):
            yield ast.parse(path.read_text())


@KINDS
def test_the_nodes_give_every_field(kind: type[Request]) -> None:
    """A field that a node forgets would keep its default, whatever the socket says."""
    calls = [
        {keyword.arg for keyword in node.keywords}
        for tree in trees("nodes/steps")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"requests.{kind.__name__}"
    ]
    assert calls == [{field.name for field in dataclasses.fields(kind)} - SET_BY_PLACEMENT]


def reads(kind: str) -> set[str]:
    """The attributes that functions of stages and families take from their parameter of this kind."""
    found: set[str] = set()
    for tree in trees("pipelines", "pipelines/families", "pipelines/denoising", "pipelines/spreading"):
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            arguments = (*function.args.args, *function.args.kwonlyargs)
            named = {each.arg for each in arguments if each.annotation and kind in ast.unparse(each.annotation).split()}
            found |= {
                node.attr
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in named
            }
    return found


@KINDS
def test_every_field_is_read_by_a_stage_or_a_family(kind: type[Request]) -> None:
    assert {field.name for field in dataclasses.fields(kind)} - reads(kind.__name__) == set()


# ---- made once, read once

ONCE = {"made Denoise": 1}
WRITTEN = {f"written {name}": 1 for name in ("Denoise", "Model", "Conditioning", "Latents", "Sampling", "ParallelPlan")}
READ = {f"read {name}": 1 for name in ("Denoise", "Model", "Conditioning", "Latents", "Sampling", "ParallelPlan")}


def painted(model: Any) -> Any:
    conditioning = nodes.encode_text(dataclasses.replace(model, place=Place()), "a red circle", text_length=32)
    return counted(lambda: nodes.denoise(model, conditioning, EMPTY, seed=3, steps=1, guidance=1.0))


def test_on_one_device_a_request_is_made_once_and_never_written_or_read() -> None:
    assert painted(BOBBIN)[1] == ONCE


@pytest.mark.usefixtures("warm_pools")
def test_on_two_devices_it_is_written_once_and_read_once_in_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, _ = painted(BOBBIN)
    in_ranks: list[dict[str, int]] = []

    class Counted:
        """The pool, whose ranks tell what they counted too."""

        def __init__(self, pool: Pool) -> None:
            self.pool = pool

        def call(self, function: str, request: Mapping[str, Any], progress: Any, *, num_ranks: int, **_: Any) -> Any:
            assert function == ".pipelines.placement:on_rank"
            found = self.pool.call_every("bodies.requests:on_rank", request, progress, num_ranks=num_ranks)
            in_ranks.extend(each["counts"] for each in found)
            return found[0]["answer"]

    with Pool(["cpu", "cpu"], preload=preloads(BOBBIN)) as pool:
        monkeypatch.setattr(placement.POOLS, "using", lambda *_: contextlib.nullcontext(Counted(pool)))
        place = Place(devices=("cpu", "cpu"), plan="ulysses=2")
        latents, here = painted(dataclasses.replace(BOBBIN, place=place))
    assert here == {**ONCE, **WRITTEN, "read Latents": 1, "parsed a plan": 1}
    assert in_ranks == [{**READ, **ONCE, "written Latents": 1}] * 2
    torch.testing.assert_close(latents.tensor, alone.tensor, atol=1e-5, rtol=0)
