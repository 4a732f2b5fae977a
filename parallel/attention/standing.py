"""Standing buffers: an attention call answered again and again in the same memory, under Ulysses.

The blocks of a transformer make the same call some fifty times in a forward, and to make its buffers and views anew
costs a host as much as to ask for the work. Here they are made once: two buffers that take turns, because nothing is
needed any more when what follows from it has been made from.

    q, k, v -cat-> A -pick-> B -exchange-> A -order-> B -attention-> answers -pick-> A -exchange-> B -place-> answers

An index that would change nothing is left out, and what is behind it changes buffers. Only what the caller is given is
new in each call. Whoever keeps this keeps the buffers: for one forward, so that no two threads meet in them, a CUDA
graph has its own, and nothing is held while a picture is decoded. What a run needs counts both beside the widest point
of a block (`pipelines/forecast/memory.py`).
"""

# B batch, H heads of q, K heads of k and v, h heads of one member, S tokens here, G tokens of the ulysses group,
# D head width

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..collectives import exchange_into
from ..group import Axis, Group
from ..traffic import members
from .packed import MOST_STANDING, PackedExchange, Trade, trade
from .strategy import Attend, Terms


def standing(q: Tensor, k: Tensor, v: Tensor, *, terms: Terms, inner: Attend) -> Standing | None:
    """What answers calls without a mask that have these shapes and dtypes; None where the usual way is as good."""
    layout, group, (batch, num_heads, _, width) = terms.layout, terms.mesh[Axis.ULYSSES], q.shape
    if group.size == 1 or not group.packs or layout.left_out is not None or torch.is_grad_enabled():
        return None
    way = trade(layout, members(terms.mesh), group.index, (batch, num_heads, k.shape[1], width), q.device)
    # What is empty has no rows to be picked or placed, and a buffer of one dtype holds no other.
    is_usual = way.split[0] > 0 and all(way.here) and all(way.joint) and q.dtype == k.dtype == v.dtype
    if not is_usual or way.way_out.places is None or _room(way, k.shape[1]) > MOST_STANDING:
        return None
    return Standing(q, k, way, terms=Terms(way.within, terms.mesh, terms.kernel), inner=inner)


def _room(way: Trade, num_keys: int) -> int:
    """The numbers in the largest of all that a buffer holds in turn."""
    batch, num_here, num_heads, width = way.here
    sums = [sum(sizes) for each in (way.way_in, way.way_out) for sizes in (each.sizes_in, each.sizes_out)]
    return max(batch * num_here * (num_heads + 2 * num_keys) * width, math.prod(way.joint), *sums)


class Standing:
    """The buffers, and all views of them."""

    def __init__(self, q: Tensor, k: Tensor, way: Trade, *, terms: Terms, inner: Attend) -> None:
        self._terms, self._inner, self._way = terms, inner, way
        turns = itertools.cycle(q.new_empty(2, _room(way, k.shape[1])).unbind())
        batch, num_here, num_heads, width = way.here
        self._whole = _part(next(turns), (batch, num_here, num_heads + 2 * k.shape[1], width))
        self._in = _Leg(way.way_in, turns)
        self._sent = self._whole.view(-1) if way.way_in.pick is None else self._whole.view(-1, way.way_in.width)
        joint, self._order = self._in.arrived, way.way_in.order
        if self._order is not None:
            joint = _part(next(turns), (math.prod(way.joint),))
            self._arrived, self._ordered = (x.view(-1, way.way_in.width_in) for x in (self._in.arrived, joint))
        self._given = joint.view(way.joint).permute(1, 2, 0, 3).split(way.split, 1)  # B h G D
        self._out = _Leg(way.way_out, turns)
        self._back, self._places = self._out.arrived.view(-1, width), way.way_out.places

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None) -> Tensor:
        """Collective: as `ulysses.attend`; B H S D to B H S D, laid out as B S H D."""
        way, group = self._way, self._terms.mesh[Axis.ULYSSES]
        torch.cat([q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)], 2, out=self._whole)
        self._in.exchange(self._sent, group=group)
        if self._order is not None:
            torch.index_select(self._arrived, 0, self._order, out=self._ordered)
        out = self._inner(*self._given, scale=scale, terms=self._terms)
        self._out.exchange(_rows_of(out, way.way_out), group=group)
        return self._back[self._places]


class _Leg:
    """One of both exchanges: what is picked for it, and where it arrives."""

    def __init__(self, way: PackedExchange, turns: Iterator[Tensor]) -> None:
        self._pick, self._sizes_in, self._sizes_out = way.pick, way.sizes_in, way.sizes_out
        if self._pick is not None:
            self._sent = _part(next(turns), (sum(way.sizes_out),))
            self._picked = self._sent.view(-1, way.width)
        self.arrived = _part(next(turns), (sum(way.sizes_in),))

    def exchange(self, rows: Tensor, *, group: Group) -> None:
        """Collective: from rows that are picked from, or flat what is sent as it is."""
        if self._pick is not None:
            torch.index_select(rows, 0, self._pick, out=self._picked)
            rows = self._sent
        exchange_into(self.arrived, rows, sizes=self._sizes_in, sizes_out=self._sizes_out, group=group)


def _part(buffer: Tensor, shape: Sequence[int]) -> Tensor:
    return buffer[: math.prod(shape)].view(shape)


def _rows_of(out: Tensor, way: PackedExchange) -> Tensor:
    """Answers as rows, or flat where none is picked; of a kernel's own format in one view."""
    batch, heads, tokens, width = out.shape
    row = heads * width
    shape, strides = ((out.numel(),), (1,)) if way.pick is None else ((batch * tokens, row), (row, 1))
    if out.stride()[1:] == (width, row, 1) and (batch == 1 or out.stride(0) == tokens * row):
        return out.as_strided(shape, strides)  # one view: what a host is waited for here is views
    return out.transpose(1, 2).contiguous().view(shape)
