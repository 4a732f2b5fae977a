"""Texts and pictures that were encoded, kept in this process: what comes again is not encoded again.

They are known by all that they are made of: the model as it encodes, the texts, the bytes of the pictures. On the CPU,
within a budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from ..parallel.recent import Recent
from ..parallel.staging import in_host_memory
from .models.describe import card_of
from .values import Model, to_plain

BUDGET_BYTES = 256 << 20
"""A text takes some MiB, a picture about one, what a video is told of its first frame some tens."""
ENTRY_BYTES = 1024
"""What an entry costs besides its tensors, roughly."""


class Kept(Recent[Any]):
    """Plain data by key; whoever takes a value has a copy of his own."""

    def get(self, key: Hashable) -> Any | None:
        return _copied(super().get(key))

    def keep(self, key: str, plain: Any) -> None:
        """Of a view of a tensor only what is seen is kept, and nobody else's to change."""
        copy = _copied(plain)
        self.put(key, copy, {key: ENTRY_BYTES + sum(tensor.nbytes for tensor in _tensors(copy))})


KEPT = Kept(BUDGET_BYTES)


def key_of(model: Model, asked: Mapping[str, Any], *, keeper: str) -> str:
    """The key of what a model makes of plain data; `keeper` is whose it is, and nobody else finds it.

    How many devices there are, their plan and engine do not count: transformers alone are compiled.
    """
    kind = model.device.partition(":")[0] if model.place.devices else model.device
    unasked = dict.fromkeys(("place", "engine", "graphs"))
    alike = {**to_plain(model), **unasked, "device": kind, "card": repr(card_of(model))}
    return hashlib.sha256(repr((keeper, alike, _by_content(asked))).encode(errors="backslashreplace")).hexdigest()


def _by_content(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        return {key: _by_content(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_by_content(value) for value in plain]
    if not hasattr(plain, "untyped_storage"):
        return plain
    digest = hashlib.sha256()
    for piece in in_host_memory(plain):
        digest.update(piece)
    return str(plain.dtype), tuple(plain.shape), digest.hexdigest()


def _copied(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        return {key: _copied(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_copied(value) for value in plain]
    return plain.clone() if hasattr(plain, "untyped_storage") else plain


def _tensors(plain: Any) -> Iterator[Any]:
    if isinstance(plain, Mapping | list):
        for value in plain.values() if isinstance(plain, Mapping) else plain:
            yield from _tensors(value)
    elif hasattr(plain, "untyped_storage"):
        yield plain
