"""The latest answer to a question that takes long: shared by all who ask of the same within a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Threads share it. Who asks while an answer is made waits for it, also who wants a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[object, float, T] | None = None
        """Of what, since when, and the answer."""

    def of(self, what: object, make: Callable[[], T], *, fresh_s: float) -> T:
        """What was begun at most so long ago, or while this waited; else it is made now."""
        oldest = time.monotonic() - fresh_s
        with self._lock:
            if self._last is None or self._last[0] != what or self._last[1] < oldest:
                began = time.monotonic()
                self._last = what, began, make()
            return self._last[2]

    def last(self, what: object) -> T | None:
        """However long ago it was made."""
        last = self._last
        return last[2] if last is not None and last[0] == what else None
