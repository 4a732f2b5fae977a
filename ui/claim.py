"""A data folder belongs to one server at a time; the system gives it free when that server ends, however it ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO


def claim(folder: Path) -> IO[bytes]:
    """Close what is returned to give the folder free. Raises `ValueError` when another server has it."""
    try:
        file = (folder / "server.lock").open("ab")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(
            f"{folder} cannot be written ({reason}); give a folder that you may write to, with --data-dir"
        ) from None
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ValueError(
            f"another server works with {folder}; end it, or give this one a folder of its own with --data-dir"
        ) from None
    return file
