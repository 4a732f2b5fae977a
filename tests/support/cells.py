"""What a rank does for one cell of the equality matrix: one model variant, one shape, one plan."""

import dataclasses
import functools
import importlib
import zlib
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import Mesh, make_mesh_among
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding.fingerprint import tensors_in
from latentloom.parallel.sharding.padding import leaving_out
from latentloom.parallel.sharding.shard import shard as shard_module
from latentloom.pipelines.spreading.transformer import leave_padding_out, shard, split_plan_of
from zoo.cases import CASES, Case, Variant, variants_of

ZOO = ("flux", "image_joint", "wan", "video", "hunyuan", "cog", "kandinsky", "single_stream", "cross", "audio")
TOLERANCE = 1e-5


@functools.cache
def variants() -> dict[str, Variant]:
    found: dict[str, Variant] = {}
    for name in ZOO:
        found |= variants_of(importlib.import_module(f"zoo.{name}"))
    return found


@functools.lru_cache(maxsize=2)
def built(variant: str, case: str) -> tuple[nn.Module, dict[str, Any], list[Tensor]]:
    """The model, its inputs, and its output on one process."""
    model, inputs = made(variant, case)
    return model, inputs, outputs(model, inputs)


@functools.lru_cache(maxsize=2)
def made(variant: str, case: str) -> tuple[nn.Module, dict[str, Any]]:
    return model_of(variant, CASES[case])


def model_of(variant: str, case: Case, **changes: Any) -> tuple[nn.Module, dict[str, Any]]:
    """A model that is nobody else's, of this config but for `changes`, and its inputs."""
    kind, config, inputs = variants()[variant].build(case)
    torch.manual_seed(0)
    model = kind(**{**config, **changes}).eval()
    fill(model)
    return model, inputs


def fill(model: nn.Module) -> None:
    """Give every parameter a value that matters: zero gates would hide any error of attention."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            random = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim >= 2:
                parameter.copy_(random / max(1, parameter[0].numel()) ** 0.5)
            elif name.endswith("bias") or "pad_token" in name:
                parameter.copy_(0.1 * random)
            else:
                parameter.copy_(1 + 0.1 * random)


def outputs(model: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    # Copies of lists: HunyuanDiT takes a ControlNet's residuals out of the list that it is given.
    given = {name: list(value) if isinstance(value, list) else value for name, value in inputs.items()}
    with torch.no_grad():
        return list(tensors_in(model(**given, return_dict=False)))


@functools.cache
def mesh_for(plan: ParallelPlan) -> Mesh | None:
    """Collective: the first ranks' mesh, None on the others; all ranks come by in the same order."""
    return make_mesh_among(range(plan.num_ranks), plan)


def cell(rank: int, variant: str, case: str, plan: str, control: bool = False) -> dict[str, Any] | None:
    """Sharded against whole on the first rank, whose bits all ranks must have; `control` leaves attention local, which
    must be wrong."""
    parsed = ParallelPlan.parse(plan)
    mesh = mesh_for(dataclasses.replace(parsed, text="auto"))
    if mesh is None:
        return None
    mesh = dataclasses.replace(mesh, plan=parsed)
    model, inputs = made(variant, case)
    whole = built(variant, case)[2] if rank == 0 or "kv_cache" in inputs else None  # a forward changes a cache
    split = split_plan_of(model)
    handle = shard_module(model, replace(split, processors={}), mesh) if control else shard(model, parsed, mesh)
    before = mesh[Axis.SEQUENCE].count.calls
    try:
        if control:
            assert handle.session is not None
            handle.session.attend = _local
        got = outputs(model, inputs)
    finally:
        handle.remove()
    return {**compared(got, whole), "calls": mesh[Axis.SEQUENCE].count.calls - before}


def padded(rank: int, variant: str, case: str, plan: str) -> dict[str, Any] | None:
    """As `cell`, with padding left out; `plan` may be `one`, for this rank alone with the transformer whole."""
    with leaving_out(True):
        if plan != "one":
            return cell(rank, variant, case, plan)
        if rank:
            return None
        model, inputs, whole = built(variant, case)
        undo = leave_padding_out(model)
        try:
            got = outputs(model, inputs)
        finally:
            undo()
    return {**compared(got, whole), "calls": 0}


def compared(got: list[Tensor], whole: list[Tensor] | None) -> dict[str, Any]:
    """With `whole` on another rank there is no difference here to tell of, but for bits."""
    whole = got if whole is None else whole
    if [x.shape for x in got] != [x.shape for x in whole]:
        raise AssertionError(f"shapes {[tuple(x.shape) for x in got]}, not {[tuple(x.shape) for x in whole]}")
    return {
        "difference": apart(got, whole),
        "largest": max(float(x.abs().max()) for x in whole),
        "bits": functools.reduce(lambda mark, x: zlib.crc32(x.contiguous().numpy().tobytes(), mark), got, 0),
    }


def apart(some: list[Tensor], others: list[Tensor]) -> float:
    return max(float((x.double() - y.double()).abs().max()) for x, y in zip(some, others, strict=True))


def few(rank: int, variant: str, case: str, plan: str) -> dict[str, Any] | str | None:
    """As `cell`, or how it was refused; "" of a shape that the class cannot have on one process either."""
    try:
        built(variant, case)
    except Exception:
        return ""
    try:
        return cell(rank, variant, case, plan)
    except ValueError as error:
        return str(error)


def _local(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=k.shape[1] != q.shape[1])


def verdict(results: list[dict[str, Any] | None]) -> str:
    """`ok`, or what is wrong with a cell."""
    got = [result for result in results if result is not None]
    difference, largest = max(r["difference"] for r in got), got[0]["largest"]
    if largest < 1 or largest != largest:
        return f"no test: the largest value is {largest:.2g}"
    if not difference <= TOLERANCE * max(1.0, largest):
        return f"off by {difference:.2g} of {largest:.2g}"
    if len({r["bits"] for r in got}) > 1:
        return "the ranks differ in the last bits"
    return "ok"


def texts(model_variant: str, case: Case) -> tuple[str, ...]:
    """The text modes that a variant's class offers."""
    from latentloom.pipelines.split_plans import SPLIT_PLANS

    kind, _, _ = variants()[model_variant].build(case)
    return ("replicated", "sharded") if SPLIT_PLANS[kind.__name__].either else ("auto",)
