"""Watching a run: its clock, its events, and the token that ends it.

A *token* is anything that can say whether to end. A *sink* is who is told; one that fails does not end the run.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from ...parallel.errors import Cancelled
from ...parallel.progress import Preview, Progress, RankWork
from .events import Event, Kind, Sink

logger = logging.getLogger("latentloom")

TRUSTED_STEPS = 2
"""Steps to be timed, after the one that warms up, before anything is said of the rest: one alone may be a hiccup."""


class Token(Protocol):
    """A `threading.Event`, or anything that can say whether the user wants the run to end."""

    def is_set(self) -> bool: ...


class Watch:
    """The run's clock, its event sink and its cancel token."""

    def __init__(self, sink: Sink, cancel: Token, previews: bool, *, keeper: str = "") -> None:
        self.run = uuid.uuid4().hex[:12]
        self.previews = previews
        self.keeper = keeper
        self.interrupted = False
        self._sink = sink
        self._sink_failed = False
        self._cancel = cancel
        self._start = time.perf_counter()
        self._lock = threading.Lock()

    def seconds(self) -> float:
        return time.perf_counter() - self._start

    def is_cancelled(self) -> bool:
        return self.interrupted or self._cancel.is_set()

    def tell(self, kind: Kind, node: str = "", **fields: Any) -> None:
        with self._lock:  # events of overlapping nodes come in the order of their times
            try:
                self._sink(Event(kind=kind, run=self.run, node=node, time_s=self.seconds(), **fields))
            except Exception as error:
                if not self._sink_failed:
                    logger.warning("a watcher of run %s failed on %s (%s); the run goes on", self.run, kind, error)
                self._sink_failed = True


class NodeProgress(Progress):
    """The step border of one node."""

    def __init__(self, node: str, watch: Watch) -> None:
        self.owner = watch.run
        self.keeper = watch.keeper
        self.wants_previews = watch.previews
        self.plan = ""
        self.ranks: tuple[RankWork, ...] = ()
        self._node = node
        self._watch = watch
        self._first: tuple[int, float] | None = None
        """The first step told of, and when: loading and compiling are before it."""
        self._last = time.perf_counter()
        """When the last phase or step was told of."""

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.check()
        self._first = None
        self._last = time.perf_counter()
        self._watch.tell("phase", self._node, message=text, is_loading=is_loading)

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        self.check()
        seconds, left_s = self._pace(done, total)
        self._watch.tell("progress", self._node, done=done, total=total, seconds=seconds, left_s=left_s)
        if preview is None or not self._watch.previews:
            return
        try:
            picture = preview()
        except Exception:
            logger.warning("no preview of %s at step %d", self._node, done, exc_info=True)
            return
        self._watch.tell("preview", self._node, done=done, total=total, preview=picture)

    def check(self) -> None:
        if self._watch.is_cancelled():
            raise Cancelled

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        self.plan, self.ranks = plan or self.plan, tuple(ranks)
        self._watch.tell("spread", self._node, message=self.plan, ranks=self.ranks)

    def _pace(self, done: int, total: int) -> tuple[float, float | None]:
        """Seconds of this step, and of all that are left where enough steps tell and some are left."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        if self._first is None:
            self._first = (done, now)
        first, start = self._first
        is_known = done - first >= TRUSTED_STEPS and done < total
        return seconds, (now - start) / (done - first) * (total - done) if is_known else None
