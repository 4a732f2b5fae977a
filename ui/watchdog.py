"""The watchdog: a server whose event loop has not turned for a minute of processor time ends, and says where it hangs.

A timer of the kernel's counts what this process computes, in all of its threads, and each turn of the loop winds it
anew. Who is stopped, asleep or starved computes nothing. When it runs out, the stacks of all threads are written, for
which nobody needs the interpreter, and the signal ends the process. The kernel then ends worker and ranks, and the runs
under way count as ones that cost a server.
"""

import asyncio
import contextlib
import faulthandler
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

LIMIT_S = 60.0
TURN_S = 1.0


@contextlib.contextmanager
def watched(
    loop: asyncio.AbstractEventLoop, *, limit_s: float = LIMIT_S, wind: Callable[[float], object] | None = None
) -> Iterator[None]:
    """While this is entered the loop has to turn. `wind` sets the timer, 0 stops it; where the system has none, nothing
    is watched."""
    if wind is None:
        if not hasattr(signal, "setitimer") or sys.stderr is None:
            yield
            return
        faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)  # by default it ends the process
        wind = partial(signal.setitimer, signal.ITIMER_PROF)
    lock = threading.Lock()
    is_on = True

    def turn() -> None:
        with lock:
            if is_on:
                wind(limit_s)
                loop.call_later(TURN_S, turn)

    loop.call_soon_threadsafe(turn)
    try:
        yield
    finally:
        with lock:
            is_on = False
            wind(0)
