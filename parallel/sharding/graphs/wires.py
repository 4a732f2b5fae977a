"""Wires: what the exchange of an attention call needs to be part of a block's graph, in the place of an operator.

Traced, an exchange is a few operators that a compiler fuses with the layers around: rows are picked, sent and put in
order by the index tensors of `attention/packed.py`, which a graph is given at each call, like the sizes. What never
changes for a graph, such as how many heads there are and by which name it asks for its group, is told apart: graphs are
kept by it. All collectives of a call depend on each other, so that no compiler may swap two.
"""

# B batch, H heads of q, K heads of k and v, h heads here while attending, S tokens here, G tokens of the ulysses group

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ...attention import compose_traffic, packed, ring
from ...attention.heads import members
from ...attention.strategy import Kernel, Shape, Traffic
from ...collectives import start_traced_exchange, traced_gather
from ...group import Axis, Group
from ...layout import Layout
from ...mesh import Mesh, planned_mesh
from ...plan import ParallelPlan
from ...process_groups import name_of, point

Way = Literal["plain", "opaque", "ulysses", "allgather", "ring"]
"""How an attention call goes in a graph: as torch's own operator, as the one that asks the session at work, or by the
operators of an exchange."""


@dataclass(frozen=True)
class Call:
    """One attention call of a block, as it was met in a forward that was not compiled."""

    kind: int
    way: Way
    streams: tuple[str, ...] = ()
    shape: Shape | None = None
    kernel: Kernel | None = None
    """The last three of calls whose exchange is in the graph."""


@dataclass(frozen=True)
class Wire:
    """For one call, of these lengths.

    What is fixed is in the key of its graph. What is given follows from that and the lengths, so that the graph of the
    first lengths needs no guards on sizes.
    """

    name: str
    fixed: str
    """Numbers, in a string: a number that a graph for any lengths is made with becomes a symbol, a string does not."""
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
    axis = Axis.ULYSSES if mesh[Axis.ULYSSES].size > 1 else Axis.EXCHANGE
    both = mesh[Axis.ULYSSES].size > 1 and mesh[Axis.EXCHANGE].size > 1
    if both or mesh[Axis.WEIGHTS].size > 1 or not mesh[axis].packs or not kernel.is_traced or layout.left_out:
        return "opaque"
    if axis == Axis.ULYSSES:
        return "ulysses"
    is_full = not layout.num_replicated and all(layout.num_held(rank) for rank in range(layout.num_ranks))
    if not is_full:
        return "opaque"
    return "ring" if mesh.plan.ring > 1 else "allgather"


def wire_of(call: Call, layout: Layout, mesh: Mesh, device: torch.device) -> Wire:
    """Of a call whose exchange is in the graph."""
    assert call.shape is not None, "its shape was learned"
    axis = Axis.ULYSSES if call.way == "ulysses" else Axis.EXCHANGE
    traffic = _traffic(mesh.plan, mesh.rank, layout, call.shape)
    fixed, given = MADE[call.way](call.shape, layout, mesh, device)
    name = name_of(axis)
    return Wire(name, ";".join(map(str, (name, *fixed))), given, mesh[axis], traffic)


@functools.lru_cache(maxsize=64)
def _traffic(plan: ParallelPlan, rank: int, layout: Layout, shape: Shape) -> Traffic:
    """Of a mesh that is only planned: a group that is kept is never gone."""
    return compose_traffic(plan)(layout, planned_mesh(plan, rank), shape=shape)


def _for_ulysses(shape: Shape, layout: Layout, mesh: Mesh, device: torch.device) -> tuple[Any, Any]:
    heads = (shape.batch, shape.heads, shape.kv_heads, shape.head_dim)
    group = mesh[Axis.ULYSSES]
    way = packed.trade(layout, members(mesh), group.index, heads, device)
    i, o = way.way_in, way.way_out
    fixed = (group.size, group.index, i.width, i.width_in, o.width, o.width_in, *way.split)
    sizes = (i.sizes_in, i.sizes_out, o.sizes_in, o.sizes_out)
    return fixed, (i.pick, i.order, o.pick, o.order, *sizes, way.joint[0], way.here[1])


