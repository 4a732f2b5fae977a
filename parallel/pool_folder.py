"""A pool's folder: logs and rendezvous files, locked by the host that lives, and removed by the next one if it died."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "latentloom-pool-"


class PoolFolder:
    """A new one, for this user only. Raises `OSError`.

    The kernel drops the lock with the host, whatever kills it. A process number would not do: containers that share a
    folder for temporary files do not share those.
    """

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        new = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        try:
            self._lock = _locked(new)
            self.path = new.rename(new.with_name(new.name[1:]))  # so that none that is swept is not locked yet
        except BaseException:
            new.rmdir()
            raise

    def remove(self) -> None:
        """Once no process writes there."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(parent: Path) -> None:
    """Remove what hosts that were killed have left."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody's, or gone meanwhile
            lock = _locked(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(folder: Path) -> int:
    import fcntl  # where there are no pools there is no such module

    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock
