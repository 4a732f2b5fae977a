"""A block's forward as it is traced: a mode of its own answers the attention calls, by what was learned of them.

A mode that is entered around a graph sees each of its calls, in Python, some sixty a block. This one is traced with the
block. What else the graph depends on, torch would ask by guards each time; here `watched.Watched` is asked instead.

*Wires* are what the exchange of an attention call needs to be part of the graph, in the place of an operator: a few
operators that a compiler fuses with the layers around. Rows are picked, sent and put in order by the index tensors of
`attention/packed.py`, which a graph is given at each call, like the sizes. What never changes for a graph, such as how
many heads there are and by which name it asks for its group, is told apart: graphs are kept by it. All collectives of a
call depend on each other, so that no compiler may swap two.
"""

# B batch, H heads of q, K heads of k and v, h heads here while attending, S tokens here, G tokens of the ulysses group

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._dynamo.eval_frame import reset_code
from torch.utils._pytree import tree_map_only

from ...attention import STRATEGIES
from ...attention.strategy import Kernel
from ...group import Axis, Group
from ...layout import Layout
from ...mesh import Mesh, planned_mesh
from ...plan import ParallelPlan
from ...process_groups import name_of, point
from ...traffic import Shape, Traffic, traffic_of
from ..operator import Asked, Intercepting

# How an attention call goes in a graph: "plain" as torch's own operator, "opaque" as the one that asks the session at
# work, or the strategy by the operators of whose exchange.
Way = str


@dataclass(frozen=True)
class AttentionCall:
    """One attention call of a block, as it was met in a forward that was not compiled."""

    kind: int
    way: Way
    streams: tuple[str, ...] = ()
    shape: Shape | None = None
    kernel: Kernel | None = None  # the last three of calls whose exchange is in the graph


@dataclass(frozen=True)
class Wire:
    """For one call, of these lengths.

    What is fixed is in the key of its graph. What is given follows from that and the lengths, so that the graph of the
    first lengths needs no guards on sizes.
    """

    name: str
    # Numbers, in a string: a number that a graph for any lengths is made with becomes a symbol, a string does not.
    fixed: str
    given: tuple[Any, ...]
    group: Group
    traffic: Traffic

    def make_ready(self) -> None:
        """Before each graph that it goes into: its group is found by the name."""
        assert self.group.process_group is not None, f"{self.group} exchanges and so was made, not only planned"
        point(self.name, self.group.process_group)

    def count(self) -> None:
        """After it: what it sent."""
        self.group.count.sent_bytes += self.traffic.sent_bytes
        self.group.count.calls += self.traffic.calls


def way_of(mesh: Mesh, layout: Layout, kernel: Kernel) -> Way:
    """How self attention over these streams goes, without a mask; the same on all ranks."""
    if len(mesh.plan.strategies) != 1 or mesh[Axis.WEIGHTS].size > 1 or not kernel.is_traced or layout.left_out:
        return "opaque"
    (name,) = mesh.plan.strategies
    axis = STRATEGIES[name].AXIS
    # Ring and AllGather-KV in a graph are of equal steps on all ranks: a replicated stream, or a rank without a token,
    # takes others.
    is_full = not layout.num_replicated and all(layout.num_held(rank) for rank in range(layout.num_ranks))
    return name if mesh[axis].packs and (is_full or axis != Axis.EXCHANGE) else "opaque"


def wire_of(call: AttentionCall, layout: Layout, mesh: Mesh, device: torch.device) -> Wire:
    """Of a call whose exchange is in the graph."""
    assert call.shape is not None, "its shape was learned"
    strategy = STRATEGIES[call.way]
    traffic = _traffic(mesh.plan, mesh.rank, layout, call.shape)
    fixed, given = strategy.wire(call.shape, layout, mesh, device)
    name = name_of(strategy.AXIS)
    return Wire(name, ";".join(map(str, (name, *fixed))), given, mesh[strategy.AXIS], traffic)


@functools.lru_cache(maxsize=64)
def _traffic(plan: ParallelPlan, rank: int, layout: Layout, shape: Shape) -> Traffic:
    # Of a mesh that is only planned: one that is kept, as an argument of what is cached, would keep its groups.
    return traffic_of(layout, planned_mesh(plan, rank), shape=shape)


