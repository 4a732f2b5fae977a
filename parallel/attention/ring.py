"""Ring attention: keys and values go round, and each rank merges what it attends to, block by block.

Liu, Zaharia and Abbeel, 2023 (arXiv:2310.01889); the blocks' answers are merged by their log-sum-exp in fp32, a few at
once, because each merge is a handful of launches. The next block travels while the present one is attended to, and no
rank ever holds more than two.
"""

# B batch, H heads of q, K heads of k and v, S tokens here, D head width

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..collectives import start_hop, start_traced_exchange
from ..group import Axis
from ..layout import Layout, Range
from ..mesh import Mesh
from ..traffic import Shape
from . import rows
from .exchange import authored, check, sharded_ranges, share_answers
from .local import additive, attend_with_lse
from .strategy import Attend, Kernel, Terms, Wired

AXIS = Axis.EXCHANGE
# Answers that are merged together, what was merged before among them; until then they wait as the kernel gives
# them: in fp32 on a CPU and by the formula, in the model's format on a GPU, whose kernels round.
AT_ONCE = 3
Part = tuple[Tensor, Tensor]  # the answers to some keys, B H S D, and their fp32 log-sum-exp, B H S
LOW = -1e3  # added to a number this low the log-sum-exp of a block has too few digits left to merge by
NOTHING = -1e30  # the log-sum-exp of no keys: it weighs nothing, and unlike -inf can be subtracted from itself
ABSORBING = -1e9  # nothing is left of a score


def attend(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, terms: Terms, inner: Attend) -> Tensor:
    """Collective: a hop for every other rank, and one gather of the answers to replicated queries."""
    layout, mesh, mask = terms.layout, terms.mesh, terms.mask
    check(layout, mesh)
    if not q.shape[1]:
        return q
    group = mesh[Axis.EXCHANGE]
    batch, kv_heads, _, width = k.shape
    local, joint = authored(layout, group.index)
    own = rows.take(q, 2, local)
    if mask is not None:
        own, mask = _merging_safely(own, rows.take(mask, 2, joint) if mask.shape[2] > 1 else mask)
    queries, mask = folded(own, mask, kv_heads)
    packed = torch.cat([x.permute(2, 0, 1, 3) for x in (k, v)], 2)
    block = rows.take(packed, 0, sharded_ranges(layout.keys, group.index))  # S B 2K D
    row = batch * 2 * kv_heads * width  # numbers to a token: sizes of what comes follow from the layout
    parts, keys, values = list[Part](), k, v  # at first my own sequence, in which replicated streams are whole
    sources = sources_of(layout.keys, group.index)
    for (_, columns), (num_next, _) in zip(sources, (*sources[1:], (None, ())), strict=True):
        coming = None if num_next is None else start_hop(block.reshape(-1), size_in=num_next * row, group=group)
        if not parts or keys.shape[2]:  # the first also where this rank has no key: it gives answers their shape
            bias = rows.take(mask, 3, columns) if mask is not None and mask.shape[3] > 1 else mask
            parts.append(attend_to_block(queries, keys, values, mask=bias, scale=scale, kernel=terms.kernel))
            if len(parts) == AT_ONCE:
                parts = [merge(parts)]
        if coming is not None:
            block = coming().view(-1, batch, 2 * kv_heads, width)
            keys, values = block.permute(1, 2, 0, 3).split(kv_heads, 1)  # B K S D
    out = unfolded(weighed(parts).to(q.dtype), q.shape[1], own.shape[2])
    return share_answers(out, layout=layout, mesh=mesh)


def wire(shape: Shape, layout: Layout, mesh: Mesh, device: torch.device) -> tuple[Sequence[int], Any]:
    group = mesh[Axis.EXCHANGE]
    return (group.size, group.index), ([count for count, _ in sources_of(layout, group.index)],)


