"""What ring and allgather share: each rank keeps its queries, and keys and values come to it."""

# B batch, H heads, S tokens here, D head width

import functools

from torch import Tensor

from ..collectives import gather
from ..group import Axis
from ..layout import Layout, Range, Stream
from ..mesh import Mesh
from ..traffic import divided
from . import rows
from .packed import gathering


def check(layout: Layout, mesh: Mesh) -> None:
    """Any lengths, heads and masks will do."""
    assert layout.num_ranks == mesh[Axis.EXCHANGE].size, f"{layout.num_ranks} ranks for plan {mesh.plan}"


@functools.lru_cache(maxsize=64)
def authored(layout: Layout, rank: int) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """Where the query rows that a rank answers are in its own sequence, and where in the joint one: all of its sharded
    tokens, and its part of each replicated stream."""
    # Every row has one author, so that all ranks end up with the same bits: in a ring each begins with its own keys,
    # and would add up the answers to the same query in another order. And nobody computes what another does.
    local, joint = [], []
    replicated = iter(divided(layout).streams)
    for stream, start, (here, _) in zip(layout.streams, layout.starts(), layout.local_ranges(rank), strict=True):
        first, last = stream.held(rank)
        if not stream.is_sharded:
            first, last = next(replicated).held(rank)
            here += first
        local.append((here, here + last - first))
        joint.append((start + first, start + last))
    return tuple(local), tuple(joint)


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
    for stream, (first, last) in zip(layout.streams, authored(layout, group.index)[0], strict=True):
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
