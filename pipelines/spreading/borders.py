"""The step borders of a pipeline's run: after each step of its progress bars, or of its solver if it opens none.

A border is where `on_step` is called, and where a cancel takes effect, on all ranks or on none.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...parallel.collectives import highest
from ...parallel.errors import Cancelled
from ...parallel.process_groups import ballot

OnStep = Callable[[int, int], None]


class Borders:
    """Those of one run after the other: `begin` and `end` stand around each.

    Where `border` is given it is called in place of `on_step`, and in place of a vote on `cancel`: it raises on all
    ranks or on none by itself.
    """

    def __init__(
        self, num_ranks: int, *, on_step: OnStep | None, border: OnStep | None, step_ends: Callable[[], None]
    ) -> None:
        self._num_ranks, self._on_step, self._border, self._step_ends = num_ranks, on_step, border, step_ends
        self._wish = threading.Event()
        self._total = 0  # of the steps of all progress bars that the run has opened
        # Steps of solvers, in a run that has opened no progress bar; None in others, and between runs.
        self._num_solved: int | None = None

    def begin(self) -> None:
        self._wish.clear()
        self._total = self._num_solved = 0

    def end(self) -> None:
        self._num_solved = None

    def cancel(self) -> None:
        """From any thread, of any rank."""
        self._wish.set()

    def opened(self, bar: Any) -> Bar:
        """The progress bar that the run has opened, which tells of each step from now on."""
        self._num_solved = None
        before = self._total
        self._total += int(bar.total or 0)
        return Bar(bar, lambda done: self._cross(before + done, self._total))

    def solved(self, total: Callable[[], int]) -> None:
        """Collective: one of `total()` steps of the run's solver has ended; a run in segments takes them once more."""
        if self._num_solved is not None:
            self._num_solved += 1
            steps = max(1, total())
            self._cross(self._num_solved, steps * math.ceil(self._num_solved / steps))

    def _cross(self, done: int, total: int) -> None:
        """Collective: a step has ended. All ranks go on, or none."""
        self._step_ends()
        if self._border is not None:
            self._border(done, total)
            return
        # An error of one rank is held until the vote: the others would wait for it in the next step for ever.
        error: BaseException | None = None
        try:
            if self._on_step is not None:
                self._on_step(done, total)
        except BaseException as problem:
            error = problem
        wish = self._wish.is_set() or error is not None
        if self._num_ranks > 1:
            wish = bool(highest(int(wish), ballot()))
        if error is not None:
            raise error
        if wish:
            raise Cancelled


class Bar:
    """A pipeline's own progress bar, which tells of each step."""

    def __init__(self, bar: Any, step: Callable[[int], None]) -> None:
        self._bar, self._step, self._num_done = bar, step, 0

    def __iter__(self) -> Iterator[Any]:
        for each in self._bar:
            yield each
            self._num_done += 1
            self._step(self._num_done)

    def update(self, n: int = 1) -> None:
        self._bar.update(n)
        self._num_done += n
        self._step(self._num_done)

    def __enter__(self) -> Bar:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._bar.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bar, name)
