"""The hash of a file's content."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .regular_file import open_regular


def sha256_of(path: Path) -> str:
    """In hexadecimal; reads the whole file. Raises `OSError` where it cannot, or it is no regular file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
