"""A process at work: a folder is its own until it ends, however it ends; and what Ctrl-C and SIGTERM do to it.

The folder is claimed by a lock file that the process holds open, which the system gives free; it says who holds it.
"""

import contextlib
import errno
import logging
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from ...parallel.errors import BadInput
from ...parallel.machine.folders import private
from ..files.atomic import LIVE, NotWritten, remove_temporaries

logger = logging.getLogger("latentloom")

LOCK_FILE = ".latentloom.lock"
LOCKED = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}
# Windows locks bytes, and nobody else may read them: this one is beyond the text that says who holds the file.
FAR = 1 << 30
HOLDER_BYTES = 200


class InUse(BadInput):
    """Another process has it; `holder` says which."""

    code = "in-use"

    def __init__(self, text: str, *, holder: str) -> None:
        super().__init__(text)
        self.holder = holder


def claim(path: Path, *, is_private: bool = False) -> IO[bytes]:
    """Lock a file, made if it is not there; where it `is_private`, no other account may read it. Close what is returned
    to give it free. Raises `InUse`, or `OSError`."""
    file = open(path, "a+b", opener=private if is_private else None)  # noqa: SIM115 (the caller's to close)
    try:
        _lock(file)
    except OSError as error:
        if error.errno in LOCKED:
            holder = _holder(file)
            file.close()
            raise InUse(f"{path} is locked by {holder}", holder=holder) from None
        # the file system has no locks (NFS has: there one holds between machines); a run is worth more than the lock
        reason = error.strerror or str(error)
        logger.warning("%s cannot be locked (%s), so nothing keeps other processes out", path.parent, reason)
    with contextlib.suppress(OSError):  # the disk is full: it is held all the same
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}".encode())
        file.flush()
    return file


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder, made if it is not there, is this process's to write. Raises `InUse`, or `ValueError` where it cannot.

    Nothing stays behind in it, but for a file of a process that was killed, which holds nothing and is used again.
    """
    lock = folder / LOCK_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while not _is_there(lock, file := claim(lock)):  # it was opened just before its last holder removed it
            file.close()
    except InUse as error:
        raise InUse(
            f"{folder} is being written by {error.holder}; wait until that ends, or write elsewhere with --out",
            holder=error.holder,
        ) from None
    except OSError as error:
        raise NotWritten(folder, error) from error
    LIVE.add(lock)
    try:
        yield
    finally:
        LIVE.discard(lock)
        if os.name == "nt":  # which removes no file that is open
            file.close()
        with contextlib.suppress(OSError):
            lock.unlink()
        file.close()


def _is_there(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _holder(file: IO[bytes]) -> str:
    text = ""
    with contextlib.suppress(OSError):
        file.seek(0)
        text = file.read(HOLDER_BYTES).decode(errors="replace")
    return "".join(c for c in text if c.isprintable()) or "another process"


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        file.seek(FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---- What Ctrl-C and SIGTERM do: the first asks, the next one ends the process at once, and none shows a traceback.

CANCELLED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interrupts(
    cancel: threading.Event, finish: threading.Event | None = None, *, says: str = "stopping at the next step"
) -> Iterator[None]:
    """The first asks a run to end at its next step, the second ends the process. With `finish` one before them asks it
    to finish what it does.

    This thread must not `wait` for the event: it would hold the lock that the handler, in the same thread, needs.
    """

    def ask(signum: int, frame: object) -> None:
        if cancel.is_set():
            end_at_once()
        if finish is not None and not finish.is_set():
            finish.set()
            _say("\nfinishing what is under way; Ctrl-C again to stop at the next step")
            return
        cancel.set()
        _say(f"\n{says}; Ctrl-C again to stop at once")

    handlers = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def as_program(command: Callable[[], int]) -> int:
    """The command's exit code, for a process that is nothing but that; its signals stay ours until it is gone."""
    is_last, hook = False, sys.unraisablehook

    def end(signum: int, frame: object) -> None:
        nonlocal is_last
        if is_last:
            end_at_once()
        is_last = True
        raise KeyboardInterrupt  # so that the command closes its pools

    def lost(unraisable: Any) -> None:
        """Raised in a callback of Python's own, from where it reaches nobody but this hook."""
        if unraisable.exc_type is KeyboardInterrupt:
            end_at_once()
        hook(unraisable)

    sys.unraisablehook = lost
    for number in SIGNALS:
        signal.signal(number, end)
    try:
        try:
            return command()
        finally:
            # Python would tell of a signal that comes now by a traceback from wherever it is, as in a join
            is_last = True
    except KeyboardInterrupt:  # in the lines around the command, which itself takes care of it
        return CANCELLED


def end_at_once() -> NoReturn:
    """Threads in the middle of a step cannot be stopped in any other way."""
    remove_temporaries()
    _say("latentloom: stopped at once; nothing was left half-written")
    os._exit(CANCELLED)


def _say(text: str) -> None:
    """From a handler, which may have come in the middle of a print, and then may not print."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())
