"""Watching a run: its clock, its events, and the token that ends it.

A *token* is anything that can say whether to end. A *sink* is who is told; one that fails does not end the run.
"""

import dataclasses
import logging
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, get_args

from ...parallel.errors import Cancelled
from ...parallel.machine.now import is_busy
from ...parallel.progress import Foreseen, Preview, Progress, RankWork
from ...pipelines.costs.ran import Took, after, before
from .events import Ends, Event, Kind, Sink
from .outlook import Outlook
from .records import NodeRecord

logger = logging.getLogger("latentloom")

ENDS: tuple[Kind, ...] = get_args(Ends)
# Events after which something else is left to do than before.
TELL_LEFT: tuple[Kind, ...] = ("started", "phase", "progress", "foreseen", *ENDS)


class Token(Protocol):
    """A `threading.Event`, or anything that can say whether the user wants the run to end."""

    def is_set(self) -> bool: ...


class Watch:
    """The run's clock, its event sink and its cancel token."""

    def __init__(self, sink: Sink, cancel: Token, previews: bool, *, keeper: str = "") -> None:
        self.run = uuid.uuid4().hex[:12]
        self.previews = previews
        self.keeper = keeper
        self.outlook = Outlook()
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
            if kind == "started":
                self.outlook.began(node)
            elif kind in ENDS:
                self.outlook.ended(node)
            if node and kind in TELL_LEFT:
                fields["run_left_s"] = self.outlook.left_s()
                fields["left_s"] = None if kind in ENDS else self.outlook.node_left_s(node)
            try:
                self._sink(Event(kind=kind, run=self.run, node=node, time_s=self.seconds(), **fields))
            except Exception as error:
                if not self._sink_failed:
                    logger.warning("a watcher of run %s failed on %s (%s); the run goes on", self.run, kind, error)
                self._sink_failed = True

    def tell_took(self, records: Mapping[str, NodeRecord], *, is_kept: bool) -> dict[str, NodeRecord]:
        """Tell what became of each prediction, whose error later ones learn from where it `is_kept`; the records of
        these denoises with what they took."""
        found: dict[str, NodeRecord] = {}
        for name, record in records.items():
            if record.foreseen is None or record.state != "ok":
                continue
            took = self._took(name, records)
            found[name] = dataclasses.replace(record, took=took)
            words = after(record.foreseen, took, is_kept=is_kept)
            logger.info("%s: %s", name, words)
            self.tell("took", name, message=words, foreseen=record.foreseen, took=took)
        return found

    def _took(self, name: str, records: Mapping[str, NodeRecord]) -> Took:
        pace, encoders = self.outlook.pace(name), self.outlook.beside(name, "text")
        own, texts = records[name], [records[other] for other in encoders]
        decoded = [records[other] for other in self.outlook.beside(name, "decoding")]
        # what follows loading takes many times as long
        is_warm = not any(self.outlook.pace(other).has_loaded for other in encoders)
        return Took(
            steps=pace.done,
            step_s=pace.measured_s,
            steps_s=_warm_s(own) or 0.0,
            text_s=_sum_of(map(_warm_s, texts)) if is_warm else None,
            decode_s=_sum_of(map(_warm_s, decoded)),
            num_bytes=max(map(_held_bytes, (own, *texts, *decoded))),
            is_busy=is_busy(len(own.ranks)),
        )


def _warm_s(record: NodeRecord) -> float | None:
    """Of the stage that ranks, or this process, ran; loading is before it. None where none was run to its end."""
    return max((rank.seconds for rank in record.ranks), default=None) if record.state == "ok" else None


def _held_bytes(record: NodeRecord) -> int:
    """Of the rank that held most beyond what an idle one has; 0 where it was not measured."""
    return max((max(0, rank.peak_memory_bytes - rank.idle_bytes) for rank in record.ranks), default=0)


def _sum_of(seconds: Iterable[float | None]) -> float | None:
    """None where there is none, or one is not known."""
    found = list(seconds)
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None


class NodeProgress(Progress):
    """The step border of one node."""

    def __init__(self, node: str, watch: Watch) -> None:
        self.owner = watch.run
        self.keeper = watch.keeper
        self.wants_previews = watch.previews
        self.plan = ""
        self.ranks: tuple[RankWork, ...] = ()
        self.pace = watch.outlook.pace(node)
        self._node = node
        self._watch = watch

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.check()
        self.pace.phase(is_loading=is_loading)
        self._watch.tell("phase", self._node, message=text, is_loading=is_loading)

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        self.check()
        seconds = self.pace.step(done, total)
        self._watch.tell("progress", self._node, done=done, total=total, seconds=seconds)
        if preview is None or not self._watch.previews:
            return
        start = time.perf_counter()
        try:
            picture = preview()
        except Exception:
            logger.warning("no preview of %s at step %d", self._node, done, exc_info=True)
            return
        finally:
            self.pace.paused(time.perf_counter() - start)
        self._watch.tell("preview", self._node, done=done, total=total, preview=picture)

    def check(self) -> None:
        if self._watch.is_cancelled():
            raise Cancelled

    def foresee(self, foreseen: Foreseen) -> None:
        self.pace.foreseen = foreseen
        words = before(foreseen)
        logger.info("%s: %s", self._node, words)
        self._watch.tell("foreseen", self._node, message=words, foreseen=foreseen)

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        self.plan, self.ranks = self.plan or plan, tuple(ranks)  # who chose it has told all of it
        self._watch.tell("spread", self._node, message=self.plan, ranks=self.ranks)