def _by_ulysses(q: Tensor, k: Tensor, v: Tensor, scale: float | None, kernel: Kernel, fixed: str, given: Any) -> Tensor:
    """B H S D blocks in and out."""
    name, numbers = _read(fixed)
    width, width_in, width_out, width_back, *split = numbers[2:]
    pick, order, pick_out, order_out, sizes_in, sizes_out, sizes_back, sizes_away, num_joint, num_here = given
    batch, num_heads, dim = q.shape[0], q.shape[1], q.shape[3]
    whole = torch.cat([x.transpose(1, 2) for x in (q, k, v)], 2)  # B S H+2K D
    rows = _rows(whole, pick, width).reshape(-1)
    arrived = _rows(start_traced_exchange(rows, sizes_in, sizes_out, name)(), order, width_in)
    joint = arrived.view(num_joint, batch, sum(split), dim).permute(1, 2, 0, 3)  # B h G D
    queries, keys, values = joint.split(split, 1)
    out = kernel.plain(queries, keys, values, None, scale) if split[0] else queries
    rows = _rows(out.transpose(1, 2).reshape(-1), pick_out, width_out).reshape(-1)
    back = _rows(start_traced_exchange(rows, sizes_back, sizes_away, name)(), order_out, width_back)
    return back.view(batch, num_here, num_heads, dim).transpose(1, 2)


def _for_allgather(shape: Shape, layout: Layout, mesh: Mesh, device: torch.device) -> tuple[Any, Any]:
    group = mesh[Axis.EXCHANGE]
    way = packed.gathering(layout, group.index, device)
    return (group.size,), (way.sent, way.order)


def _by_allgather(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, kernel: Kernel, fixed: Any, given: Any
) -> Tensor:
    name, (size,) = _read(fixed)
    (pick, order), num_keys = given, k.shape[1]
    sent = torch.cat([x.permute(2, 0, 1, 3) for x in (k, v)], 2).index_select(0, pick)  # S B 2K D
    whole = traced_gather(sent, size, name)
    whole = whole if order is None else whole.index_select(0, order)
    keys, values = whole.permute(1, 2, 0, 3).split((num_keys, num_keys), 1)
    return kernel.plain(q, keys, values, None, scale)


def _for_ring(shape: Shape, layout: Layout, mesh: Mesh, device: torch.device) -> tuple[Any, Any]:
    group = mesh[Axis.EXCHANGE]
    return (group.size, group.index), ([count for count, _ in ring.sources_of(layout, group.index)],)


def _by_ring(q: Tensor, k: Tensor, v: Tensor, scale: float | None, kernel: Kernel, fixed: str, given: Any) -> Tensor:
    """Each block is sent on before it is attended to, and travels meanwhile."""
    name, (size, index) = _read(fixed)
    (counts,) = given
    batch, kv_heads, _, dim = k.shape
    row, before, after = batch * 2 * kv_heads * dim, (index - 1) % size, (index + 1) % size
    num_queries, num_heads = q.shape[2], q.shape[1]
    queries, _ = ring.folded(q, None, kv_heads)
    block = torch.cat([x.permute(2, 0, 1, 3) for x in (k, v)], 2)  # S B 2K D
    keys, values = k, v
    parts: list[ring.Part] = []
    for step in range(size):
        coming = None
        if step + 1 < size:
            sizes_in = [counts[step + 1] * row if other == before else 0 for other in range(size)]
            sizes_out = [counts[step] * row if other == after else 0 for other in range(size)]
            coming = start_traced_exchange(block.reshape(-1), sizes_in, sizes_out, name)
        parts.append(kernel.with_lse(queries, keys, values, None, scale))
        if len(parts) == ring.AT_ONCE:
            parts = [ring.merge(parts)]
        if coming is not None:
            block = coming().view(-1, batch, 2 * kv_heads, dim)
            keys, values = block.permute(1, 2, 0, 3).split(kv_heads, 1)
    out = ring.weighed(parts).to(q.dtype)
    if num_heads == kv_heads:
        return out
    return torch.unflatten(out, 2, (num_heads // kv_heads, num_queries)).flatten(1, 2)


MADE: dict[str, Callable[..., tuple[Any, Any]]] = {
    "ulysses": _for_ulysses,
    "allgather": _for_allgather,
    "ring": _for_ring,
}
TRACED: dict[str, Callable[..., Tensor]] = {"ulysses": _by_ulysses, "allgather": _by_allgather, "ring": _by_ring}


def _read(fixed: str) -> tuple[str, list[int]]:
    name, *numbers = fixed.split(";")
    return name, [int(number) for number in numbers]


def _rows(x: Tensor, index: Tensor | None, width: int) -> Tensor:
    return x if index is None else x.reshape(-1, width).index_select(0, index)
