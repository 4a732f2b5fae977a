"""Files that a user names: opened, or one sentence that says what was wanted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Literal

from ...parallel.wording import worded
from ...pipelines.models.regular_file import open_regular

Kind = Literal["picture", "sound", "video"]


def opened_file(path: Path, kind: Kind, *, name: str = "") -> BinaryIO:
    """The file, open for reading; `name` is what the sentence calls it. Raises `ValueError`."""
    try:
        return open_regular(path)
    except OSError as error:
        raise ValueError(
            worded("{} cannot be opened ({}); give the path of a {} file", name or path, error.strerror, kind)
        ) from None


def num_bytes_of(path: Path, kind: Kind, *, name: str = "") -> int:
    """How long the file is, before anything of it is read. Raises `ValueError`."""
    with opened_file(path, kind, name=name) as file:
        return os.fstat(file.fileno()).st_size
