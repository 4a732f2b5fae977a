"""Write a file so that it is there whole or not at all: temporary name in the same folder, fsync, rename."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...parallel.errors import BadInput
from ...parallel.machine.folders import private_folder
from ...parallel.wording import worded

LIVE: set[Path] = set()  # what a process that ends without unwinding removes, see `remove_temporaries`
RANDOM = 8  # characters that `mkstemp` puts into a name
# The process's file mode mask, read once, since reading it sets it. mkstemp ignores it and makes private files.
_UMASK = os.umask(0o022)
os.umask(_UMASK)


class NotWritten(BadInput):
    """A file or folder could not be written, because of what the system says in `error`."""

    code = "not-written"

    def __init__(self, target: Path, error: OSError) -> None:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            words = worded(
                "the disk of {} is full, so {} was not written; free some space and run again",
                target.parent,
                target.name,
            )
        elif error.errno == errno.ENAMETOOLONG:
            self.code = BadInput.code
            words = worded("the name {!r}... is too long for a file; give a shorter one", target.name[:40])
        else:
            reason = (error.strerror or str(error)).lower()
            words = worded(
                "{} cannot be written ({}); make it writable, or choose another output folder", target, reason
            )
        super().__init__(words)


@contextlib.contextmanager
def replacing(target: Path, *, is_private: bool = False) -> Iterator[Path]:
    """A temporary path to write to; it becomes `target` when the block ends well and vanishes when it does not.

    What is private no other account of the machine may read, nor look into the folders that are made for it.

    Raises `NotWritten` when the folder cannot be written or the disk is full.
    """
    try:
        if is_private:
            private_folder(target.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
        os.close(handle)
    except OSError as error:
        raise NotWritten(target, error) from error
    temporary = Path(name)
    LIVE.add(temporary)
    try:
        yield temporary
        sync(temporary)
        temporary.chmod(0o600 if is_private else 0o666 & ~_UMASK)
        temporary.replace(target)
        sync(target.parent)
    except OSError as error:
        raise NotWritten(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)
        LIVE.discard(temporary)


def check_place(target: Path) -> None:
    """Raises `NotWritten` where `replacing` would, as far as names and folders tell; nothing is made."""
    here = next(folder for folder in target.parents if os.path.lexists(folder))
    longest = os.pathconf(here, "PC_NAME_MAX") if here.is_dir() and hasattr(os, "pathconf") else 0
    names = [*target.relative_to(here).parts[:-1], f".{target.stem}-{'x' * RANDOM}{target.suffix}"]
    if longest and any(len(os.fsencode(name)) > longest for name in names):
        found = errno.ENAMETOOLONG
    elif not here.is_dir():
        found = errno.ENOTDIR
    elif target.is_dir():
        found = errno.EISDIR
    elif not os.access(here, os.W_OK | os.X_OK):
        found = errno.EACCES
    else:
        return
    raise NotWritten(target, OSError(found, os.strerror(found)))


def write_atomic(target: Path, data: bytes, *, is_private: bool = False) -> None:
    """`data` as the whole content of `target`; raises `NotWritten` as `replacing` does."""
    with replacing(target, is_private=is_private) as temporary:
        temporary.write_bytes(data)


def remove_temporaries() -> None:
    """Remove what is there only for now: for a process that ends without unwinding."""
    for temporary in list(LIVE):
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Bring a file or folder to the disk itself."""
    if path.is_dir():
        if os.name == "nt":  # Windows cannot open a folder
            return
        handle = os.open(path, os.O_RDONLY)
    else:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
