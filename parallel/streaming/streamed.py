"""The blocks of one module, some of them resident, the others brought in turn into two places.

A block runs from its place; between its calls its tensors are those at rest, so that LoRA loaders, hashes and
`state_dict` read right numbers at any time. What is brought next is what followed in the forward before: whoever skips
blocks, as step caches do, brings fewer. The idea is that of diffusers' group offloading (its PR 10503) and of block
swapping in ComfyUI; fixed places, events in place of waits, and forwards in place of hooks are ours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence, Set
from typing import Any

import torch
from torch import Tensor, nn

from .layout import Layout, Leaf, point
from .movers import Mover, mover_for

NUM_PLACES = 2  # one computes while the other fills; a third gains nothing where blocks are alike


class Streamed:
    """Blocks that run from places of a device until `end`; one forward at a time.

    `resident` blocks, by index, have a place of their own for all that time. Tensors of blocks whose addresses are in
    `without` stay as they are. A block's `forward` is wrapped, not hooked: so it lies outside of a compiled block and
    inside of step caches, whose skipped blocks are not brought.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        *,
        device: torch.device,
        resident: Collection[int] = (),
        without: Set[int] = frozenset(),
        mover: Callable[[torch.device, int], Mover] = mover_for,
    ) -> None:
        self._blocks = tuple(blocks)
        self._layouts = [Layout(block, without=without) for block in blocks]
        self._at_rest = [layout.at_rest() for layout in self._layouts]
        streamed = [i for i, layout in enumerate(self._layouts) if i not in resident and layout.num_bytes]
        self._resident = [_place(self._layouts[i].num_bytes, device) for i in resident]
        size = max((self._layouts[i].num_bytes for i in streamed), default=0)
        self._places = [_place(size, device) for _ in range(min(NUM_PLACES, len(streamed)))]
        self._holds: list[int | None] = [None] * len(self._places)  # the block in each place, or on its way there
        self._views: dict[tuple[int, int], list[tuple[Leaf, Tensor]]] = {}
        self._copies: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
        self._next = dict(zip(streamed, (*streamed[1:], *streamed[:1]), strict=True))
        self._last: int | None = None
        self._running: int | None = None
        self.num_brought = 0
        self._mover = mover(device, len(self._places)) if streamed else None
        for index, place in zip(resident, self._resident, strict=True):
            for into, rest in self._layouts[index].copies(place):
                into.copy_(rest)
            point(self._layouts[index].within(place))
        self._before: dict[int, Any] = {}
        for index in streamed:
            self._wrap(index)

    @property
    def num_bytes(self) -> int:
        """What places take of the device."""
        return sum(map(len, (*self._places, *self._resident)))

    def end(self) -> None:
        """All as it rests; the places are given back. A second call does nothing."""
        if self._mover is not None:
            self._mover.end()
            self._mover = None
        for index, forward in self._before.items():
            if forward is None:
                del vars(self._blocks[index])["forward"]
            else:
                vars(self._blocks[index])["forward"] = forward
        self._before.clear()
        for views in self._at_rest:
            point(views)
        self._places, self._resident = [], []
        self._views.clear()
        self._copies.clear()

    def _wrap(self, index: int) -> None:
        block = self._blocks[index]
        self._before[index] = vars(block).get("forward")
        inner = block.forward

        @functools.wraps(inner)
        def forward(*args: Any, **kwargs: Any) -> Any:
            return self._run(index, inner, args, kwargs)

        vars(block)["forward"] = forward

    def _run(self, index: int, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        assert self._mover is not None, "a block runs while its module is streamed"
        if self._running is not None:  # the last forward was left in the middle, by an exception of another thread's
            point(self._at_rest[self._running])
            for place in range(len(self._places)):  # what it asked the device for may still read them
                self._mover.used(place)
        place = self._place_of(index)
        self._running = index
        point(self._viewed(index, place))
        try:
            made = inner(*args, **kwargs)
        finally:
            self._mover.used(place)
            point(self._at_rest[index])
            self._running = None
        self._look_ahead(index)
        return made

    def _place_of(self, index: int) -> int:
        """Where the block lies, for what computes next."""
        assert self._mover is not None
        if index not in self._holds:
            self._bring(index, {index})
        place = self._holds.index(index)
        try:
            self._mover.wait(place)
        except BaseException:
            self._holds[place] = None
            raise
        return place

    def _look_ahead(self, index: int) -> None:
        """Ask for the blocks that come next, as many as there are places."""
        if self._last is not None:
            self._next[self._last] = index
        self._last = index
        coming: list[int] = []
        for _ in self._places:
            index = self._next[index]
            if index not in coming:
                coming.append(index)
        for each in coming:
            if each not in self._holds:
                self._bring(each, set(coming))

    def _bring(self, index: int, wanted: set[int]) -> None:
        assert self._mover is not None
        place = next(place for place, held in enumerate(self._holds) if held not in wanted)
        # An exception between two of these lines leaves an empty place, never one that names what is not there.
        self._holds[place] = None
        if (index, place) not in self._copies:
            self._copies[index, place] = self._layouts[index].copies(self._places[place])
        self._mover.bring(place, self._copies[index, place])
        self._holds[place] = index
        self.num_brought += 1

    def _viewed(self, index: int, place: int) -> list[tuple[Leaf, Tensor]]:
        if (index, place) not in self._views:
            self._views[index, place] = self._layouts[index].within(self._places[place])
        return self._views[index, place]


def _place(num_bytes: int, device: torch.device) -> Tensor:
    """A row of bytes, which torch lets begin with a cache line."""
    make = torch.zeros if device.type == "cpu" else torch.empty  # its pages are there before the first step
    return make(num_bytes, dtype=torch.uint8, device=device)