def traced(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, kernel: Kernel, wire: Wired) -> Tensor:
    """Each block is sent on before it is attended to, and travels meanwhile."""
    name, (size, index), (counts,) = wire
    batch, kv_heads, _, dim = k.shape
    row, before, after = batch * 2 * kv_heads * dim, (index - 1) % size, (index + 1) % size
    num_queries, num_heads = q.shape[2], q.shape[1]
    queries, _ = folded(q, None, kv_heads)
    block = torch.cat([x.permute(2, 0, 1, 3) for x in (k, v)], 2)  # S B 2K D
    keys, values = k, v
    parts: list[Part] = []
    for step in range(size):
        coming = None
        if step + 1 < size:
            sizes_in = [counts[step + 1] * row if other == before else 0 for other in range(size)]
            sizes_out = [counts[step] * row if other == after else 0 for other in range(size)]
            coming = start_traced_exchange(block.reshape(-1), sizes_in, sizes_out, name)
        parts.append(kernel.with_lse(queries, keys, values, None, scale))
        if len(parts) == AT_ONCE:
            parts = [merge(parts)]
        if coming is not None:
            block = coming().view(-1, batch, 2 * kv_heads, dim)
            keys, values = block.permute(1, 2, 0, 3).split(kv_heads, 1)
    return unfolded(weighed(parts).to(q.dtype), num_heads, num_queries)


@functools.lru_cache(maxsize=64)
def sources_of(layout: Layout, rank: int) -> tuple[tuple[int, tuple[Range, ...]], ...]:
    """Whose blocks a rank attends to, in order: their sharded tokens, and where in the joint sequence they are.

    The first is its own, with which the replicated streams are attended to.
    """
    sources = [(rank - step) % layout.num_ranks for step in range(layout.num_ranks)]
    return tuple(
        (layout.num_sharded(source), tuple(layout.positions(source, replicated=source == rank))) for source in sources
    )


def attend_to_block(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, scale: float | None, kernel: Kernel
) -> Part:
    """What `attend_with_lse` gives, but with a log-sum-exp that is finite in rows that attend to nothing too."""
    out, lse = attend_with_lse(q, k, v, mask=mask, scale=scale, kernel=kernel)
    return out, lse if mask is None and k.shape[2] else lse.clamp(min=NOTHING)


def merge(parts: Sequence[Part]) -> Part:
    """The attention to all of several sets of keys, from that to each; see `weighed`."""
    return weighed(parts), functools.reduce(torch.logaddexp, [lse for _, lse in parts])


def weighed(parts: Sequence[Part]) -> Tensor:
    """The answers to several sets of keys as those to all, in fp32, or one alone as it is. May write over the first."""
    if len(parts) == 1:
        return parts[0][0]
    (first, _), *others = parts
    weight, *weights = torch.stack([lse for _, lse in parts]).softmax(0).unsqueeze(-1)
    # Half precision is made fp32 as it is read, by the operators that weigh and add: no copy is made for that.
    out = first.mul_(weight) if first.dtype == weight.dtype else first * weight
    for (other, _), each in zip(others, weights, strict=True):
        out.addcmul_(other, each)
    return out


def folded(q: Tensor, mask: Tensor | None, num_keys: int) -> tuple[Tensor, Tensor | None]:
    """Queries with as many heads as the keys, those of a group one after the other."""
    # A kernel that gives a log-sum-exp wants as many heads of both: so no key is repeated, in memory or by the kernel.
    tokens, group = q.shape[2], q.shape[1] // num_keys
    if group == 1:
        return q, mask
    if mask is not None and mask.shape[1] > 1:
        mask = mask.expand(-1, -1, tokens, -1).unflatten(1, (num_keys, group)).flatten(2, 3)
    elif mask is not None and mask.shape[2] > 1:
        mask = mask.repeat(1, 1, group, 1)
    return q.unflatten(1, (num_keys, group)).flatten(2, 3), mask


def unfolded(out: Tensor, num_heads: int, num_queries: int) -> Tensor:
    """The answers to folded queries, as those to queries of so many heads."""
    if out.shape[1] == num_heads:
        return out
    return torch.unflatten(out, 2, (num_heads // out.shape[1], num_queries)).flatten(1, 2)


def _merging_safely(q: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rows whose every key is masked by a large finite number, made safe to merge."""
    if mask.dtype == torch.bool:
        return q, mask
    mask = additive(mask, q.dtype)
    best = mask.amax(-1, keepdim=True)  # B H S 1
    low = (best <= LOW) & (best > -torch.inf)
    if low.is_cpu and not low.any():  # a GPU would have to be waited for
        return q, mask
    # Softmax is the same without what all keys have in common. Added to a huge number the scores vanish too, so that
    # softmax is uniform: zero queries give that.
    return q.masked_fill(low & (best <= ABSORBING), 0.0), torch.where(low, mask - best, mask)
