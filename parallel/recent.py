"""What was used of late, within a budget of bytes: the least recently used goes first."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Values by key; threads may share it.

    Each is put with the parts of memory that it holds, by their marks, and their bytes. A part that several hold counts
    once, until the last of them goes.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[T, Mapping[Hashable, int]]] = OrderedDict()
        self._holders: Counter[Hashable] = Counter()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Hashable, value: T, parts: Mapping[Hashable, int]) -> None:
        """One that is larger than the whole budget is not kept, and nothing goes for it."""
        if sum(parts.values()) > self.budget_bytes:
            return
        with self._lock:
            self._remove(key)
            self._entries[key] = value, parts
            self.used_bytes += sum(size for part, size in parts.items() if not self._holders[part])
            self._holders.update(parts.keys())
            while self.used_bytes > self.budget_bytes:  # what shares all of its memory with others frees nothing
                self._remove(next(iter(self._entries)))

    def drop(self, key: Hashable) -> None:
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        with self._lock:
            for key in list(self._entries):
                self._remove(key)

    def _remove(self, key: Hashable) -> None:
        _, parts = self._entries.pop(key, (None, {}))
        for part, size in parts.items():
            self._holders[part] -= 1
            if not self._holders[part]:
                del self._holders[part]
                self.used_bytes -= size
