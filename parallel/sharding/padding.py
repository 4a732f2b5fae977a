"""Padding: the keys of a text that every row of a batch hides, and so are left out of attention.

A mask makes torch attend by a slower kernel, and what it hides is reckoned for nothing. Which keys are left out is
decided on the host, once for each mask tensor, when a forward of the transformer begins: the same for all its blocks,
on all ranks and on one. Queries are never left out, nor anything where a row hides its whole text.

A CPU's kernel sums in another order then, so that the last bit may differ: `leaving_out` is for who wants that.
"""

# B batch, T tokens of the text, H heads, S queries, D head width

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ..attention.rows import take
from ..layout import Range
from .split_plan import Padding, Place

BUCKET = 16
"""Where rows hide different numbers of keys, and a mask stays, as many are kept as is a multiple of this: few prompts
then have a layout, and index tensors, of their own."""

_wanted: contextvars.ContextVar[bool | None] = contextvars.ContextVar("latentloom_padding", default=None)
_read: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""What was read of each mask, by the number of times that it had been written to."""


@contextlib.contextmanager
def leaving_out(is_wanted: bool) -> Iterator[None]:
    """In this thread padding is left out on a CPU too, or not even on a GPU."""
    token = _wanted.set(is_wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


@dataclass(frozen=True)
class Kept:
    """Of the keys of a text of `length` tokens the first `count` are attended to."""

    place: Place
    length: int
    count: int
    hides: bool  # some row hides some of those that are kept: a mask is needed

    def left_out(self, num_keys: int) -> Range:
        """Positions among the keys of an attention call."""
        start = num_keys - self.length if self.place == "last" else 0
        return start + self.count, start + self.length


@dataclass(frozen=True)
class _Seen:
    """Of each row of a mask, how many tokens it shows, and the place behind the last of them."""

    length: int
    counts: tuple[int, ...]
    ends: tuple[int, ...]


def is_given(given: Mapping[str, Any], paddings: Sequence[Padding]) -> bool:
    """Whether a transformer's arguments have a mask of which padding is left out, if there is any."""
    masks = (given.get(name) for padding in paddings for name in padding.masks)
    return any(isinstance(mask, Tensor) and _is_wanted(mask.device) for mask in masks)


def kept_in(given: Mapping[str, Any], paddings: Sequence[Padding]) -> tuple[Kept, ...]:
    """What is kept of the texts whose masks are among a transformer's arguments; nothing said of a text is: all.

    Waits for the device that a mask is on, when it is met for the first time.
    """
    known = {name for padding in paddings for name in padding.masks}
    if any(name.endswith("attention_mask") and x is not None and name not in known for name, x in given.items()):
        return ()  # of other tokens, and as it may happen of as many
    found: list[Kept] = []
    for padding in paddings:
        if masks := [given[name] for name in padding.masks if given.get(name) is not None]:
            kept = _kept(padding, masks)
            if kept is None:
                return ()
            found.append(kept)
    return () if len({each.length for each in found}) < len(set(found)) else tuple(found)


def kept_among(kept: Sequence[Kept], num_keys: int, *, is_joint: bool) -> Kept | None:
    """What is kept of the text that is these keys, or is among them."""
    for each in kept:
        if (is_joint and each.place != "alone" and each.length < num_keys) or (
            not is_joint and each.length == num_keys
        ):
            return each
    return None


def without(x: Tensor, ranges: Sequence[Range]) -> Tensor:
    """B H S D keys or values at these positions, laid out as B S H D like those of models."""
    return take(x.transpose(1, 2), 1, ranges).transpose(1, 2)


def _kept(padding: Padding, masks: Sequence[Any]) -> Kept | None:
    seen = [_looked_at(mask) for mask in masks]
    if not seen or None in seen:
        return None
    each = [one for one in seen if one is not None]
    if len({len(one.counts) for one in each}) > 1:
        return None
    length = sum(one.length for one in each)
    counts = [sum(row) for row in zip(*(one.counts for one in each), strict=True)]
    # The model puts the valid tokens of several texts before the rest of them; those of one stay where they are.
    ends = counts if len(each) > 1 else each[0].ends
    if not min(counts):
        return None
    hides = len(set(ends)) > 1 or counts != list(ends)
    count = min(length, -(-max(ends) // BUCKET) * BUCKET) if hides else max(ends)
    return None if hides and count == length else Kept(padding.place, length, count, hides)


def _looked_at(mask: Any) -> _Seen | None:
    """None of what is no mask of B texts whose numbers could be read here."""
    if type(mask) is not Tensor or mask.ndim != 2 or not mask.numel() or mask.is_meta or not _is_wanted(mask.device):
        return None
    if mask.is_cuda and torch.cuda.is_current_stream_capturing():
        return None  # what is replayed may be given another text
    version = None if mask.is_inference() else mask._version
    known = _read.get(mask)
    if known is None or version is None or known[0] != version:
        shown = mask.detach().to("cpu").bool()
        places = torch.arange(1, mask.shape[1] + 1)
        ends = (shown * places).amax(1)
        known = version, _Seen(mask.shape[1], tuple(shown.sum(1).tolist()), tuple(ends.tolist()))
        _read[mask] = known
    return known[1]


def _is_wanted(device: torch.device) -> bool:
    wanted = _wanted.get()
    return device.type != "cpu" if wanted is None else wanted
