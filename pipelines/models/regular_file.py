"""The one gate to files that somebody else names: only a regular file is opened, so that nothing waits for a pipe."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from io import BufferedReader
from pathlib import Path


def sha256_of(path: Path) -> str:
    """In hexadecimal; reads the whole file. Raises `OSError` where it cannot, or it is no regular file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def open_regular(path: Path) -> BufferedReader:
    """The file, open for reading. Raises `OSError` for a missing one, and for whatever is no regular file."""
    check_regular(path)  # a device may do something when it is opened
    # Not to wait: a pipe may have taken the file's place by now. Regular files know no such waiting.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check(os.fstat(handle), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def check_regular(path: Path) -> os.stat_result:
    """What the system knows of a regular file; for readers that take a name only. Raises `OSError` for others."""
    status = path.stat()
    _check(status, path)
    return status


def _check(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
