"""A pool's folder: logs and rendezvous files, locked by the host that lives, and removed by the next one if it died.

Where a rank failed, the logs stay for some days.
"""

import contextlib
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

from ..machine.folders import sweep_shared

logger = logging.getLogger("latentloom")
PREFIX = "latentloom-pool-"
FAILED = "failed"  # the file that says that the logs beside it are worth reading
KEEP_S = 3 * 24 * 3600.0


class PoolFolder:
    """A new one, for this user only. Raises `OSError`."""

    # That its host lives is known by a lock, which the kernel drops with the host, whatever kills it. A process number
    # would not do: containers that share a folder for temporary files do not share those.

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
        """Once no process writes there. Logs of ranks that failed stay."""
        if (self.path / FAILED).exists():
            for each in self.path.iterdir():
                if each.name != FAILED and each.suffix != ".log":
                    each.unlink(missing_ok=True)
            logger.warning("ranks have failed; their logs are kept for a while in %s", self.path)
        else:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        sweep_shared()  # ranks end at once, and give nothing back


def keep_logs(folder: Path) -> None:
    """A rank of this pool's has failed: keep the logs when the pool is closed."""
    with contextlib.suppress(OSError):  # the disk is full, say, as the log will
        (folder / FAILED).touch()


def _sweep(parent: Path) -> None:
    """Remove what hosts that were killed have left."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody's, or gone meanwhile
            lock = _locked(folder)
            if not _is_kept(folder):
                shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _is_kept(folder: Path) -> bool:
    try:
        return time.time() - (folder / FAILED).stat().st_mtime < KEEP_S
    except FileNotFoundError:
        return False


def _locked(folder: Path) -> int:
    import fcntl  # where there are no pools there is no such module

    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock
