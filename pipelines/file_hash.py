"""The hash of a file's content."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256_of(path: Path) -> str:
    """In hexadecimal; reads the whole file. Raises `OSError` where it cannot."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
