"""No process outlives the one it works for: what a child does so that the kernel ends it with its parent, on Linux."""

import contextlib
import ctypes
import os
import select
import signal
import threading

PR_SET_PDEATHSIG = 1
# Connections of a process that dies are closed before it is dead, a while before where a driver holds it up.
CLOSED_S = 5.0


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that forked it ends. `parent` is the pid it was forked by."""
    _ask_at_parents_end(signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)


def wake_with_parent() -> None:
    """Have the kernel resume this process, should it be stopped, when the thread that started it ends."""
    # So that it sees what has happened, and ends its children; a process that is not stopped notices nothing.
    _ask_at_parents_end(signal.SIGCONT)


def _ask_at_parents_end(number: int) -> None:
    # A child of this process has to ask for itself: the kernel forgets at a fork, and keeps it over an exec.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)


def has_ended(pidfd: int, *, wait_s: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(1000 * wait_s))


def tell_after(host_pidfd: int, pidfd: int, number: int) -> None:
    """Once the host is dead, signal a process that may be stopped and whose own parent died before, so that the kernel
    does not wake it. For those whose connection to the host has closed; a host that lives is waited for in vain."""
    # A chain without an end: where all who could wake one another are stopped, they stay.
    if pidfd >= 0 and has_ended(host_pidfd, wait_s=CLOSED_S):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)


class DeathWatch:
    """A thread that ends this process when another one dies: for the time in which nobody polls its pidfd."""

    # A death signal would not do: it comes when the *thread* that started us ends, and hosts start us from threads.

    def __init__(self, pidfd: int) -> None:
        self._pidfd = pidfd
        self._stopped, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._watch, name="latentloom guard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No thread is left afterwards, so that the process may fork."""
        os.close(self._stop)
        self._thread.join()
        os.close(self._stopped)

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        poll.register(self._stopped, select.POLLHUP)  # once the other end is closed
        for fd, _ in poll.poll():
            if fd == self._pidfd:
                os._exit(1)
