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

# Where rows hide different numbers of keys, and a mask stays, as many are kept as is a multiple of this: few prompts
# then have a layout, and index tensors, of their own.
BUCKET = 16
# Forwards in a row whose masks are new. Whoever makes masks anew for each step would wait for the device each time:
# from then on only those are known that were read before.
MOST_READ = 8

_wanted: contextvars.ContextVar[bool | None] = contextvars.ContextVar("latentloom_padding", default=None)
_decided: contextvars.ContextVar[tuple[KeptKeys, ...] | None] = contextvars.ContextVar("latentloom_kept", default=None)


@contextlib.contextmanager
def leaving_out(is_wanted: bool) -> Iterator[None]:
    """In this thread padding is left out on a CPU too, or not even on a GPU."""
    token = _wanted.set(is_wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


@contextlib.contextmanager
def keeping(kept: tuple[KeptKeys, ...]) -> Iterator[None]:
    """In this thread this is kept of the texts of each forward, whatever its masks: who calls it has looked at them."""
    token = _decided.set(kept)
    try:
        yield
    finally:
        _decided.reset(token)


@dataclass(frozen=True)
class KeptKeys:
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
class _ShownByRows:
    """Of each row of a mask, how many tokens it shows, and the place behind the last of them."""

    length: int
    counts: tuple[int, ...]
    ends: tuple[int, ...]


class Texts:
    """What a transformer's masks say of its texts, each read once."""

    def __init__(self, paddings: Sequence[Padding]) -> None:
        self.paddings = tuple(paddings)
        self._names = {name for padding in paddings for name in padding.masks}
        self._read = WeakTensorKeyDictionary()
        self._num_new = 0  # forwards in a row

    def are_given(self, given: Mapping[str, Any]) -> bool:
        """Whether the transformer's arguments have a mask whose padding is left out, if there is any."""
        masks = (given.get(name) for name in self._names)
        return any(isinstance(mask, Tensor) and _is_wanted(mask.device) for mask in masks)

    def kept_in(self, given: Mapping[str, Any]) -> tuple[KeptKeys, ...]:
        """What is kept of the texts; nothing said of a text is: all, with the mask.

        Waits for the device that a mask is on, when it is met for the first time.
        """
        if (decided := _decided.get()) is not None:
            return decided
        masks = {name: given[name] for name in self._names if given.get(name) is not None}
        if not masks or not all(map(_is_readable, masks.values())):
            return ()
        if any(name.endswith("attention_mask") and x is not None and name not in masks for name, x in given.items()):
            return ()  # a mask that we do not know: of other tokens, and as it may happen of as many
        seen = {name: self._rows_of(mask) for name, mask in masks.items()}
        is_new = None in seen.values()
        self._num_new = self._num_new + 1 if is_new else 0
        if is_new and self._num_new > MOST_READ:
            return ()
        read = {name: self._look_at(masks[name]) if one is None else one for name, one in seen.items()}
        asked = [(each, [read[name] for name in each.masks if name in read]) for each in self.paddings]
        found = [_keys_kept(padding, texts) for padding, texts in asked if texts]
        kept = [each for each in found if each is not None]
        # All of them or none: of two texts of one length nobody could tell, in an attention call, which one is meant.
        is_plain = len(kept) == len(found) and len({each.length for each in kept}) == len(set(kept))
        return tuple(kept) if is_plain else ()

    def _rows_of(self, mask: Tensor) -> _ShownByRows | None:
        """None if it was never read, or was written to since."""
        found: tuple[int, _ShownByRows] | None = self._read.get(mask, None)
        return found[1] if found is not None and found[0] == mask._version else None

    def _look_at(self, mask: Tensor) -> _ShownByRows:
        shown = mask.detach().to("cpu").bool()
        ends = (shown * torch.arange(1, mask.shape[1] + 1)).amax(1)
        seen = _ShownByRows(mask.shape[1], tuple(shown.sum(1).tolist()), tuple(ends.tolist()))
        self._read[mask] = mask._version, seen
        return seen


def kept_among(kept: Sequence[KeptKeys], num_keys: int, *, is_joint: bool) -> KeptKeys | None:
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


def _keys_kept(padding: Padding, texts: Sequence[_ShownByRows]) -> KeptKeys | None:
    if len({len(text.counts) for text in texts}) > 1:
        return None
    length = sum(text.length for text in texts)
    counts = tuple(sum(each) for each in zip(*(text.counts for text in texts), strict=True))
    # The model puts what several texts show before the rest of them; the tokens of one stay where they are.
    ends = counts if len(texts) > 1 else texts[0].ends
    if not min(counts):
        return None
    hides = len(set(ends)) > 1 or counts != ends
    count = min(length, -(-max(ends) // BUCKET) * BUCKET) if hides else max(ends)
    return None if hides and count == length else KeptKeys(padding.place, length, count, hides)


def _is_readable(mask: Any) -> bool:
    """Whether it is a mask of B texts whose numbers can be had here and now."""
    if type(mask) is not Tensor or mask.ndim != 2 or not mask.numel() or mask.is_meta or mask.is_inference():
        return False
    if mask.is_cuda and torch.cuda.is_current_stream_capturing():
        return False  # what is replayed may be given another text, and a capture may not wait
    return _is_wanted(mask.device)


def _is_wanted(device: torch.device) -> bool:
    wanted = _wanted.get()
    return device.type != "cpu" if wanted is None else wanted
