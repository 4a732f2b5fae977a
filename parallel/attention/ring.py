"""Ring attention: keys and values go round, and each rank merges what it attends to, block by block.

Liu, Zaharia and Abbeel, 2023 (arXiv:2310.01889); the blocks' answers are merged by their log-sum-exp in fp32. The next
block travels while the present one is attended to, and no rank ever holds more than two.
"""

# B batch, H heads of q, K heads of k and v, S tokens here, D head width

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..collectives import start_hop
from ..group import Axis
from ..layout import Layout
from ..mesh import Mesh
from . import rows
from .exchange import answers_traffic, authored, sharded_ranges, share_answers
from .local import additive, attend_with_lse
from .strategy import Attend, Kernel, Shape, Traffic

LOW = -1e3  # added to a number this low the log-sum-exp of a block has too few digits left to merge by
ABSORBING = -1e9  # nothing is left of a score


def check(layout: Layout, mesh: Mesh) -> None:
    """Any lengths, heads and masks will do."""
    assert layout.num_ranks == mesh[Axis.EXCHANGE].size, f"{layout.num_ranks} ranks for plan {mesh.plan}"


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: Layout,
    mesh: Mesh,
    mask: Tensor | None,
    scale: float | None,
    kernel: Kernel,
    inner: Attend,
) -> Tensor:
    """Collective: a hop for every other rank, and one gather of the answers to replicated queries."""
    check(layout, mesh)
    if not q.shape[1]:
        return q
    group = mesh[Axis.EXCHANGE]
    batch, kv_heads, _, width = k.shape
    mine = authored(layout, group.index)
    queries = rows.take(q, 2, mine.local)
    if mask is not None:
        queries, mask = _settled(queries, rows.take(mask, 2, mine.joint) if mask.shape[2] > 1 else mask)
    block = rows.pack((k, v), sharded_ranges(layout, group.index))  # S B 2K D
    row = batch * 2 * kv_heads * width
    merged: tuple[Tensor, Tensor] | None = None
    for step in range(group.size):
        source = (group.index - step) % group.size
        coming = None
        if step < group.size - 1:
            size = layout.num_sharded((source - 1) % group.size) * row
            coming = start_hop(block.flatten(), size_in=size, group=group)
        if step == 0:  # my own sequence, in which replicated streams are whole
            keys, values, columns = k, v, layout.positions(source)
        else:
            keys, values = rows.unpack(block, (kv_heads, kv_heads))
            columns = layout.positions(source, replicated=False)
        bias = rows.take(mask, 3, columns) if mask is not None and mask.shape[3] > 1 else mask
        part = attend_with_lse(queries, keys, values, mask=bias, scale=scale, kernel=kernel)
        merged = part if merged is None else merge(merged, part)
        if coming is not None:
            block = coming().view(-1, batch, 2 * kv_heads, width)
    assert merged is not None
    return share_answers(merged[0].to(q.dtype), layout=layout, mesh=mesh)


def traffic(layout: Layout, mesh: Mesh, *, shape: Shape, inner: Callable[..., Traffic]) -> Traffic:
    group = mesh[Axis.EXCHANGE]
    if not shape.heads:
        return Traffic()
    row = shape.batch * 2 * shape.kv_heads * shape.head_dim * shape.itemsize
    sent = [layout.num_sharded((group.index - step) % group.size) for step in range(group.size - 1)]
    return Traffic(sum(sent) * row, len(sent)) + answers_traffic(layout, mesh, shape=shape)


def merge(one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The attention to both of two sets of keys, from the attention to each: (B H S D, B H S log-sum-exp)."""
    (out, lse), (other, other_lse) = one, two
    both = torch.logaddexp(lse, other_lse)
    some = both.masked_fill(both == -torch.inf, 0.0)  # attending to nothing twice is 0, not -inf minus -inf
    out = out * torch.exp(lse - some)[..., None]
    return out.addcmul_(other, torch.exp(other_lse - some)[..., None]), both


def _settled(q: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rows whose every key is masked by a large finite number, made safe to merge.

    Softmax is the same without what all keys have in common. Added to a huge number the scores vanish too, so that
    softmax is uniform: zero queries give that.
    """
    if mask.dtype == torch.bool:
        return q, mask
    mask = additive(mask, q.dtype)
    best = mask.amax(-1, keepdim=True)  # B H S 1
    low = (best <= LOW) & (best > -torch.inf)
    if not low.any():
        return q, mask
    return q.masked_fill(low & (best <= ABSORBING), 0.0), torch.where(low, mask - best, mask)
