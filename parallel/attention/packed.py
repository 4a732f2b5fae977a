"""One buffer each way: which row of it comes from where, reckoned once for each layout and shape.

On a GPU a launch costs more than the few kilobytes that it copies. So all that a call sends goes in one buffer, by one
collective, and an index tensor says which row comes from where: three launches are a whole exchange, for 8 ranks as for
2, with uneven heads and tokens too.

    q, k, v  -pick->  rows for rank 0 | for rank 1 | ...  -exchange->  rows of rank 0 | of rank 1 | ...  -order->  joint

What a rank has for itself goes along, so that all rows are ordered at once. An index that would change nothing is left
out. The index tensors of the last few layouts are kept; `forget` drops them.
"""

# B batch, H heads of q, K heads of k and v, h heads of one member, S tokens here, G tokens of the ulysses group,
# T tokens of the joint sequence, D head width

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ..collectives import exchange_into, gather_into
from ..group import Group
from ..layout import Layout, Range
from ..traffic import among, heads_of, num_padded

Sizes = tuple[int, int, int, int]  # of a call: B, H, K, D; or of a tensor
# Reckoned by numpy, of which no torch mode that counts or fakes operators takes note.
Positions = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
KEPT = 8  # layouts and shapes whose index tensors are kept; those of a long video take a few megabytes each
# The numbers in a buffer that stands until the next call: where more is sent, the host is not what is waited for.
MOST_STANDING = 8 << 20
_held: weakref.WeakSet[PackedExchange | Gathering] = weakref.WeakSet()


def held() -> list[PackedExchange | Gathering]:
    """Whose index tensors there are; for who keeps addresses of them."""
    return list(_held)


@dataclass(frozen=True, eq=False)
class PackedExchange:
    """One exchange: the rows picked for each member, and the order of those that come."""

    pick: Tensor | None
    width: int  # numbers in a picked row
    sizes_out: list[int]
    sizes_in: list[int]
    order: Tensor | None
    width_in: int  # numbers in an ordered row
    places: Tensor | None = None  # B H S, for `Standing`: where the answers to each token arrive, in rows of D

    def __post_init__(self) -> None:
        _held.add(self)

    def exchange(self, parts: list[Tensor], *, group: Group, dim: int = 2) -> Tensor:
        """Collective: from parts side by side along `dim`, what all members send, in order."""
        whole = torch.cat(parts, dim) if len(parts) > 1 else parts[0]
        packed = _rows(whole.contiguous(), self.pick, self.width)  # cat may take strides for those of channels last
        del whole
        arrived = packed.new_empty(sum(self.sizes_in))
        exchange_into(arrived, packed.view(-1), sizes=self.sizes_in, sizes_out=self.sizes_out, group=group)
        del packed  # there are two buffers at a time
        return _rows(arrived, self.order, self.width_in)


@dataclass(frozen=True, eq=False)
class Trade:
    """One rank's two exchanges in Ulysses, and the shapes of what they give."""

    within: Layout  # of the ulysses groups, each taken as one rank
    way_in: PackedExchange
    joint: Sizes  # G B h D, the h being my heads of q, k and v
    asked: Sizes | None  # G B h D of k and v where keys are left out; then those above are of q
    split: tuple[int, ...]  # of the last h
    way_out: PackedExchange
    here: Sizes  # B S H D

    def to_heads(self, q: Tensor, k: Tensor, v: Tensor, *, group: Group) -> tuple[Tensor, ...]:
        """Collective: B H S D blocks with all heads -> B h G D with mine, as a kernel takes them."""
        parts = [x.transpose(1, 2) for x in (q, k, v)]
        if self.asked is None:
            joint = self.way_in.exchange(parts, group=group)
            return joint.view(self.joint).permute(1, 2, 0, 3).split(self.split, 1)
        arrived = self.way_in.exchange([x.flatten() for x in parts], group=group, dim=0).view(-1)
        queries, asked = arrived.split([math.prod(self.joint), math.prod(self.asked)])
        keys, values = asked.view(self.asked).permute(1, 2, 0, 3).split(self.split, 1)
        return queries.view(self.joint).permute(1, 2, 0, 3), keys, values

    def to_tokens(self, out: Tensor, *, group: Group) -> Tensor:
        """Collective: B h G D with my heads -> B H S D blocks with all."""
        return self.way_out.exchange([out.transpose(1, 2)], group=group).view(self.here).transpose(1, 2)


