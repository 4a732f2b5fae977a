"""What Ctrl-C and SIGTERM do: the first asks, the next one ends the process at once, and none shows a traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ..files.atomic import remove_temporaries

CANCELLED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interrupts(cancel: threading.Event) -> Iterator[None]:
    """The first asks a run to end at its next step, the second ends the process.

    This thread must not `wait` for the event: it would hold the lock that the handler, in the same thread, needs.
    """

    def ask(signum: int, frame: object) -> None:
        if cancel.is_set():
            end_at_once()
        cancel.set()
        _say("\nstopping at the next step; Ctrl-C again to stop at once")

    handlers = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def as_program(command: Callable[[], int]) -> int:
    """The command's exit code, for a process that is nothing but that; its signals stay ours until it is gone."""
    guard = _Guard()
    try:
        try:
            return command()
        finally:
            # Python would tell of a signal that comes now by a traceback from wherever it is, as in a join
            guard.is_last = True
    except KeyboardInterrupt:  # in the lines around the command, which itself takes care of it
        return CANCELLED


class _Guard:
    """The handler of both signals, from now on."""

    def __init__(self) -> None:
        self.is_last = False
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._lost
        for number in SIGNALS:
            signal.signal(number, self)

    def __call__(self, signum: int, frame: object) -> None:
        if self.is_last:
            end_at_once()
        self.is_last = True
        raise KeyboardInterrupt  # so that the command closes its pools

    def _lost(self, unraisable: Any) -> None:
        """Raised in a callback of Python's own, from where it reaches nobody but this hook."""
        if unraisable.exc_type is KeyboardInterrupt:
            end_at_once()
        self._hook(unraisable)


def end_at_once() -> NoReturn:
    """Threads in the middle of a step cannot be stopped in any other way."""
    remove_temporaries()
    _say("latentloom: stopped at once; nothing was left half-written")
    os._exit(CANCELLED)


def _say(text: str) -> None:
    """From a handler, which may have come in the middle of a print, and then may not print."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())
