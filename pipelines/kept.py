"""Texts and pictures that were encoded, kept in this process: what comes again is not encoded again.

They are known by all that they are made of: the model as it encodes, the texts, the bytes of the pictures. On the CPU,
within a budget.
"""

import hashlib
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from ..parallel.recent import Recent
from ..parallel.staging import in_host_memory
from .models.describe import card_of
from .values import Model, to_plain

# A text takes some MiB, a picture about one, what a video is told of its first frame some tens.
BUDGET_BYTES = 256 << 20
ENTRY_BYTES = 1024  # what an entry costs besides its tensors, roughly


class Kept(Recent[Any]):
    """Plain data by key; whoever takes a value has a copy of his own."""

    def get(self, key: Hashable) -> Any | None:
        return _mapped(super().get(key), lambda tensor: tensor.clone())

    def keep(self, key: str, plain: Any) -> None:
        """Of a view of a tensor only what is seen is kept, and nobody else's to change."""
        sizes: list[int] = []
        copy = _mapped(plain, lambda tensor: tensor.clone())
        _mapped(copy, lambda tensor: sizes.append(tensor.nbytes))
        self.put(key, copy, {key: ENTRY_BYTES + sum(sizes)})


KEPT = Kept(BUDGET_BYTES)


def key_of(model: Model, asked: Mapping[str, Any], *, keeper: str) -> str:
    """The key of what a model makes of plain data; `keeper` is whose it is, and nobody else finds it.

    How many devices there are, their plan and engine do not count: transformers alone are compiled.
    """
    kind = model.device.partition(":")[0] if model.place.devices else model.device
    unasked = dict.fromkeys(("place", "engine", "graphs"))
    alike = {**to_plain(model), **unasked, "device": kind, "card": repr(card_of(model))}
    return hashlib.sha256(repr((keeper, alike, _mapped(asked, _digest))).encode(errors="backslashreplace")).hexdigest()


def _digest(tensor: Any) -> tuple[str, tuple[int, ...], str]:
    """What tells it from others."""
    digest = hashlib.sha256()
    for piece in in_host_memory(tensor):
        digest.update(piece)
    return str(tensor.dtype), tuple(tensor.shape), digest.hexdigest()


def _mapped(plain: Any, of_tensor: Callable[[Any], Any]) -> Any:
    """The same dicts and lists, anew, with what this makes of each tensor. Torch-free: a tensor is what has storage."""
    if isinstance(plain, Mapping):
        return {key: _mapped(value, of_tensor) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_mapped(value, of_tensor) for value in plain]
    return of_tensor(plain) if hasattr(plain, "untyped_storage") else plain
