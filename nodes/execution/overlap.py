"""Runs a little into each other: the next one prepares, and the last one finishes, while the steps of one are going.

With ranks the process that runs a workflow only waits: the next run's text can be encoded, and the last one's picture
decoded, while the steps of the present one are going. Without, the next run starts when the device is free, and what is
left of the last one, such as packing and writing its pictures, is done beside it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from ...pipelines.values import Place
from .events import Event, Sink
from .watch import Token

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
    Whoever stops taking results ends the rest.
    """
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
                future = threads.submit(attempt, _telling(sink, under_way, starts), token)
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


def _telling(sink: Sink, under_way: threading.Event, starts: NextOn) -> Sink:
    def tell(event: Event) -> None:
        if starts(event):
            under_way.set()
        sink(event)

    return tell
