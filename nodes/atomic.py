"""Write a file so that it is there whole or not at all: temporary name in the same folder, fsync, rename."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary path to write to; it becomes `target` when the block ends well and vanishes when it does not.

    Raises `ValueError` in one sentence when the folder cannot be written or the disk is full.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
        os.close(handle)
    except OSError as error:
        raise ValueError(_sentence(target, error)) from None
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
        _sync(target.parent)
    except OSError as error:
        raise ValueError(_sentence(target, error)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(target: Path, data: bytes) -> None:
    """`data` as the whole content of `target`; raises `ValueError` as `replacing` does."""
    with replacing(target) as temporary:
        temporary.write_bytes(data)


def _sentence(target: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {target.parent} is full, so {target.name} was not written; free some space and run again"
    reason = error.strerror or str(error)
    return f"{target} cannot be written ({reason.lower()}); choose a folder that you may write to, with --out"


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The process's file mode mask; mkstemp ignores it and makes files nobody else can read."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
