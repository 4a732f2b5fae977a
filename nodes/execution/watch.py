"""Watching a run: its clock, its events, and the token that ends it; and runs that overlap, by what each tells.

A *token* is anything that can say whether to end. A *sink* is who is told; one that fails does not end the run.
"""

import dataclasses
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, get_args

from ...parallel.errors import Cancelled
from ...parallel.machine.now import is_busy
from ...parallel.progress import Foreseen, Preview, Progress, RankWork
from ...pipelines.costs.ran import Took, after, before
from ...pipelines.values import Place
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

    def __init__(self, sink: Sink, cancel: Token, previews: bool, *, keeper: str = "", run: str = "") -> None:
        self.run = run or uuid.uuid4().hex[:12]
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
        works = [rank for record in (own, *texts, *decoded) for rank in record.ranks]
        # what follows loading takes many times as long
        is_warm = not any(self.outlook.pace(other).has_loaded for other in encoders)
        return Took(
            steps=pace.done,
            step_s=pace.measured_s,
            steps_s=_warm_s(own) or 0.0,
            text_s=_sum_of(map(_warm_s, texts)) if is_warm else None,
            decode_s=_sum_of(map(_warm_s, decoded)),
            # of the rank that held most beyond what an idle one has; 0 where it was not measured
            num_bytes=max([0, *(rank.peak_memory_bytes - rank.idle_bytes for rank in works)]),
            is_busy=is_busy(len(own.ranks)),
        )


def _warm_s(record: NodeRecord) -> float | None:
    """Of the stage that ranks, or this process, ran; loading is before it. None where none was run to its end."""
    return max((rank.seconds for rank in record.ranks), default=None) if record.state == "ok" else None


def _sum_of(seconds: Iterable[float | None]) -> float | None:
    """None where there is none, or one is not known."""
    found = list(seconds)
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None


class NodeProgress(Progress):
    """The step border of one node."""

    def __init__(self, node: str, watch: Watch) -> None:
        self.owner = watch.run
        self.node = node
        self.keeper = watch.keeper
        self.wants_previews = watch.previews
        self.plan = ""
        self.ranks: tuple[RankWork, ...] = ()
        self.pace = watch.outlook.pace(node)
        self.recoveries: tuple[str, ...] = ()
        self._watch = watch

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.check()
        self.pace.phase(is_loading=is_loading)
        self._watch.tell("phase", self.node, message=text, is_loading=is_loading)

    def again(self, text: str) -> None:
        self.check()
        self.recoveries = (*self.recoveries, text)
        self.pace.phase(is_loading=True)
        self._watch.tell("phase", self.node, message=text, is_loading=True, is_again=True)

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        self.check()
        seconds = self.pace.step(done, total)
        self._watch.tell("progress", self.node, done=done, total=total, seconds=seconds)
        if preview is None or not self._watch.previews:
            return
        start = time.perf_counter()
        try:
            picture = preview()
        except Exception:
            logger.warning("no preview of %s at step %d", self.node, done, exc_info=True)
            return
        finally:
            self.pace.paused(time.perf_counter() - start)
        self._watch.tell("preview", self.node, done=done, total=total, preview=picture)

    def check(self) -> None:
        if self._watch.is_cancelled():
            raise Cancelled

    def foresee(self, foreseen: Foreseen) -> None:
        self.pace.foreseen = foreseen
        words = before(foreseen)
        logger.info("%s: %s", self.node, words)
        self._watch.tell("foreseen", self.node, message=words, foreseen=foreseen)

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        self.plan, self.ranks = self.plan or plan, tuple(ranks)  # who chose it has told all of it
        self._watch.tell("spread", self.node, message=self.plan, ranks=self.ranks)


# ---- Runs a little into each other: the next one prepares, and the last one finishes, while one has its steps.
#
# With ranks the process that runs a workflow only waits: the next run's text can be encoded, and the last one's picture
# decoded, while the steps of the present one are going. Without, the next run starts when the device is free, and what
# is left of the last one, such as packing and writing its pictures, is done beside it.

# How often a wait is left: Python hears a signal between two lines only, so one that comes just as the main thread
# begins to wait would not be heard until the wait ends.
POLL_S = 0.2

R = TypeVar("R")
Attempt = Callable[[Sink, Token], R]  # one run, told where its events go and what ends it
NextOn = Callable[[Event], bool]  # whether with this event of a run the next one starts


@dataclass(frozen=True)
class EitherToken:
    """Set when one of two is."""

    first: Token | None
    second: Token

    def is_set(self) -> bool:
        return self.second.is_set() or (self.first is not None and self.first.is_set())


# Runs that prepare or finish beside those whose steps are going: to pack a picture or a video takes longer than a few
# steps do. Each holds its pixels.
BESIDE = 3


def width_of(place: Place) -> int:
    """Runs under way at a time: one for each group of ranks, or for this process, and `BESIDE`."""
    if not place.devices:
        return 1 + BESIDE
    from ...pipelines.placement import num_groups

    return num_groups(place) + BESIDE


def steps_began(event: Event) -> bool:
    return event.kind == "progress"


def next_on(place: Place) -> NextOn:
    """With which event of a run the next one starts: ranks take its work among their own, this process takes turns."""
    return steps_began if place.devices else lambda event: event.frees_device


def overlapped(
    attempts: Iterable[Attempt[R]], *, width: int, sink: Sink, cancel: Token | None, starts: NextOn = steps_began
) -> Iterator[R]:
    """The results in order, each before another run starts if it is there by then, at most `width` under way at a time.
    Whoever stops taking results ends the rest."""
    ended = threading.Event()
    token = EitherToken(cancel, ended)
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(width, "run") as threads:
        try:
            # A run waits until the one before it is under way or over: late enough that what they share is made once,
            # early enough that what comes before the steps of one and after those of another is done beside them.
            for attempt in attempts:
                while waiting and (len(waiting) >= width or waiting[0].done()):
                    yield _result(waiting.popleft())
                under_way = threading.Event()
                future = threads.submit(attempt, partial(_tell, sink, under_way, starts), token)
                future.add_done_callback(lambda _, under_way=under_way: under_way.set())
                waiting.append(future)
                if width > 1:
                    while not under_way.wait(POLL_S):
                        pass
            while waiting:
                yield _result(waiting.popleft())
        finally:
            ended.set()  # the pool waits for its threads when it is left


def _result(future: Future[R]) -> R:
    while not wait([future], POLL_S).done:
        pass
    return future.result()


def _tell(sink: Sink, under_way: threading.Event, starts: NextOn, event: Event) -> None:
    if starts(event):
        under_way.set()
    sink(event)
