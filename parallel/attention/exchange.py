"""What ring and allgather share: each rank keeps its queries, and keys and values come to it.

Queries of replicated streams are divided over the ranks, so that every row of the output has one author and all ranks
end up with the same bits.
"""

# B batch, H heads, S tokens here, D head width

from __future__ import annotations

import functools
from dataclasses import dataclass

from torch import Tensor

from ..collectives import gather
from ..group import Axis
from ..layout import Layout, Range, Stream
from ..mesh import Mesh
from ..traffic import divided
from . import rows
from .packed import gathering


@dataclass(frozen=True)
class Authored:
    """The query rows that one rank answers: where they are in its own sequence and in the joint one."""

    local: tuple[Range, ...]
    joint: tuple[Range, ...]


@functools.lru_cache(maxsize=64)
def authored(layout: Layout, rank: int) -> Authored:
    """All of a rank's sharded tokens, and its part of each replicated stream."""
    local, joint = [], []
    replicated = iter(divided(layout).streams)
    for stream, start, (here, _) in zip(layout.streams, layout.starts(), layout.local_ranges(rank), strict=True):
        first, last = stream.held(rank)
        if not stream.is_sharded:
            first, last = next(replicated).held(rank)
            here += first
        local.append((here, here + last - first))
        joint.append((start + first, start + last))
    return Authored(tuple(local), tuple(joint))


@functools.lru_cache(maxsize=64)
def sharded_ranges(layout: Layout, rank: int) -> tuple[Range, ...]:
    """Where a rank's sharded tokens are in its own sequence."""
    parts = zip(layout.local_ranges(rank), layout.streams, strict=True)
    return tuple(part for part, stream in parts if stream.is_sharded)


def share_answers(out: Tensor, *, layout: Layout, mesh: Mesh) -> Tensor:
    """Collective if streams are replicated: from the rows this rank authored to all rows of its own sequence."""
    group = mesh[Axis.EXCHANGE]
    if not layout.num_replicated:
        return out
    if group.packs:
        way = gathering(answers_of(layout, group.index), group.index, out.device)
        return way.gather([out.transpose(1, 2)], group=group).permute(1, 2, 0, 3)
    pieces, replicated, start = [], [], 0
    for stream, (first, last) in zip(layout.streams, authored(layout, group.index).local, strict=True):
        piece = out[:, :, start : start + last - first]
        start += last - first
        pieces.append(piece)
        if not stream.is_sharded:
            replicated.append(piece)
    parts = divided(layout)
    mine = rows.pack([rows.cat(replicated, 2)], [(0, parts.num_held(group.index))])  # S B H D
    sizes = [parts.num_held(rank) * mine.shape[1:].numel() for rank in range(group.size)]
    everyone = gather(mine.flatten(), sizes=sizes, group=group).view(-1, *mine.shape[1:])
    everyone = rows.in_order(everyone, layout=parts, ranks=range(group.size), replicated=())
    whole = iter(everyone.split([stream.length for stream in parts.streams]))
    return rows.cat(
        [
            piece if stream.is_sharded else next(whole).permute(1, 2, 0, 3)
            for stream, piece in zip(layout.streams, pieces, strict=True)
        ],
        2,
    )


@functools.lru_cache(maxsize=64)
def answers_of(layout: Layout, rank: int) -> Layout:
    """The same streams seen from one rank's answers: replicated ones are divided, and of sharded ones all is here."""
    count, parts = layout.num_ranks, iter(divided(layout).streams)
    streams = (
        Stream(stream.name, stream.shares[rank], None) if stream.shares is not None else next(parts)
        for stream in layout.streams
    )
    return Layout(tuple(streams), count)
