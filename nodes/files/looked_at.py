"""What was found of a file, kept for as long as it is the same file: a page asks at each edit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEPT = 512


def why_unfit(check: Callable[..., None], path: Path, *more: Any) -> str:
    """The sentence by which `check(path, *more)` refuses a file with `ValueError`, "" where it takes it. It is asked
    once for a file of this time and size."""
    try:
        found = path.stat()
    except OSError:
        return _why(check, path, more)
    return _kept(check, path, (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev), more)


@functools.lru_cache(maxsize=KEPT)
def _kept(check: Callable[..., None], path: Path, mark: tuple[int, ...], more: tuple[Any, ...]) -> str:
    del mark  # a part of the key
    return _why(check, path, more)


def _why(check: Callable[..., None], path: Path, more: tuple[Any, ...]) -> str:
    try:
        check(path, *more)
    except ValueError as error:
        return str(error)
    return ""
