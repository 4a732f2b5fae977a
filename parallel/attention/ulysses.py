"""Ulysses: ranks trade tokens for heads, attend to whole sequences with their heads, and trade back.

DeepSpeed-Ulysses (Jacobs et al., 2023, arXiv:2309.14509), with any number of heads on any number of ranks, grouped
queries kept grouped on the wire, one exchange in for q, k and v together, and one out in which replicated streams ride
along. Around ring or allgather it is USP (Fang and Zhao, 2024, arXiv:2405.07719).
"""

# B batch, H heads of q, K heads of k and v, S tokens here, G tokens of the ulysses group, D head width

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..collectives import start_exchange, start_traced_exchange
from ..group import Axis
from ..layout import Layout, Range
from ..mesh import Mesh
from ..traffic import Heads, Shape, among, heads_of, members
from . import rows
from .packed import trade
from .strategy import Attend, Kernel, Terms, Wired

AXIS = Axis.ULYSSES


def check(layout: Layout, mesh: Mesh) -> None:
    """Any lengths and any heads will do."""
    assert layout.num_ranks % mesh[Axis.ULYSSES].size == 0, f"{layout.num_ranks} ranks for plan {mesh.plan}"


def attend(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, terms: Terms, inner: Attend) -> Tensor:
    """Collective: two exchanges within the ulysses group, and those of `inner` between them."""
    layout, mesh, mask = terms.layout, terms.mesh, terms.mask
    check(layout, mesh)
    group = mesh[Axis.ULYSSES]
    batch, num_queries, _, width = q.shape
    heads = heads_of(num_queries, k.shape[1], group.size)
    mine, packed = heads[group.index], None
    if group.packs:
        packed = trade(layout, members(mesh), group.index, (batch, num_queries, k.shape[1], width), q.device)
        qh, kh, vh = packed.to_heads(q, k, v, group=group)  # B h G D
    else:
        qh, kh, vh = _to_heads(q, k, v, heads=heads, layout=layout, mesh=mesh)
    within = packed.within if packed else layout.merged(group.size)
    mask = mask[:, slice(*mine.queries)] if mask is not None and mask.shape[1] > 1 else mask
    out = inner(qh, kh, vh, scale=scale, terms=Terms(within, mesh, terms.kernel, mask))
    del qh, kh, vh  # as large as what is received next
    if packed:
        return packed.to_tokens(out, group=group)  # B H S D
    return _to_tokens(out, heads=heads, layout=layout, mesh=mesh)


def wire(shape: Shape, layout: Layout, mesh: Mesh, device: torch.device) -> tuple[Sequence[int], Any]:
    heads = (shape.batch, shape.heads, shape.kv_heads, shape.head_dim)
    group = mesh[Axis.ULYSSES]
    way = trade(layout, members(mesh), group.index, heads, device)
    i, o = way.way_in, way.way_out
    fixed = (group.size, group.index, i.width, i.width_in, o.width, o.width_in, *way.split)
    sizes = (i.sizes_in, i.sizes_out, o.sizes_in, o.sizes_out)
    return fixed, (i.pick, i.order, o.pick, o.order, *sizes, way.joint[0], way.here[1])


def traced(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, kernel: Kernel, wire: Wired) -> Tensor:
    name, (_, _, width, width_in, width_out, width_back, *split), given = wire
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


def _rows(x: Tensor, index: Tensor | None, width: int) -> Tensor:
    return x if index is None else x.reshape(-1, width).index_select(0, index)


def _to_heads(
    q: Tensor, k: Tensor, v: Tensor, *, heads: tuple[Heads, ...], layout: Layout, mesh: Mesh
) -> tuple[Tensor, Tensor, Tensor]:
    """B H S D blocks with all heads -> B h G D with mine, G in the order of the joint sequence; by pieces."""
    group, ranks = mesh[Axis.ULYSSES], members(mesh)
    mine, rank = heads[group.index], ranks[group.index]
    asking = [[q[:, slice(*each.queries)]] for each in heads]
    asked = [[x[:, slice(*each.keys)] for x in (k, v)] for each in heads]
    # What a token asks and is asked by goes side by side, but where keys are left out.
    kinds = [(layout, asking), (layout.keys, asked)]
    if layout.left_out is None:
        kinds = [(layout, [[*a, *b] for a, b in zip(asking, asked, strict=True)])]
    sends: list[list[Tensor]] = [[] for _ in heads]
    receives: list[list[Tensor]] = [[] for _ in heads]
    own: list[tuple[list[Tensor], Range, Tensor]] = []
    arrived: list[Tensor] = []
    for spread, parts in kinds:
        local, held = spread.local_ranges(rank), among(spread, ranks)
        counts = [x.shape[1] for x in parts[group.index]]
        num_joint = spread.merged(group.size).num_held(ranks[0] // group.size)
        joint = q.new_empty(num_joint, q.shape[0], sum(counts), q.shape[3])  # G B h D
        sharded = [i for i, stream in enumerate(spread.streams) if stream.is_sharded]
        for member in range(group.size):
            if member != group.index:
                sends[member] += [rows.pack(parts[member], [local[i]]) for i in sharded]
            receives[member] += [joint[slice(*held[member][i])] for i in sharded]
        places = zip(local, held[group.index], strict=True)
        own += [(parts[group.index], part, joint[slice(*target)]) for part, target in places]
        arrived += rows.unpack(joint, counts)
    wait = start_exchange(sends, receives, group=group)
    for tensors, part, target in own:  # while the others' travel
        rows.pack(tensors, [part], out=target)
    wait()
    qh, kh, vh = arrived
    return (qh, kh[:, mine.looked_at], vh[:, mine.looked_at]) if mine.is_spread else (qh, kh, vh)


def _to_tokens(out: Tensor, *, heads: tuple[Heads, ...], layout: Layout, mesh: Mesh) -> Tensor:
    """B h G D with my heads -> B H S D blocks with all; by pieces."""
    group, ranks = mesh[Axis.ULYSSES], members(mesh)
    batch, _, _, width = out.shape
    rank = ranks[group.index]
    local, held = layout.local_ranges(rank), among(layout, ranks)
    tokens = out.permute(2, 0, 1, 3)  # G B h D, which a kernel's answer to one batch item is without a copy
    sends = [
        [tokens[slice(*part)].contiguous() for part in places] if member != group.index else []
        for member, places in enumerate(held)
    ]
    count = layout.num_held(rank)
    blocks = [
        out.new_empty(count if member != group.index else 0, batch, each.num_queries, width)
        for member, each in enumerate(heads)
    ]
    receives = [[block[slice(*part)] for part in local] for block in blocks]
    wait = start_exchange(sends, receives, group=group)
    joined = out.new_empty(batch, count, heads[-1].queries[1], width)
    for part, target in zip(held[group.index], local, strict=True):
        joined[:, slice(*target), slice(*heads[group.index].queries)] = out[:, :, slice(*part)].transpose(1, 2)
    wait()
    for member, (each, block) in enumerate(zip(heads, blocks, strict=True)):
        if member != group.index:
            joined[:, :, slice(*each.queries)] = block.transpose(0, 1)
    return joined.transpose(1, 2)