def exchanged(
    call: AttentionCall, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, fixed: str, given: Any
) -> Tensor:
    """A call whose exchange is in the graph, as it is traced: B H S D blocks in and out."""
    assert call.kernel is not None, "its kernel was learned"
    name, *numbers = fixed.split(";")
    wire = name, [int(number) for number in numbers], given
    return STRATEGIES[call.way].traced(q, k, v, scale=scale, kernel=call.kernel, wire=wire)


class Traced(Intercepting):
    """Answers the calls of a block one after the other; of one that nobody learned anything, as `Unsharded` does."""

    def __init__(self, calls: Sequence[AttentionCall] | None, fixed: Sequence[Any], given: Sequence[Any]) -> None:
        super().__init__()
        self.calls, self.num_calls = calls, 0
        self.fixed, self.given = fixed, given  # of the wires of these calls

    def _intercepted(self, asked: Asked) -> Tensor:
        if self.calls is None:
            is_plain = asked.attn_mask is None or asked.is_causal or asked.dropout_p
            kind, way = 0, "plain" if is_plain else "opaque"
        else:
            at, self.num_calls = self.num_calls, self.num_calls + 1
            assert at < len(self.calls), "a block makes the calls that were learned"
            call = self.calls[at]
            kind, way = call.kind, call.way
            if way not in ("plain", "opaque"):
                assert asked.attn_mask is None and not asked.is_causal and not asked.dropout_p, (
                    "it was learned without a mask"
                )
                return exchanged(call, *asked[:3], scale=asked.scale, fixed=self.fixed[at], given=self.given[at])
        return asked.by_operator(kind) if way == "opaque" else asked.as_it_is()


def traced(
    kind: type[nn.Module],
    calls: Sequence[AttentionCall] | None,
    fixed: Sequence[Any],
    *,
    is_seen: bool,
    name: str,
    options: Mapping[str, Any],
) -> Callable[..., Any]:
    """The forward of a kind of block, compiled: `run(given, block, *args, **kwargs)`, with attention answered if it
    `is_seen`; `fixed` and `given` are those of the wires of its calls.

    It is right for whatever has one state, and makes the calls that were learned.
    """
    forward = kind.forward

    def seen(the_given: Sequence[Any], the_block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        mode = Traced(calls, fixed, the_given)
        with mode:  # entered inside of what is compiled: nothing of it is left when the graph runs
            out = forward(the_block, *args, **kwargs)
        assert calls is None or mode.num_calls == len(calls), "a block makes the calls that were learned"
        return tree_map_only(Tensor, copied, out)

    def unseen(_: Sequence[Any], the_block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return tree_map_only(Tensor, copied, forward(the_block, *args, **kwargs))

    inner = seen if is_seen else unseen
    # Torch keeps graphs with a code object: by that of another key one would be found that fits nothing but the shapes.
    code = inner.__code__.replace(co_name=name)
    own = types.FunctionType(code, inner.__globals__, name, None, inner.__closure__)
    # Torch.compile takes what filters guards out of the options that it is given: each call needs its own.
    given: dict[str, Any] = {**options, "options": {**(options.get("options") or {}), "guard_filter_fn": _needed}}
    compiled = torch.compile(own, **given)
    vars(compiled)["_latentloom_code"] = code
    return compiled


def free(compiled: Callable[..., Any]) -> None:
    """Let go of the graphs that torch keeps of it."""
    reset_code(vars(compiled)["_latentloom_code"])


def copied(x: Tensor) -> Tensor:
    # No view, as the next block's graph was made for. Where it is the end of a kernel anyway it costs nothing.
    return x.clone(memory_format=torch.contiguous_format)


def _needed(entries: Sequence[Any]) -> list[bool]:
    """Which guards a graph keeps: all on what a block is given, and of those on its wires the ones on tensors."""
    # None on the block itself, or on what is global: some hundred a block, for which `watched.Watched` is asked once a
    # forward. SHAPE_ENV is what torch knows of symbols, the sizes of a graph for any lengths.
    return [entry.guard_type == "SHAPE_ENV" or _is_needed(entry) for entry in entries]


def _is_needed(entry: Any) -> bool:
    if "the_block" in entry.name or entry.is_global:
        return False
    return "the_given" not in entry.name or entry.guard_type == "TENSOR_MATCH"
