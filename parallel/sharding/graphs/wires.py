"""Wires: what the exchange of an attention call needs to be part of a block's graph, in the place of an operator.

Traced, an exchange is a few operators that a compiler fuses with the layers around: rows are picked, sent and put in
order by the index tensors of `attention/packed.py`, which a graph is given at each call, like the sizes. What never
changes for a graph, such as how many heads there are and by which name it asks for its group, is told apart: graphs are
kept by it. All collectives of a call depend on each other, so that no compiler may swap two.
"""

# B batch, H heads of q, K heads of k and v, h heads here while attending, S tokens here, G tokens of the ulysses group

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...attention import STRATEGIES
from ...attention.strategy import Kernel
from ...layout import Layout
from ...mesh import Axis, Group, Mesh, planned_mesh
from ...plan import ParallelPlan
from ...process_groups import name_of, point
from ...traffic import Shape, Traffic, traffic_of

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
