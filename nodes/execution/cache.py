"""The memory cache: results by key, the least recently used dropped when their bytes exceed the budget.

A result's key is made of everything that it depends on, so a hit is the result. Owners do not see what others keep.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...parallel.recent import Recent
from ...pipelines.models.regular_file import sha256_of
from ..graph.spec import files_of

ENTRY_BYTES = 512
"""What an entry costs besides its tensors and strings, roughly."""


class Cache(Protocol):
    """Results by recipe key. A result that lists files is only there while they are unchanged."""

    def get(self, key: str) -> Any | None: ...

    def put(self, key: str, value: Any) -> None: ...


@dataclass(frozen=True)
class Share:
    """One owner's part of a cache: what others keep in it is not there, and takes as long to make as if it were not."""

    cache: Cache
    owner: str

    def get(self, key: str) -> Any | None:
        return self.cache.get(self._own(key))

    def put(self, key: str, value: Any) -> None:
        self.cache.put(self._own(key), value)

    def _own(self, key: str) -> str:
        return f"{self.owner}\0{key}"


def stamps(value: Any) -> dict[str, str]:
    """sha256 of each file that a `Saved` value lists."""
    return {name: sha256_of(Path(name)) for name in files_of(value)}


def is_intact(files: Mapping[str, str]) -> bool:
    """Whether every file is still there with the same content."""
    try:
        return all(sha256_of(Path(name)) == sha256 for name, sha256 in files.items())
    except OSError:
        return False


def storages(value: Any) -> Iterator[tuple[tuple[str, int], int]]:
    """(identity, bytes) of each tensor storage in a value; shared storages come once per tensor."""
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        yield (str(value.device), storage.data_ptr()), storage.nbytes()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from storages(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from storages(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from storages(item)


class MemoryCache:
    """Lives as long as the process that runs workflows. Threads may share it."""

    def __init__(self, budget_bytes: int) -> None:
        self._recent = Recent[tuple[Any, Mapping[str, str]]](budget_bytes)
        """With the sha256 of each file that a value lists."""

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def used_bytes(self) -> int:
        return self._recent.used_bytes

    def get(self, key: str) -> Any | None:
        if (found := self._recent.get(key)) is None:
            return None
        value, files = found
        if is_intact(files):
            return value
        self.drop(key)
        return None

    def put(self, key: str, value: Any) -> None:
        """Keep a result; one that is larger than the whole budget is not kept."""
        own_bytes = ENTRY_BYTES + (len(value) if isinstance(value, str) else 0)
        self._recent.put(key, (value, stamps(value)), {key: own_bytes, **dict(storages(value))})

    def drop(self, key: str) -> None:
        self._recent.drop(key)