@functools.lru_cache(maxsize=KEPT)
def trade(layout: Layout, ranks: range, index: int, shape: Sizes, device: torch.device) -> Trade:
    """The trade of member `index` of a ulysses group."""
    batch, num_queries, num_keys, width = shape
    mine, within = heads_of(num_queries, num_keys, len(ranks))[index], layout.merged(len(ranks))
    group, counts = ranks[0] // len(ranks), (mine.num_queries, len(mine.looked_at), len(mine.looked_at))
    is_apart = layout.left_out is not None
    return Trade(
        within=within,
        way_in=(_way_in_apart if is_apart else _way_in)(layout, ranks, index, shape, device),
        joint=(within.num_held(group), batch, counts[0] if is_apart else sum(counts), width),
        asked=(within.keys.num_held(group), batch, sum(counts[1:]), width) if is_apart else None,
        split=counts[1:] if is_apart else counts,
        way_out=_way_out(layout, ranks, index, shape, device),
        here=(batch, layout.num_held(ranks[index]), num_queries, width),
    )


def _way_in(layout: Layout, ranks: range, index: int, shape: Sizes, device: torch.device) -> PackedExchange:
    """Out: my sharded tokens with each member's heads. In: each member's with mine. All my own tokens go to myself."""
    batch, num_queries, num_keys, width = shape
    heads, num_here = heads_of(num_queries, num_keys, len(ranks)), layout.num_held(ranks[index])
    mine, packed = heads[index], num_queries + 2 * num_keys
    # Rows are as wide as heads come together on all ranks: the wider, the shorter is the index, and the quicker a copy.
    columns = [
        [each.queries, *((at + each.keys[0], at + each.keys[1]) for at in (num_queries, num_queries + num_keys))]
        for each in heads
    ]
    unit = math.gcd(packed, *(place for held in columns for part in held for place in part))
    local = layout.local_ranges(ranks[index])
    sent = [_tokens(layout, local, is_own=member == index) for member in range(len(ranks))]
    item = np.arange(batch)[:, None] * num_here
    picks = [
        ((each[:, None, None] + item) * packed + _range(held)[::unit]) // unit
        for each, held in zip(sent, columns, strict=True)
    ]  # S B units of h
    arrived = [_tokens(layout, places, is_own=member == index) for member, places in enumerate(among(layout, ranks))]
    # What arrives for a token is one row, batch and heads, where all of its heads stay together.
    order, width_in = np.concatenate(arrived).argsort(), batch * mine.num_packed * width  # G
    if mine.is_spread:
        keys = np.array(mine.looked_at) + mine.num_queries
        chosen = np.concatenate([np.arange(mine.num_queries), keys, keys + mine.num_keys])
        item = np.arange(batch)[:, None]
        order, width_in = (order[:, None, None] * batch + item) * mine.num_packed + chosen, width  # G B h
    return PackedExchange(
        pick=_index(picks, batch * num_here * packed // unit, device),
        width=unit * width,
        sizes_out=[len(each) * batch * held.num_packed * width for each, held in zip(sent, heads, strict=True)],
        sizes_in=[len(each) * batch * mine.num_packed * width for each in arrived],
        order=_index([order], sum(map(len, arrived)), device) if width_in else None,
        width_in=width_in,
    )


def _way_in_apart(layout: Layout, ranks: range, index: int, shape: Sizes, device: torch.device) -> PackedExchange:
    """`_way_in` where keys are left out: q, k and v one behind the other, to each member queries before the rest."""
    width, mine = shape[3], heads_of(shape[1], shape[2], len(ranks))[index]
    picks, unit, num_rows = _picks_apart(layout, ranks, index, shape)
    order, unit_in, sizes_in = _order_apart(layout, ranks, index, shape)
    return PackedExchange(
        pick=_index([pick for each in picks for pick in each], num_rows, device),
        width=unit * width,
        sizes_out=[sum(map(len, each)) * unit * width for each in picks],
        sizes_in=[size * width for size in sizes_in],
        order=_index(order, sum(sizes_in) // unit_in, device) if mine.num_queries else None,
        width_in=unit_in * width,
    )


def _picks_apart(layout: Layout, ranks: range, index: int, shape: Sizes) -> tuple[list[list[Positions]], int, int]:
    """For each member the rows that go to it, each of so many heads; and how many rows there are."""
    batch, num_queries, num_keys, _ = shape
    heads, rank, item = heads_of(num_queries, num_keys, len(ranks)), ranks[index], np.arange(batch)
    unit = math.gcd(num_queries, num_keys, *(end for each in heads for end in (*each.queries, *each.keys)))

    def picked(spread: Layout, member: int, count: int, held: Range) -> Positions:
        tokens = _tokens(spread, spread.local_ranges(rank), is_own=member == index)
        rows = tokens[:, None, None] + item[:, None] * spread.num_held(rank)
        return (rows * count + _range([held])[::unit]) // unit  # S B units of h

    first_key = batch * layout.num_held(rank) * num_queries // unit
    first_value = first_key + batch * layout.keys.num_held(rank) * num_keys // unit
    picks = list[list[Positions]]()
    for member, each in enumerate(heads):
        keys = picked(layout.keys, member, num_keys, each.keys)
        both = np.concatenate([keys + first_key, keys + first_value], 2)  # a token's keys and values stay neighbours
        picks.append([picked(layout, member, num_queries, each.queries).ravel(), both.ravel()])
    return picks, unit, 2 * first_value - first_key


def _order_apart(layout: Layout, ranks: range, index: int, shape: Sizes) -> tuple[list[Positions], int, list[int]]:
    """The order of queries, and of keys and values, that arrive in rows of so many heads; and the heads from each."""
    mine, batch = heads_of(shape[1], shape[2], len(ranks))[index], shape[0]
    # Where in the buffer, counted in heads, what arrives for each token of the group is.
    kinds = ((layout, mine.num_queries), (layout.keys, 2 * mine.num_keys))
    arrived = [np.zeros(spread.merged(len(ranks)).num_held(ranks[0] // len(ranks)), np.int64) for spread, _ in kinds]
    end, sizes_in = 0, list[int]()
    for member in range(len(ranks)):
        start = end
        for (spread, count), at in zip(kinds, arrived, strict=True):
            tokens = _tokens(spread, among(spread, ranks)[member], is_own=member == index)
            at[tokens] = end + np.arange(len(tokens)) * batch * count
            end += len(tokens) * batch * count
        sizes_in.append(end - start)
    unit_in = 1 if mine.is_spread else math.gcd(mine.num_queries, mine.num_keys) or 1
    keys = np.array([key + shift for shift in (0, mine.num_keys) for key in mine.looked_at], np.int64)
    columns = (np.arange(mine.num_queries), keys)
    order = [
        (at[:, None, None] + np.arange(batch)[:, None] * count + held[::unit_in]) // unit_in
        for at, (_, count), held in zip(arrived, kinds, columns, strict=True)
    ]  # G B units of h
    return order, unit_in, sizes_in


def _tokens(layout: Layout, places: Sequence[Range], *, is_own: bool) -> Positions:
    """Of one rank's tokens those that travel: of sharded streams, and all that it has for itself."""
    parts = zip(places, layout.streams, strict=True)
    return _range(place for place, stream in parts if stream.is_sharded or is_own)


def _way_out(layout: Layout, ranks: range, index: int, shape: Sizes, device: torch.device) -> PackedExchange:
    """Out: each member's tokens, the replicated among them, with my heads. In: all my tokens with each member's."""
    batch, num_queries, num_keys, width = shape
    heads, num_here = heads_of(num_queries, num_keys, len(ranks)), layout.num_held(ranks[index])
    mine, num_joint = heads[index], layout.merged(len(ranks)).num_held(ranks[0] // len(ranks))
    item = np.arange(batch)
    sent = [_range(places)[:, None] + item * num_joint for places in among(layout, ranks)]  # S B
    unit = math.gcd(num_queries, *(end for each in heads for end in each.queries))
    strides = np.concatenate([np.full(each.num_queries // unit, each.num_queries // unit) for each in heads])
    starts = np.concatenate(
        [np.arange(each.num_queries // unit) + batch * num_here * each.queries[0] // unit for each in heads]
    )  # C
    rows = np.arange(num_here) * batch + item[:, None]  # B S
    order = rows[..., None] * strides + starts  # B S C
    places = None  # kept only where it is asked for again and again: it is as large as an answer
    if order.size * unit * width <= MOST_STANDING:
        each = (order[..., None] * unit + np.arange(unit)).reshape(batch, num_here, num_queries)
        places = torch.tensor(each, device=device).transpose(1, 2)
    return PackedExchange(
        pick=_index(sent, batch * num_joint, device) if mine.num_queries else None,
        width=mine.num_queries * width,
        sizes_out=[each.size * mine.num_queries * width for each in sent],
        sizes_in=[num_here * batch * each.num_queries * width for each in heads],
        order=_index([order], batch * num_here * num_queries // unit, device),
        width_in=unit * width,
        places=places,
    )


@dataclass(frozen=True, eq=False)
class Gathering:
    """How the tokens of sharded streams come to all ranks: through a buffer with as much room for each as one needs.

    The tokens of replicated streams are not sent, but lie behind, so that all are ordered at once.
    """

    num_rows: int
    num_own: int
    num_sent: int  # by every rank
    num_arrived: int  # at the start of the buffer
    start: int  # where this rank writes its tokens
    first: int  # which of them is the first to be sent
    pick: Tensor | None  # this rank's tokens, those that are sent first; None if these are neighbours as they are
    order: Tensor | None

    def __post_init__(self) -> None:
        _held.add(self)

    @functools.cached_property
    def sent(self) -> Tensor:
        """Which of its tokens a rank without replicated ones sends, in a graph: padded by repeating one, so that the
        graphs of all ranks are alike."""
        pick = self.order if self.order is not None else self.pick
        device = None if pick is None else pick.device
        own = torch.arange(self.num_own, dtype=torch.int32, device=device) if self.pick is None else self.pick
        return torch.cat([own, own[:1].expand(self.num_sent - self.num_own)])

    def gather(self, parts: list[Tensor], *, group: Group) -> Tensor:
        """Collective: T B h D, from B S h D parts side by side along their heads."""
        tokens = [part.transpose(0, 1) for part in parts]  # S B h D
        _, batch, _, width = tokens[0].shape
        buffer = tokens[0].new_empty(self.num_rows, batch, sum(part.shape[2] for part in tokens), width)
        own = buffer.narrow(0, self.start, self.num_own)
        if self.pick is None:
            torch.cat(tokens, 2, out=own)
        else:
            torch.index_select(torch.cat(tokens, 2), 0, self.pick, out=own)
        sent = buffer.narrow(0, self.start + self.first, self.num_sent)
        gather_into(buffer.narrow(0, 0, self.num_arrived).view(-1), sent.view(-1), group=group, is_async=False)
        return buffer if self.order is None else buffer.index_select(0, self.order)


@functools.lru_cache(maxsize=2 * KEPT)
def gathering(layout: Layout, rank: int, device: torch.device) -> Gathering:
    """What `rank` does to gather all tokens of `layout`, of which a stream at least is sharded."""
    count, here, most = layout.num_ranks, layout.num_held(rank), num_padded(layout)
    places = list(zip(layout.streams, layout.local_ranges(rank), strict=True))
    sharded = [place for stream, place in places if stream.is_sharded]
    turned = np.concatenate([_range(sharded), _range(place for stream, place in places if not stream.is_sharded)])
    are_neighbours = all(end == start for (_, end), (start, _) in pairwise(sharded))
    first = sharded[0][0] if are_neighbours else 0
    # A rank that sends all its tokens writes them where they arrive, another behind what arrives.
    start = count * most if layout.num_replicated else rank * most
    at = np.arange(here) if are_neighbours else turned.argsort()  # of my tokens, behind `start`
    order, past = [], [other * most for other in range(count)]
    for stream, place in places:
        if not stream.is_sharded:
            order.append(at[slice(*place)] + start)
            continue
        for other, share in enumerate(stream.shares or ()):
            order.append(np.arange(past[other], past[other] + share))
            past[other] += share
    num_rows = max(start + here, start + first + most) if layout.num_replicated else count * most
    return Gathering(
        num_rows=num_rows,
        num_own=here,
        num_sent=most,
        num_arrived=count * most,
        start=start,
        first=first,
        pick=None if are_neighbours else _on(turned, device),
        order=_index(order, num_rows, device),
    )


def forget() -> None:
    """Drop all index tensors."""
    trade.cache_clear()
    gathering.cache_clear()


def _rows(x: Tensor, index: Tensor | None, width: int) -> Tensor:
    return x if index is None else x.view(-1, width).index_select(0, index)


def _range(ranges: Iterable[Range]) -> Positions:
    return np.concatenate([np.arange(0), *(np.arange(start, end) for start, end in ranges)])


def _index(pieces: Sequence[Positions], num_rows: int, device: torch.device) -> Tensor | None:
    """The rows in `pieces`, one after the other; None if they are all there are, in order."""
    index = np.concatenate([piece.ravel() for piece in pieces])
    return None if np.array_equal(index, np.arange(num_rows)) else _on(index, device)


def _on(index: Positions, device: torch.device) -> Tensor:
    return torch.tensor(index, dtype=torch.int32, device=device)
