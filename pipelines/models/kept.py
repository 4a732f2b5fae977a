"""What was made of a small file, kept while the file stays as it is: every stage asks for the same few configs.

A file that was written or replaced since is another one: it has another inode, size or time of change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

MOST_FILES = 256
MOST_BYTES = 64 << 10
"""Of a file; what is made of a larger one is not kept."""
YOUNG_NS = 2_000_000_000
"""Clocks of file systems tick as rarely as every two seconds: a file changed so shortly before it was read may be
changed once more without another time."""

T = TypeVar("T")
Mark = tuple[int, int, int, int, int]


class Kept(Generic[T]):
    """`make` of a path, called again once the file there has changed. What it gives is shared, and not to be changed.

    It is told of nothing but the file: what it gives must depend on nothing else that may change.
    """

    def __init__(self, make: Callable[[Path], T]) -> None:
        self._make = make
        self._made: dict[Path, tuple[Mark, T]] = {}

    def __call__(self, path: Path) -> T:
        """Raises what `make` raises, which is asked again next time."""
        mark = _mark_of(path)  # before it is read: a change in between is seen next time
        known = self._made.get(path)
        if mark is not None and known is not None and known[0] == mark:
            return known[1]
        made = self._make(path)
        if mark is not None and mark[2] <= MOST_BYTES and time.time_ns() - max(mark[:2]) > YOUNG_NS:
            if len(self._made) >= MOST_FILES:
                self._made.clear()
            self._made[path] = mark, made
        return made


def _mark_of(path: Path) -> Mark | None:
    """Times of change in nanoseconds, size and place of a file; None where it cannot be looked at."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
