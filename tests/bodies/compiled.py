"""What a rank does for the tests of compiled blocks."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch
import torch._dynamo
import torch.distributed as dist
from torch import Tensor
from torch._dynamo.utils import counters

from bodies.changes import CHANGES, flux_with_lora
from bodies.meshes import by_plan, packing
from latentloom.parallel.attention import ulysses
from latentloom.parallel.group import Count
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.sharding import compiled, operator
from latentloom.parallel.sharding.graphs import kept, pieces
from latentloom.pipelines.spreading.transformer import Handle, shard
from support.cells import apart, model_of, outputs, variants
from zoo.cases import Case

OPTIONS: dict[str, Any] = {"backend": "aot_eager"}
SMALL = Case("any", rows=3, columns=5, text=7)


@by_plan
def through_sizes(rank: int, variant: str, mesh: Mesh, how: str, sizes: list[tuple[int, int]]) -> dict[str, Any]:
    """Pictures of several sizes through blocks that the first rank compiles, then the bare model, then sharded and
    compiled anew."""
    torch._dynamo.reset()
    kept.forget()
    counters.clear()
    model, _ = model_of(variant, SMALL)
    cases = [replace(SMALL, rows=rows, columns=columns) for rows, columns in sizes]
    inputs = [variants()[variant].build(case)[2] for case in cases]
    whole = [outputs(model, each) for each in inputs]
    handle = shard(model, mesh.plan, mesh)
    if rank == 0:
        _compile(model, handle, how)
    found = {"differences": [], "graphs": []}
    for each, wanted in zip(inputs, whole, strict=True):
        for _ in range(2):  # the first runs as ever, and what attention calls there are is learned
            found["differences"].append(_apart(outputs(model, each), wanted))
        found["graphs"].append(counters["stats"]["unique_graphs"])
    found["breaks"] = dict(counters["graph_break"])
    if mesh.plan.weights > 1:
        return found
    handle.remove()
    found["bare"] = _apart(outputs(model, inputs[0]), whole[0])
    found["left"] = [name for name, each in model.named_modules() if {"forward", "compile"} & vars(each).keys()]
    handle = shard(model, mesh.plan, mesh)
    if rank == 0:
        _compile(model, handle, how)
    found["again"] = max(_apart(outputs(model, inputs[0]), whole[0]) for _ in range(2))
    handle.remove()
    found["graphs_again"] = counters["stats"]["unique_graphs"]
    return found


@by_plan
def through_changes(rank: int, mesh: Mesh) -> dict[str, tuple[float, bool]]:
    """Of each thing that may be changed of a compiled FLUX, one after the other: how far it is from the same without
    graphs, and whether those of before are found again once it is changed back."""
    torch._dynamo.reset()
    kept.forget()
    model, inputs = flux_with_lora()
    handle = shard(model, mesh.plan, mesh)
    forwards = handle._forwards or compiled.Forwards(
        model, [*model.transformer_blocks, *model.single_transformer_blocks], "Flux"
    )

    def apart(more: dict[str, Any]) -> float:
        forwards.restore()
        wanted = outputs(model, {**inputs, **more})
        if rank == 0:  # the other ranks only answer it
            # What is asked is which graph is taken: one kind of block will do, and a backend that changes nothing.
            forwards.compile(model.single_transformer_blocks, backend="eager")
        return max(_apart(outputs(model, {**inputs, **more}), wanted) for _ in range(2))

    found = {"nothing": (apart({}), True)}
    for what, (change, back) in CHANGES.items():
        undo = change(model)
        changed = apart({})
        back(model, undo)
        before = counters["stats"]["unique_graphs"]
        found[what] = max(changed, apart({})), counters["stats"]["unique_graphs"] == before
    for scale in (0.5, 0.25):
        found[f"{scale} among the arguments"] = apart({"joint_attention_kwargs": {"scale": scale}}), True
    forwards.restore()
    handle.remove()
    return found


@by_plan
def in_graph(
    rank: int,
    variant: str,
    mesh: Mesh,
    sizes: list[tuple[int, int]],
    heads: int,
    options: dict[str, Any] = OPTIONS,
    planted: Literal["mixed up", "untraceable", ""] = "",
    by_rank: dict[int, dict[str, Any]] | None = None,
    without: str = "",
) -> dict[str, Any]:
    """Pictures of several sizes as on GPUs, where the exchange is in the graph: how far the output is from one process
    and from the same that is not compiled, how many graphs there are, and what calls go which way.

    With `by_rank`, options of each rank: one that has none compiles nothing, and only answers those that do.
    `without` names in the model's config a kind of block that it then has none of, and one of the other.
    """
    torch._dynamo.reset()
    kept.forget()
    counters.clear()
    pieces._told.clear()
    layers = 1 if without else 2
    small = replace(SMALL, heads=heads, layers=layers)
    model, _ = model_of(variant, small, **({without: 0} if without else {}))
    cases = [replace(small, rows=rows, columns=columns) for rows, columns in sizes]
    inputs = [variants()[variant].build(case)[2] for case in cases]
    alone = [outputs(model, each) for each in inputs]
    handle = shard(model, mesh.plan, packing(mesh))
    eager = [outputs(model, each) for each in inputs]
    before = handle.mesh.sent
    outputs(model, inputs[-1])
    uncompiled_sent = _since(handle.mesh, before)
    if planted == "untraceable":
        for block in model.transformer_blocks:
            vars(block.ff)["forward"] = _reading(handle.session, block.ff.forward)
    if by_rank is None or rank in by_rank:
        handle.compile(**(options if by_rank is None else by_rank[rank]))
    real = ulysses.start_traced_exchange
    if planted == "mixed up":
        ulysses.start_traced_exchange = lambda *args: lambda: real(*args)().flip(0)
    found: dict[str, Any] = {"alone": [], "eager": []}
    try:
        for each, wanted, uncompiled in zip(inputs, alone, eager, strict=True):
            outputs(model, each)
            before = handle.mesh.sent
            got = outputs(model, each)
            found["alone"].append(_apart(got, wanted))
            found["eager"].append(_apart(got, uncompiled))
    finally:
        ulysses.start_traced_exchange = real
    found["is as much sent"] = _since(handle.mesh, before) == uncompiled_sent
    found["graphs"] = counters["stats"]["unique_graphs"]
    calls = [calls for known in kept._kinds.values() for calls in known._calls.values()]
    found["ways"] = sorted({call.way for each in calls for call in each})
    found["are broken"] = any(graphs.is_broken for known in kept._kinds.values() for graphs in known._graphs.values())
    found["left out"] = sorted({*map(_left_out, counters["graph_break"]), *(why for _, why in pieces._told)})
    handle.remove()
    return found


def _reading(session: Any, forward: Any) -> Any:
    def read(*args: Any) -> Any:
        assert session.rank in (0, 1)  # torch's compiler fails at a mode's property, by an error of its own
        return forward(*args)

    return read


def failing(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that fails on all ranks but the first."""
    if dist.get_rank():
        raise RuntimeError("planted")
    return graph.forward


