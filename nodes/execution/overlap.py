"""Runs one after the other, or a little into each other: the next one prepares while the last one's steps are going.

With ranks the process that runs a workflow only waits: the next run's text can be encoded, and the last one's picture
decoded, while the steps of the present one are going.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ...pipelines.values import Place
from .events import Event, Sink
from .watch import Token

R = TypeVar("R")
Attempt = Callable[[Sink, Token], R]
"""One run, told where its events go and what ends it."""


class EitherToken:
    """Set when one of two is."""

    def __init__(self, first: Token | None, second: Token) -> None:
        self._tokens = (*(() if first is None else (first,)), second)

    def is_set(self) -> bool:
        return any(token.is_set() for token in self._tokens)


def width_of(place: Place) -> int:
    """Runs under way at a time: with ranks, one for each group of them, and one that prepares or finishes beside."""
    if not place.devices:
        return 1
    from ...pipelines.placement import num_groups

    return num_groups(place) + 1


def overlapped(attempts: Iterable[Attempt[R]], *, width: int, sink: Sink, cancel: Token | None) -> Iterator[R]:
    """The results in order, at most `width` runs under way at a time.

    A run starts when the steps of the one before have begun, so that what they share is made once, and what comes
    before the steps of one and after those of another happens beside them. Whoever stops taking results ends the rest.
    """
    ended = threading.Event()
    token = EitherToken(cancel, ended)
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(width, "run") as threads:
        try:
            for attempt in attempts:
                while len(waiting) >= width:
                    yield waiting.popleft().result()
                under_way = threading.Event()
                future = threads.submit(attempt, _telling(sink, under_way), token)
                future.add_done_callback(lambda _, under_way=under_way: under_way.set())
                waiting.append(future)
                if width > 1:
                    under_way.wait()
            while waiting:
                yield waiting.popleft().result()
        finally:
            ended.set()


def _telling(sink: Sink, under_way: threading.Event) -> Sink:
    def tell(event: Event) -> None:
        if event.kind == "progress":
            under_way.set()
        sink(event)

    return tell
