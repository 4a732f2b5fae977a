"""Halo exchange: the edges of the neighbours' parts, for convolutions along the sequence.

A rank's tokens are neighbours, so a convolution over them lacks what is beyond its first and its last:

    rank 0      a b c d [e]         in brackets: lent by a neighbour before the convolution,
    rank 1  [d] e f g h [i]         and dropped from its output
    rank 2  [h] i j k l
"""

# U units of the stream on this rank (rows of a picture, say), along the halo's dim

import torch
from torch import Tensor

from ..collectives import gather
from ..group import Group
from ..layout import Stream
from .split_plan import Halo


def extended(x: Tensor, halo: Halo, stream: Stream, group: Group) -> Tensor:
    """Collective: this rank's part with up to `reach` units of what comes before and after it."""
    units, reach = _units(stream), halo.reach
    if not reach:
        return x if x.shape[halo.dim] else _one_unit(x, halo)
    before, after = _lent(units, reach, group.index)
    # Which way is taken follows from all ranks' parts, and not from the own: the collectives of the two differ.
    if all(count >= reach for count in units if count):
        blocks = _gathered(torch.cat(_edges(x, halo), halo.dim), [2 * reach if n else 0 for n in units], halo, group)
        held = [i for i, count in enumerate(units) if count]
        last = max((i for i in held if i < group.index), default=group.index)
        following = min((i for i in held if i > group.index), default=group.index)
        parts = [
            blocks[last].narrow(halo.dim, 2 * reach - before, before) if before else None,
            x,
            blocks[following].narrow(halo.dim, 0, after) if after else None,
        ]
    else:  # parts thinner than the halo: it spans several ranks
        whole = torch.cat(_gathered(x, units, halo, group), halo.dim)
        start = sum(units[: group.index]) - before
        parts = [whole.narrow(halo.dim, start, before + units[group.index] + after)]
    if not x.shape[halo.dim]:  # behind the collective, in which this rank has its part too
        return _one_unit(x, halo)
    return torch.cat([part for part in parts if part is not None], halo.dim)


def _one_unit(x: Tensor, halo: Halo) -> Tensor:
    # Of zeros, for a rank without tokens: a convolution takes no empty picture. `trimmed` drops what comes of it.
    return x.new_zeros([1 if dim == halo.dim else size for dim, size in enumerate(x.shape)])


def trimmed(x: Tensor, halo: Halo, stream: Stream, rank: int) -> Tensor:
    """Only what belongs to this rank of a convolution's output."""
    units = _units(stream)
    before, _ = _lent(units, halo.reach, rank)
    return x.narrow(halo.dim, before if units[rank] else 0, units[rank])


def _units(stream: Stream) -> list[int]:
    """How many units each rank has."""
    assert stream.shares is not None, f"the {stream.name} stream has a halo and so is always sharded"
    return [share // stream.unit for share in stream.shares]


def _lent(units: list[int], reach: int, rank: int) -> tuple[int, int]:
    """Units to lend a rank before and after its own; there are none beyond the ends."""
    start = sum(units[:rank])
    if not units[rank]:
        return 0, 0
    return min(reach, start), min(reach, sum(units) - start - units[rank])


def _edges(x: Tensor, halo: Halo) -> list[Tensor]:
    count = x.shape[halo.dim]
    if not count:
        return [x]
    return [x.narrow(halo.dim, 0, halo.reach), x.narrow(halo.dim, count - halo.reach, halo.reach)]


def _gathered(part: Tensor, counts: list[int], halo: Halo, group: Group) -> list[Tensor]:
    """Collective: every rank's part, of `counts` units each."""
    own = part.movedim(halo.dim, 0)
    row = own.shape[1:].numel()
    flat = gather(own.flatten(), sizes=[count * row for count in counts], group=group)
    blocks = flat.split([count * row for count in counts])
    return [block.view(count, *own.shape[1:]).movedim(0, halo.dim) for block, count in zip(blocks, counts, strict=True)]
