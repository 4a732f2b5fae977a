"""The memory cache: results by key, the least recently used dropped when their bytes exceed the budget.

A result's key is made of everything that it depends on, so a hit is the result. Owners do not see what others keep.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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


@dataclass(frozen=True)
class _CachedResult:
    value: Any
    files: Mapping[str, str]
    storages: Mapping[tuple[str, int], int]
    own_bytes: int


class MemoryCache:
    """Lives as long as the process that runs workflows. Threads may share it."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._entries: OrderedDict[str, _CachedResult] = OrderedDict()
        self._holders: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Any | None:
        with self._lock:
            if (entry := self._entries.get(key)) is None:
                return None
            self._entries.move_to_end(key)
        if is_intact(entry.files):
            return entry.value
        self.drop(key)
        return None

    def put(self, key: str, value: Any) -> None:
        """Keep a result; one that is larger than the whole budget is not kept."""
        text_bytes = len(value) if isinstance(value, str) else 0
        entry = _CachedResult(value, stamps(value), dict(storages(value)), ENTRY_BYTES + text_bytes)
        if entry.own_bytes + sum(entry.storages.values()) > self.budget_bytes:
            return
        with self._lock:
            self._remove(key)
            self._entries[key] = entry
            self.used_bytes += entry.own_bytes
            for storage, size in entry.storages.items():
                self.used_bytes += 0 if self._holders[storage] else size
                self._holders[storage] += 1
            while self.used_bytes > self.budget_bytes:
                self._remove(next(iter(self._entries)))

    def drop(self, key: str) -> None:
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        with self._lock:
            for key in list(self._entries):
                self._remove(key)

    def _remove(self, key: str) -> None:
        if (entry := self._entries.pop(key, None)) is None:
            return
        self.used_bytes -= entry.own_bytes
        for storage, size in entry.storages.items():
            self._holders[storage] -= 1
            if not self._holders[storage]:
                del self._holders[storage]
                self.used_bytes -= size
