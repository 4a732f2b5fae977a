"""Deadlines: a command or a function that may hang for ever, on a broken driver or a dead file server, say.

Both are left behind when their time is over: a thread cannot be ended, and a process that waits inside a driver does
not die. Only a process that others replace may end itself instead (`or_end`).
"""

import contextlib
import faulthandler
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")
CHECK_S = 0.2  # between questions whether to go on waiting
KILL_S = 1.0  # for a killed command to go; one that waits inside a driver stays, and is left behind
PIECES = 10  # a process that was stopped for a while has then waited for one of so many pieces, not for all of its time


def output_of(command: Sequence[str], *, timeout_s: float) -> str:
    """What a command prints. Raises OSError if there is no such command, it fails, or it is too late (TimeoutError)."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except BaseException as error:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=KILL_S)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TimeoutError(f"it did not end in {timeout_s:g} s") from None
        raise
    if process.returncode:
        last = (errors.strip() or output.strip() or "it said nothing").splitlines()[-1]
        raise ChildProcessError(f"it ended with code {process.returncode}: {last[:300]}")
    return output


def within(function: Callable[[], T], *, timeout_s: float, check: Callable[[], None] = lambda: None) -> T:
    """The function's answer, or TimeoutError; a function that is late goes on in a thread that nothing waits for.

    What `check` raises, which is asked now and again, ends the wait too.
    """
    answer = Future[T]()

    def run() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:
            answer.set_exception(error)

    # Not of a pool of threads: those are waited for when Python ends, by whoever gave this one up.
    threading.Thread(target=run, name="latentloom deadline", daemon=True).start()
    end = time.monotonic() + timeout_s
    while not wait([answer], timeout=max(0.0, min(CHECK_S, end - time.monotonic()))).done:
        check()
        if time.monotonic() >= end:
            raise TimeoutError(f"no answer in {timeout_s:g} s")
    return answer.result()


@contextlib.contextmanager
def or_end(what: str, *, limit_s: float) -> Iterator[None]:
    """End this process where the body takes longer, which nothing can interrupt: the stacks of all threads, and last
    what took so long, are in what it writes its errors to. For ranks, which the pool replaces."""
    done = threading.Event()
    arguments = (done, what, limit_s)
    threading.Thread(target=_end_unless, args=arguments, name=f"watch: {what}", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _end_unless(done: threading.Event, what: str, limit_s: float) -> None:
    for _ in range(PIECES):  # by pieces: one long wait would be over at once where the machine slept
        if done.wait(limit_s / PIECES):
            return
    with contextlib.suppress(Exception):  # whatever can be said, it ends
        faulthandler.dump_traceback(all_threads=True)
        print(f"it hung: {what} took over {limit_s:g} s", file=sys.stderr, flush=True)
    os._exit(1)  # no `exit`: what is called at an exit waits for the threads, one of which hangs
