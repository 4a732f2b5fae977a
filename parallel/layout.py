"""A layout: the token streams of one forward, and which rank holds which tokens of each.

Every rank derives every share from the global lengths: lengths are never sent.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import accumulate, pairwise

Range = tuple[int, int]  # first and one past the last position


def shares_of(length: int, count: int, unit: int = 1) -> tuple[int, ...]:
    """`length` tokens over `count` ranks, as even as whole units allow, the longer ones first."""
    units, rest = divmod(length, unit)
    assert not rest, f"{length} tokens are no whole number of units of {unit}"
    return tuple((units // count + (i < units % count)) * unit for i in range(count))


@dataclass(frozen=True)
class Stream:
    """A token sequence: `shares[i]` tokens are on rank i, or all of them on every rank if `shares` is None."""

    name: str
    length: int
    shares: tuple[int, ...] | None
    unit: int = 1  # tokens that stay together

    @property
    def is_sharded(self) -> bool:
        return self.shares is not None

    def held(self, rank: int) -> Range:
        """The positions within the stream that `rank` holds."""
        if self.shares is None:
            return 0, self.length
        start = sum(self.shares[:rank])
        return start, start + self.shares[rank]


@dataclass(frozen=True)
class Layout:
    """The streams in the order of the joint sequence, over `num_ranks` ranks.

    On a rank the sequence is the rank's part of each stream, in the same order.
    """

    streams: tuple[Stream, ...]
    num_ranks: int
    # Positions of the joint sequence that no query asks: they have no keys and values, only queries.
    left_out: Range | None = None

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:  # each attention call looks up what it was reckoned
        return hash((self.streams, self.num_ranks, self.left_out))

    @functools.cached_property
    def keys(self) -> Layout:
        """The layout of the keys and values, shorter by those that are left out."""
        # Shares become uneven, and some empty, as the padding lies with the last ranks of its stream: strategies take
        # any, and tokens stay where their queries are.
        if self.left_out is None:
            return self
        streams = []
        for stream, begin in zip(self.streams, self.starts(), strict=True):
            each = [stream.held(rank) for rank in range(self.num_ranks if stream.shares is not None else 1)]
            sizes = tuple(sum(b - a for a, b in self._ranges_kept(begin + first, begin + last)) for first, last in each)
            streams.append(Stream(stream.name, sum(sizes), None if stream.shares is None else sizes))
        return Layout(tuple(streams), self.num_ranks)

    def asked(self) -> list[Range]:
        """Where in the joint sequence the keys are."""
        return self._ranges_kept(0, self.length)

    def asked_of(self, rank: int) -> list[Range]:
        """Where in the rank's own sequence the keys are."""
        parts = zip(self.positions(rank), self.local_ranges(rank), strict=True)
        return [
            (a + here - start, b + here - start)
            for (start, end), (here, _) in parts
            for a, b in self._ranges_kept(start, end)
        ]

    def _ranges_kept(self, start: int, end: int) -> list[Range]:
        """What is left of some positions of the joint sequence."""
        first, last = self.left_out or (end, end)
        return [(start, max(start, min(end, first))), (min(end, max(start, last)), end)]

    @property
    def length(self) -> int:
        return sum(stream.length for stream in self.streams)

    @property
    def is_split(self) -> bool:
        return any(stream.is_sharded for stream in self.streams)

    @property
    def num_replicated(self) -> int:
        return sum(stream.length for stream in self.streams if not stream.is_sharded)

    def merged(self, size: int) -> Layout:
        """The layout over groups of `size` neighbouring ranks, each taken as one."""
        streams = tuple(
            stream
            if stream.shares is None
            else Stream(
                stream.name,
                stream.length,
                tuple(sum(stream.shares[i : i + size]) for i in range(0, self.num_ranks, size)),
            )
            for stream in self.streams
        )
        return Layout(streams, self.num_ranks // size, self.left_out)

    def num_held(self, rank: int) -> int:
        """Tokens of the sequence on a rank."""
        return sum(end - start for start, end in (stream.held(rank) for stream in self.streams))

    def num_sharded(self, rank: int) -> int:
        """Tokens of the sharded streams on a rank."""
        return self.num_held(rank) - self.num_replicated

    def starts(self) -> tuple[int, ...]:
        """Where each stream begins in the joint sequence."""
        return tuple(accumulate((stream.length for stream in self.streams), initial=0))[:-1]

    def positions(self, rank: int, *, replicated: bool = True) -> list[Range]:
        """Where in the joint sequence a rank's tokens are; without the replicated streams if asked."""
        return [
            (begin + stream.held(rank)[0], begin + stream.held(rank)[1])
            for begin, stream in zip(self.starts(), self.streams, strict=True)
            if replicated or stream.is_sharded
        ]

    def local_ranges(self, rank: int) -> list[Range]:
        """Where in the rank's own sequence its part of each stream is."""
        sizes = [end - start for start, end in (stream.held(rank) for stream in self.streams)]
        ends = list(accumulate(sizes, initial=0))
        return list(pairwise(ends))
