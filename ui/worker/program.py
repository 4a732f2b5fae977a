"""What the worker does: runs in threads, told of a line at a time, gone with the server.

Started by `process.py`. It has torch, caches and pools; what it prints goes to the server's log.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import IO

from ...nodes.registry import open_doors
from ...parallel.errors import code_of
from ...parallel.machine import logs
from ...parallel.ranks.guard import die_with_parent
from ...pipelines import doors
from ...pipelines.pools import POOLS, rank_counts
from .wire import Ask, Counts, Line, Order, Start, read_order, written
from .work import Here, Tell, stopped

logger = logging.getLogger("latentloom")

PREVIEW_S = 1 / 13  # a page is told of changes twelve times a second at most
ALIVE_S = 1.0  # so often it says that it is alive: whoever holds the interpreter keeps it from that


def main(server: int) -> None:
    """Serve the process `server`, which has started this one."""
    if sys.platform == "linux":  # elsewhere the end of its input tells
        die_with_parent(server)
    orders, lines = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries and nodes print is no line
    logs.begin(os.environ)
    start = Start.model_validate_json(orders.readline())
    try:
        open_doors(start.doors["folder"])
        doors.follow(start.doors)
    except ValueError as error:
        lines.write(written(Line(error=str(error), code=code_of(error))))
        lines.flush()
        os._exit(1)
    Worker(Here(start.cache_dir), lines).serve(orders)
    POOLS.close()
    os._exit(0)


def thinned(tell: Tell, *, clock: Callable[[], float] = time.monotonic) -> Tell:
    """Leaves out previews that come closer than a page shows them, but for those of last steps."""
    last = float("-inf")

    def told(line: Line) -> None:
        nonlocal last
        if line.picture is not None and line.event is not None:
            now = clock()
            if now - last < PREVIEW_S and line.event.done < line.event.total:
                return
            last = now
        tell(line)

    return told


class Worker:
    """Makes what it is ordered, each run in a thread of its own, and tells of it in lines."""

    def __init__(self, work: Here, lines: IO[bytes]) -> None:
        self._work = work
        self._lines = lines
        self._telling = threading.Lock()
        self._cancels: dict[str, threading.Event] = {}  # of the runs under way

    def serve(self, orders: Iterable[bytes]) -> None:
        """Until there are no more orders."""
        threading.Thread(target=self._live, name="alive", daemon=True).start()
        for line in orders:
            order = read_order(line)
            if isinstance(order, Order):
                self._cancels[order.run] = cancel = threading.Event()
                threading.Thread(target=self._make, args=(order, cancel), name="run", daemon=True).start()
            elif isinstance(order, Ask):
                threading.Thread(target=self._answer, args=(order,), name="answer", daemon=True).start()
            elif order.cancel in self._cancels:
                self._cancels[order.cancel].set()

    def _make(self, order: Order, cancel: threading.Event) -> None:
        try:
            outcome = self._work.make(order, thinned(self._tell), cancel)
        except BaseException as error:  # whatever it is, the server waits for an end
            outcome = stopped(order.run, error)
        self._cancels.pop(order.run, None)
        try:
            self._tell(Line(run=order.run, outcome=outcome))
        except BaseException:  # the server would wait for ever
            logger.error("the end of run %s cannot be told, so the worker ends", order.run, exc_info=True)
            os._exit(1)

    def _answer(self, asked: Ask) -> None:
        try:
            is_loaded = asked.what == "loaded"
            found = [*map(asdict, self._work.loaded())] if is_loaded else self._work.measured().model_dump()
            line = Line(answer=asked.ask, value=found)
        except Exception as error:
            line = Line(answer=asked.ask, error=str(error), code=code_of(error))
        self._tell(line)

    def _live(self) -> None:
        while True:
            restarts, are_failing = rank_counts()
            self._tell(Line(counts=Counts(restarts=restarts, are_failing=are_failing)))
            time.sleep(ALIVE_S)

    def _tell(self, line: Line) -> None:
        data = written(line)
        try:
            with self._telling:
                self._lines.write(data)
                self._lines.flush()
        except OSError:  # the server is gone
            os._exit(1)
