"""Packing attention's tensors into rows of tokens, the form in which they travel.

A row holds all that one token needs: rows of several ranks, received one after the other, are a longer sequence with
no copy made.
"""

# B batch, S tokens, H heads of all packed tensors, D head width

import math
from collections.abc import Collection, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from ..collectives import gather
from ..group import Group
from ..layout import Layout, Range


def filled(q: Tensor, asking: Collection[str], *, layout: Layout, rank: int) -> Tensor:
    """B H S D queries of all streams of `layout`, zeros for those that do not ask."""
    sizes = [end - start for start, end in layout.local_ranges(rank)]
    asks = [stream.name in asking for stream in layout.streams]
    given = iter(q.split([size for size, is_asking in zip(sizes, asks, strict=True) if is_asking], 2))
    zeros = q.new_zeros(*q.shape[:2], max(sizes), q.shape[3])  # one, of which each stream that does not ask has a part
    return torch.cat(
        [next(given) if is_asking else zeros[:, :, :size] for size, is_asking in zip(sizes, asks, strict=True)], 2
    )


def answers_of(asking: Collection[str], x: Tensor, *, layout: Layout, rank: int) -> Tensor:
    """The rows of the streams that asked, of a B H S D tensor of all."""
    parts = zip(layout.streams, layout.local_ranges(rank), strict=True)
    return torch.cat([x[:, :, start:end] for stream, (start, end) in parts if stream.name in asking], 2)


def cut_along(x: Tensor, dim: int, *, layout: Layout, rank: int) -> Tensor:
    """This rank's part of a tensor whose `dim` is as long as the streams of `layout` together."""
    return take(x, dim, layout.positions(rank))


def gather_along(x: Tensor, dim: int, *, layout: Layout, rank: int, group: Group) -> Tensor:
    """Collective: the whole of a tensor whose `dim` holds this rank's part of each stream of `layout`."""
    if not layout.is_split or group.size == 1:
        return x
    dim %= x.ndim
    is_bool = x.dtype == torch.bool
    own = (x.contiguous().view(torch.uint8) if is_bool else x).movedim(dim, 0)  # S ...
    parts = list(zip(layout.streams, layout.local_ranges(rank), strict=True))
    sharded = cat([own[start:end] for stream, (start, end) in parts if stream.is_sharded])
    sizes = [layout.num_sharded(other) * math.prod(own.shape[1:]) for other in range(group.size)]
    arrived = gather(sharded.flatten(), sizes=sizes, group=group).view(-1, *own.shape[1:])
    replicated = [own[start:end] for stream, (start, end) in parts if not stream.is_sharded]
    whole = in_order(arrived, layout=layout, ranks=range(group.size), replicated=replicated)
    whole = whole.movedim(0, dim)
    return whole.contiguous().view(torch.bool) if is_bool else whole


def pack(tensors: Sequence[Tensor], ranges: Sequence[Range], out: Tensor | None = None) -> Tensor:
    """The tokens in `ranges` of B h S D tensors, side by side in S B H D rows; into `out` if it is given."""
    batch, _, _, width = tensors[0].shape
    heads = sum(tensor.shape[1] for tensor in tensors)
    tokens = sum(end - start for start, end in ranges)
    rows = tensors[0].new_empty(tokens * batch * heads * width) if out is None else out
    rows = rows.view(tokens, batch, heads, width)
    row = 0
    for start, end in _joined(ranges):
        head = 0
        for tensor in tensors:
            target = rows[row : row + end - start, :, head : head + tensor.shape[1]]
            target.copy_(tensor[:, :, start:end].permute(2, 0, 1, 3))
            head += tensor.shape[1]
        row += end - start
    return rows


def unpack(rows: Tensor, heads: Sequence[int]) -> list[Tensor]:
    """B h S D views of S B H D rows."""
    return list(rows.permute(1, 2, 0, 3).split(list(heads), dim=1))


def in_order(arrived: Tensor, *, layout: Layout, ranks: Sequence[int], replicated: Sequence[Tensor]) -> Tensor:
    """Rows stream by stream, from rows of the sharded streams that arrived rank by rank.

    `replicated` holds the rows of each replicated stream, in order.
    """
    if len(layout.streams) == 1:
        return arrived
    whole = iter(replicated)
    starts = list(accumulate((layout.num_sharded(rank) for rank in ranks), initial=0))
    pieces: list[Tensor] = []
    for stream in layout.streams:
        if not stream.is_sharded:
            pieces.append(next(whole))
            continue
        for index, rank in enumerate(ranks):
            first, last = stream.held(rank)
            pieces.append(arrived[starts[index] : starts[index] + last - first])
            starts[index] += last - first
    return cat(pieces)


def cat(pieces: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`torch.cat`, but free where there is one piece."""
    pieces = [piece for piece in pieces if piece.shape[dim]] or list(pieces[:1])  # an empty one has the other sizes
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def take(tensor: Tensor, dim: int, ranges: Sequence[Range]) -> Tensor:
    """The positions in `ranges` along `dim`."""
    return cat([tensor.narrow(dim, start, end - start) for start, end in _joined(ranges)], dim)


def _joined(ranges: Sequence[Range]) -> list[Range]:
    """Ranges of positions joined into as few as hold the same ones; at least one, be it empty."""
    joined: list[Range] = []
    for start, end in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        elif end > start:
            joined.append((start, end))
    return joined or [(0, 0)]
