"""Small JSON files that somebody else wrote, read with limits so that a bad one is one clear sentence."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

MAX_BYTES = 4 << 20
MAX_DEPTH = 32


def read_bytes(path: Path, *, what: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a regular file. Raises `ValueError` for anything else: folders, pipes, devices, too large."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{what} {path} is not a file; copy the model again")
        if status.st_size > max_bytes:
            raise ValueError(f"{what} {path} has {status.st_size} bytes, more than {max_bytes} allowed; check the file")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{what} {path} cannot be read ({error.strerror}); copy the model again") from None


def read_object(path: Path, *, what: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """A JSON object; `what` names the file in errors. NaN, infinity and deep nesting are refused."""
    return parse_object(read_bytes(path, what=what, max_bytes=max_bytes), what=f"{what} {path}")


def parse_object(data: bytes, *, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise ValueError(f"{what} is not valid JSON ({reason}); copy the model again") from None
    if not isinstance(value, dict):
        raise ValueError(f"{what} holds a {type(value).__name__} instead of an object; copy the model again")
    if _depth(value) > MAX_DEPTH:
        raise ValueError(f"{what} is nested deeper than {MAX_DEPTH} levels; check the file")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            item
            for node in level
            if isinstance(node, dict | list)
            for item in (node.values() if isinstance(node, dict) else node)
        ]
    return depth
