"""A duel: of two plans that are predicted to be about as fast the one that is: both are tried for a few steps, once.

A trial is the denoise itself, cancelled after a few steps. Both plans keep the same weights loaded and round alike, so
that whoever wins makes the same picture; the winner is kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from ...parallel.errors import Cancelled
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Preview, Progress
from ..costs.units import duration
from ..requests import Denoise
from .auto import KEPT, KeptChoice, keep_choice, read_choice
from .choice import WITHIN
from .terms import Chosen, Contest, num_steps_of

LEAST_STEPS = 8
"""Of a denoise that is worth trials. A cancelled one may do three more than it has told of."""
NUM_TOLD, NUM_TIMED = 4, 2
"""Steps that a trial tells of, and how many of them, the last, are timed. What warms up is in the time of the second,
too: on an accelerator a step is told of once the one before is done."""

Paint = Callable[[Denoise, Progress], object]

_one = threading.Lock()
"""Held by a duel: two at a time would slow each other."""


def winner(choice: Chosen, request: Denoise, paint: Paint, progress: Progress) -> Chosen:
    """The choice without its contest: decided before, or now, as far as this denoise can. Raises what `paint` does."""
    contest = choice.contest
    if contest is None:
        return choice
    kept = read_choice(contest.path)
    if kept is not None and kept.is_measured >= contest.is_measured and kept.plan in (choice.plan, contest.rival):
        return _taken(choice, kept.plan, KEPT)
    if num_steps_of(request) < LEAST_STEPS or request.step_cache != "none":
        return _keep(_taken(choice, choice.plan), contest, request)
    if not _one.acquire(blocking=False):
        return _taken(choice, choice.plan)
    try:
        # the choice comes last: it stays spread by its plan where it wins
        took = {plan: _step_s(request.resolved(plan=plan), paint, progress) for plan in (contest.rival, choice.plan)}
    finally:
        _one.release()
    first, second = sorted((choice.plan, contest.rival), key=lambda plan: took[plan])
    why = (
        f"of two that were predicted within {WITHIN:.0%}, it took {duration(took[first])} a step "
        f"and {second} {duration(took[second])}"
    )
    return _keep(_taken(choice, first, why), contest, request)


def _taken(choice: Chosen, plan: ParallelPlan, why: str = "") -> Chosen:
    """What was said of other plans holds beside the predicted one alone."""
    return replace(
        choice,
        plan=plan,
        why=f"plan auto is {plan}: {why}" if why else choice.why,
        rejected=choice.rejected if plan == choice.plan else (),
        contest=None,
    )


def _keep(choice: Chosen, contest: Contest, request: Denoise) -> Chosen:
    keep_choice(contest.path, KeptChoice(plan=choice.plan, is_measured=contest.is_measured), request.model)
    return choice


def _step_s(request: Denoise, paint: Paint, progress: Progress) -> float:
    trial = Trial(progress, str(request.plan))
    try:
        paint(request, trial)
    except Cancelled:
        if not trial.is_over:
            raise
    assert trial.is_over, f"a denoise of {num_steps_of(request)} steps told of {len(trial.times)}"
    return (trial.times[-1] - trial.times[-1 - NUM_TIMED]) / NUM_TIMED


class Trial(Progress):
    """Times steps, cancels after a few, and tells of nothing but what is loaded and that a plan is tried."""

    def __init__(self, progress: Progress, plan: str) -> None:
        self.owner, self.keeper = progress.owner, progress.keeper
        self.times: list[float] = []
        """When each step was told of."""
        self._progress = progress
        self._plan = plan

    @property
    def is_over(self) -> bool:
        return len(self.times) >= NUM_TOLD

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.times.clear()
        self._progress.phase(text if is_loading else f"trying {self._plan}", is_loading=is_loading)

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        self.check()
        self.times.append(time.perf_counter())
        if self.is_over:
            raise Cancelled

    def check(self) -> None:
        self._progress.check()
