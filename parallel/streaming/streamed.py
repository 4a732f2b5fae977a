"""The blocks of one module, some of them resident, the others brought in turn into two slots.

A block runs from its slot; between its calls its tensors are those at rest, so that LoRA loaders, hashes and
`state_dict` read right numbers at any time. What is brought next is what followed in the forward before: whoever skips
blocks, as step caches do, brings fewer. The idea is that of diffusers' group offloading (its PR 10503) and of block
swapping in ComfyUI; fixed slots, events in slot of waits, and forwards in slot of hooks are ours.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Collection, Sequence, Set
from typing import Any

import torch
from torch import Tensor, nn

from ..group import Group
from .forwards import in_place_of
from .layout import Layout, align_of, point
from .movers import Mover, mover_for, padded

NUM_SLOTS = 2  # one computes while the other fills; a third gains nothing where blocks are alike


class Streamed:
    """Blocks that run from slots of a device until `end`; one forward at a time.

    `resident` blocks, by index, have a slot of their own for all that time. Tensors of blocks whose addresses are in
    `without` stay as they are. A block's `forward` is wrapped, not hooked: so it lies outside of a compiled block and
    inside of step caches, whose skipped blocks are not brought.

    Ranks of a `group` bring a share of each block and gather it: collective then, by ranks whose blocks lie alike, of
    which the same ones stay, and which call the same.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        *,
        device: torch.device,
        resident: Collection[int] = (),
        without: Set[int] = frozenset(),
        group: Group | None = None,
        mover: Callable[[Sequence[Tensor], Group | None], Mover] = mover_for,
    ) -> None:
        self._blocks = tuple(blocks)
        self._layouts = [Layout(block, without=without, align=align_of(device)) for block in blocks]
        self._at_rest = [layout.at_rest() for layout in self._layouts]
        streamed = [i for i, layout in enumerate(self._layouts) if i not in resident and layout.num_bytes]
        self._resident = [_slot(self._layouts[i].num_bytes, device) for i in resident]
        size = max((self._layouts[i].num_bytes for i in streamed), default=0)
        size = padded(size, group) if group is not None else size
        self._slots = [_slot(size, device) for _ in range(min(NUM_SLOTS, len(streamed)))]
        self._holds: list[int | None] = [None] * len(self._slots)  # the block in each slot, or on its way there
        # By block and slot what its leaves are pointed at there.
        self._views = {index: [self._layouts[index].within(slot) for slot in self._slots] for index in streamed}
        self._next = dict(zip(streamed, (*streamed[1:], *streamed[:1]), strict=True))
        self._last: int | None = None
        self._running: int | None = None
        self.num_brought = 0
        self._undo = contextlib.ExitStack()
        self._mover = mover(self._slots, group) if streamed else None
        try:
            for index, slot in zip(resident, self._resident, strict=True):
                for into, rest in self._layouts[index].copies(slot):
                    into.copy_(rest)
                point(self._layouts[index].within(slot))
            for index in streamed:
                self._wrap(index)
        except BaseException:
            self.end()
            raise

    @property
    def num_bytes(self) -> int:
        """What slots take of the device, and what fills them."""
        return sum(map(len, (*self._slots, *self._resident))) + (self._mover.num_bytes if self._mover else 0)

    def end(self) -> None:
        """All as it rests; the slots are given back. A second call does nothing."""
        if self._mover is not None:
            self._mover.end()
            self._mover = None
        self._undo.close()
        for views in self._at_rest:
            point(views)
        self._slots, self._resident = [], []
        self._views.clear()

    def _wrap(self, index: int) -> None:
        inner = self._blocks[index].forward

        @functools.wraps(inner)
        def forward(*args: Any, **kwargs: Any) -> Any:
            return self._run(index, inner, args, kwargs)

        wrapped: Any = forward
        if "torch._dynamo" in sys.modules:  # a module that is compiled whole runs such a block uncompiled
            wrapped = torch.compiler.disable(forward)
            wrapped.__wrapped__ = inner  # by which a self-check finds it
        self._undo.enter_context(in_place_of(self._blocks[index], wrapped))

    def _run(self, index: int, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        assert self._mover is not None, "a block runs while its module is streamed"
        if self._running is not None:  # the last forward was left in the middle, by an exception of another thread's
            point(self._at_rest[self._running])
            for slot in range(len(self._slots)):  # what it asked the device for may still read them
                self._mover.used(slot)
        slot = self._slot_of(index)
        self._running = index
        point(self._views[index][slot])
        try:
            made = inner(*args, **kwargs)
        finally:
            self._mover.used(slot)
            point(self._at_rest[index])
            self._running = None
        self._look_ahead(index)
        return made

    def _slot_of(self, index: int) -> int:
        """Where the block lies, for what computes next."""
        assert self._mover is not None
        if index not in self._holds:
            self._bring(index, {index})
        slot = self._holds.index(index)
        try:
            self._mover.wait(slot)
        except BaseException:
            self._holds[slot] = None
            raise
        return slot

    def _look_ahead(self, index: int) -> None:
        """Ask for the blocks that come next, as many as there are slots."""
        if self._last is not None:
            self._next[self._last] = index
        self._last = index
        coming: list[int] = []
        for _ in self._slots:
            index = self._next[index]
            if index not in coming:
                coming.append(index)
        for each in coming:
            if each not in self._holds:
                self._bring(each, set(coming))

    def _bring(self, index: int, wanted: set[int]) -> None:
        assert self._mover is not None
        slot = next(slot for slot, held in enumerate(self._holds) if held not in wanted)
        # An exception between two of these lines leaves an empty slot, never one that names what is not there.
        self._holds[slot] = None
        self._mover.bring(slot, self._layouts[index])
        self._holds[slot] = index
        self.num_brought += 1


def _slot(num_bytes: int, device: torch.device) -> Tensor:
    """A row of bytes, which torch aligns: on a CPU by a cache line, which is all that matters there."""
    make = torch.zeros if device.type == "cpu" else torch.empty  # its pages are there before the first step
    return make(num_bytes, dtype=torch.uint8, device=device)