def _left_out(reason: str) -> str:
    """What torch could not take into a graph, of all that it says of it."""
    found = re.search(r"<function (\S+) at|Operator `([\w.]+)`", reason)
    return next(filter(None, found.groups())) if found else reason.partition("\n")[0]


def _since(mesh: Mesh, before: Count) -> tuple[int, int]:
    return mesh.sent.sent_bytes - before.sent_bytes, mesh.sent.calls - before.calls


def _compile(model: Any, handle: Handle, how: str) -> None:
    if how == "handle":
        handle.compile(**OPTIONS)
    else:
        model.compile_repeated_blocks(fullgraph=True, **OPTIONS)


@by_plan
def check_operator(rank: int, mesh: Mesh) -> dict[str, Any]:
    """torch's own checks of the operator, and the operator in a graph against the same without one."""
    torch._dynamo.reset()
    counters.clear()
    handle = shard(model_of("flux", SMALL)[0], mesh.plan, mesh)
    session = handle.session
    assert session is not None
    session.define("text", 7)
    session.define("image", 15)
    held = session.layout(("text", "image")).num_held(session.rank)
    generator = torch.Generator().manual_seed(rank)
    q, k, v = (torch.randn(2, 4, held, 16, generator=generator) for _ in range(3))
    operator.enter(session)
    passed = torch.library.opcheck(
        torch.ops.latentloom.attend.default,
        (q, k, v, None, None, False, 0),
        test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic"),
    )

    def doubled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return 2 * torch.ops.latentloom.attend(q, k, v, None, None, False, 0)

    in_a_graph = torch.compile(doubled, fullgraph=True, **OPTIONS)
    with torch.no_grad():
        difference = float((in_a_graph(q, k, v) - doubled(q, k, v)).abs().max())
    operator.leave(session)
    handle.remove()
    return {"passed": passed, "difference": difference, "graphs": counters["stats"]["unique_graphs"]}


@by_plan
def refused(rank: int, how: str, mesh: Mesh) -> str:
    """What is said to who compiles a transformer in such a way, before it is sharded or afterwards."""
    model, handle = model_of("flux", SMALL)[0], None
    try:
        if how in BEFORE:
            BEFORE[how](model)
        handle = shard(model, mesh.plan, mesh)
        AFTER[how](model, handle)
    except ValueError as error:
        return str(error)
    finally:
        if handle is not None:
            handle.remove()
    return "nothing"


BEFORE: dict[str, Callable[[Any], Any]] = {
    "before": lambda model: model.compile_repeated_blocks(fullgraph=True, **OPTIONS),
    "whole_before": lambda model: model.compile(**OPTIONS),
}
AFTER: dict[str, Callable[[Any, Any], Any]] = {
    "whole_after": lambda model, _: model.compile(**OPTIONS),
    "twice": lambda model, handle: (handle.compile(**OPTIONS), model.compile_repeated_blocks(**OPTIONS)),
    "captured": lambda _, handle: handle.compile(mode="reduce-overhead"),
    "captured_by_diffusers": lambda model, _: model.compile_repeated_blocks(options={"triton.cudagraphs": True}),
}


def _apart(got: list[Tensor], wanted: list[Tensor]) -> float:
    largest = max(1.0, *(float(x.abs().max()) for x in wanted))
    return apart(got, wanted) / largest
