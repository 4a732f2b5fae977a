"""The threads that take runs from the queue, each as soon as the one before lets the next one start.

So what runs share is made once, and one prepares or finishes beside another's steps, as `nodes/execution/watch.py`
does it.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from ...nodes.execution.events import Event
from ...nodes.execution.watch import BESIDE, NextOn, Token, steps_began
from ..errors import Conflict
from ..live.state import Outcome, RunRecord
from ..worker.work import WorkerLost, stopped
from .book import RunBook


class RunWorkers:
    """At most `width` runs are under way at a time, and beside one another only those that put the devices into as many
    `groups`: others would start ranks of their own on devices that are at work. Ends with `close`, or with the process.
    """

    def __init__(
        self,
        width: int,
        book: RunBook,
        execute: Callable[[RunRecord, Callable[[Event], None], Token], Outcome],
        *,
        starts: NextOn = steps_began,
        groups: Callable[[RunRecord], int] = lambda run: 1,
    ) -> None:
        self._book = book
        self._starts = starts
        self._execute = execute
        self._changed = threading.Condition()
        self._preparing: set[str] = set()  # runs under way that do not let the next one start yet
        self._under_way: list[int] = []  # the groups of each
        self._groups = groups
        self._is_held = False
        self._is_closing = False
        self._threads = [threading.Thread(target=self._work, name=f"run-{n}", daemon=True) for n in range(width)]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No run begins while this is entered. Raises `Conflict` while one is under way."""
        with self._changed:
            if self._under_way or self._is_held:
                raise Conflict("the machine is at work, so that what is measured now would be wrong; wait for it")
            self._is_held = True
        try:
            yield
        finally:
            with self._changed:
                self._is_held = False
                self._changed.notify_all()

    def drain(self, timeout_s: float) -> None:
        """No run begins any more; waits so long for those under way. One whose worker dies is left to a new server."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._under_way, timeout_s)

    def close(self, timeout_s: float) -> None:
        """End the runs under way at their next step; a new server begins them again. Waits so long for all of them."""
        self.drain(0.0)
        self._book.stop_all()
        end = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            run, cancel = taken
            groups = self._groups(run)
            try:
                outcome = self._execute(run, lambda event, id=run.id: self._tell(id, event), cancel)
            except WorkerLost as ended:
                outcome = ended
            except Exception as error:  # a run must never end the thread that makes the next one
                outcome = stopped(run.id, error)
            self._has_begun(run.id)
            # a server that ends cancels what is under way: such a run is left to the next server, as its record says,
            # unless its user cancelled it
            is_over = isinstance(outcome, Outcome) and outcome.state != "cancelled"
            is_left = self._is_closing and not is_over and not self._book.get(run.user, run.id).is_ending
            if isinstance(outcome, WorkerLost) and not is_left:
                self._book.begin_again(run.id, is_blamed=outcome.is_blamed)
            elif isinstance(outcome, Outcome) and not is_left:
                self._book.end(run.id, outcome)
            with self._changed:
                self._under_way.remove(groups)
                self._changed.notify_all()

    def _take(self) -> tuple[RunRecord, threading.Event] | None:
        with self._changed:
            while not self._is_closing:
                if not self._is_held and not self._preparing and (taken := self._book.begin_next(self._fits)):
                    self._preparing.add(taken[0].id)
                    self._under_way.append(self._groups(taken[0]))
                    return taken
                self._changed.wait()
            return None

    def _fits(self, run: RunRecord) -> bool:
        """Whether it can be made beside those that are under way."""
        groups = self._groups(run)
        return all(each == groups for each in self._under_way) and len(self._under_way) < groups + BESIDE

    def _tell(self, id: str, event: Event) -> None:
        if self._starts(event):
            self._has_begun(id)
        self._book.tell(id, event)

    def _has_begun(self, id: str) -> None:
        with self._changed:
            if id in self._preparing:
                self._preparing.discard(id)
                self._changed.notify_all()
