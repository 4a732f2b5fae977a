"""What each rank of an attention call holds and sends: heads over the ranks of a ulysses group, and bytes and messages.

Told without torch, for a rank that works and for one that is only planned; tests hold it against counted bytes.
Ulysses: Jacobs et al., 2023 (arXiv:2309.14509). Ring: Liu et al., 2023 (arXiv:2310.01889). AllGather-KV: Dubey et al.,
2024 (arXiv:2407.21783). Hybrids: Fang and Zhao, 2024 (arXiv:2405.07719).
"""

import functools
from dataclasses import dataclass, replace

from .group import Axis
from .layout import Layout, Range, Stream, shares_of
from .mesh import Mesh


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


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of one attention call that do not depend on the layout."""

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    itemsize: int

    def row_bytes(self, heads: int) -> int:
        """Of a token, with so many heads."""
        return self.batch * heads * self.head_dim * self.itemsize


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What one rank sends in one attention call, in exchanges within its ulysses group, and in gathers and hops beyond
    it."""

    exchange_bytes: int = 0
    num_exchanges: int = 0
    gather_bytes: int = 0
    num_gathers: int = 0
    hop_bytes: int = 0  # all hops together
    num_hops: int = 0

    @property
    def sent_bytes(self) -> int:
        return self.exchange_bytes + self.gather_bytes + self.hop_bytes

    @property
    def calls(self) -> int:
        return self.num_exchanges + self.num_gathers + self.num_hops


def traffic_of(layout: Layout, mesh: Mesh, *, shape: Shape) -> Traffic:
    """Of this rank, by the mesh's plan. Ulysses, in: my sharded tokens with the others' heads; out: the others' tokens,
    and the replicated, with my heads. What is around it then sends keys and values of its heads, and answers."""
    if mesh.plan.ulysses == 1:
        return Traffic(**_around(layout, mesh, shape))
    group, ranks = mesh[Axis.ULYSSES], members(mesh)
    heads = heads_of(shape.heads, shape.kv_heads, group.size)
    mine, rank = heads[group.index], ranks[group.index]
    others = [i for i in range(group.size) if i != group.index]
    sent_in = layout.num_sharded(rank) * sum(heads[i].num_queries for i in others)
    sent_in += layout.keys.num_sharded(rank) * sum(2 * heads[i].num_keys for i in others)
    # Answers go back to all ranks' tokens, also to those whose keys were left out, and to replicated ones.
    sent_out = sum(layout.num_held(ranks[i]) for i in others) * mine.num_queries
    within = replace(shape, heads=mine.num_queries, kv_heads=len(mine.looked_at))
    around = _around(layout.merged(group.size), mesh, within)
    return Traffic(exchange_bytes=(sent_in + sent_out) * shape.row_bytes(1), num_exchanges=2, **around)


def _around(layout: Layout, mesh: Mesh, shape: Shape) -> dict[str, int]:
    """Of the exchange of keys and values, by the fields of `Traffic`: hops of a ring, or a gather; then of the answers
    to queries of replicated streams, of which each rank authored a part."""
    group = mesh[Axis.EXCHANGE]
    if group.size == 1 or not shape.heads:
        return {}
    found, row = {"gather_bytes": 0, "num_gathers": 0}, shape.row_bytes(2 * shape.kv_heads)
    if mesh.plan.ring > 1:  # all blocks but the next rank's
        sources = [(group.index - hop) % group.size for hop in range(group.size - 1)]
        hops = sum(layout.keys.num_sharded(source) for source in sources)
        found |= {"hop_bytes": hops * row, "num_hops": len(sources)}
    else:
        num_sent = num_padded(layout.keys) if group.packs else layout.keys.num_sharded(group.index)
        found |= {"gather_bytes": num_sent * row * (group.size - 1), "num_gathers": 1}  # in one buffer: padded
    if layout.num_replicated:
        parts = divided(layout)
        num_sent = num_padded(parts) if group.packs else parts.num_held(group.index)
        found["gather_bytes"] += num_sent * shape.row_bytes(shape.heads) * (group.size - 1)
        found["num_gathers"] += 1
    return found


def num_padded(layout: Layout) -> int:
    """The tokens that every rank sends in a gathering: as many as the one with most."""
    return max(layout.num_sharded(rank) for rank in range(layout.num_ranks))


def divided(layout: Layout) -> Layout:
    """The replicated streams, divided over the ranks."""
    count = layout.num_ranks
    streams = (s for s in layout.streams if not s.is_sharded)
    return Layout(tuple(Stream(s.name, s.length, shares_of(s.length, count)) for s in streams), count)
