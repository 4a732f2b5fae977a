"""One process at a time, by a lock on an open file, on Linux and macOS. The kernel ends the turn of one that dies."""

import time
from collections.abc import Callable

ASK_S = 0.05


def locked(descriptor: int, *, wait_s: float, go_on: Callable[[], object] = lambda: None) -> bool:
    """Whether the lock was got in time; `go_on` raises where nobody wants it any more. It ends with the descriptor."""
    import fcntl  # Windows has no such module

    end = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            go_on()
            if time.monotonic() > end:
                return False
            time.sleep(ASK_S)
