"""Heads over the ranks of a ulysses group, and where each rank's tokens are among those of the group."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ..group import Axis
from ..layout import Layout, Range, shares_of
from ..mesh import Mesh


@dataclass(frozen=True)
class Heads:
    """The heads of one rank: of the queries, and those of the keys that they look at."""

    queries: Range
    keys: Range
    group: int  # query heads to a key head

    @property
    def num_queries(self) -> int:
        return self.queries[1] - self.queries[0]

    @property
    def num_keys(self) -> int:
        return self.keys[1] - self.keys[0]

    @property
    def num_packed(self) -> int:
        return self.num_queries + 2 * self.num_keys

    @property
    def looked_at(self) -> list[int]:
        """The key heads, counted from the first of this rank, that a kernel is given.

        They are all of them if whole groups of query heads look at each, else one for each query head.
        """
        if self.num_queries == self.num_keys * self.group or not self.num_queries:
            return list(range(self.num_keys))
        return [head // self.group - self.keys[0] for head in range(*self.queries)]

    @property
    def is_spread(self) -> bool:
        """Whether a kernel is given other key heads than those that travel."""
        return self.looked_at != list(range(self.num_keys))


@functools.lru_cache(maxsize=64)
def heads_of(num_queries: int, num_keys: int, count: int) -> tuple[Heads, ...]:
    """Query heads over `count` ranks as even as can be; a rank without heads idles."""
    group, start, found = num_queries // num_keys, 0, []
    for size in shares_of(num_queries, count):
        end = start + size
        keys = (start // group, -(-end // group)) if size else (0, 0)
        found.append(Heads((start, end), keys, group))
        start = end
    return tuple(found)


def members(mesh: Mesh) -> range:
    """The ranks of my ulysses group, as the layout numbers them."""
    size = mesh[Axis.ULYSSES].size
    first = mesh[Axis.SEQUENCE].index // size * size
    return range(first, first + size)


def among(layout: Layout, ranks: range) -> list[list[Range]]:
    """Where each member's tokens are among those of the group, stream by stream."""
    within = layout.merged(len(ranks)).local_ranges(ranks[0] // len(ranks))
    shifts = [begin - stream.held(ranks[0])[0] for stream, (begin, _) in zip(layout.streams, within, strict=True)]
    return [
        [(shift + first, shift + last) for shift, (first, last) in zip(shifts, held, strict=True)]
        for held in ([stream.held(rank) for stream in layout.streams] for rank in ranks)
    ]
