"""The plan of one denoise: the one that somebody named, that is settled already, or `auto`'s."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ..place import named_plan
from ..values import Model
from .auto import EXACT, FREE, Chosen, Leeway, choose
from .compiling import Way
from .wanted import Wanted

BY_HAND = "it was written by hand"
ALONE = "one process, because neither the workflow nor the run names devices"
Measures = Callable[[Sequence[str]], object]
"""Measures these devices if nobody has yet."""

logger = logging.getLogger("latentloom")


def choice_for(
    model: Model,
    wanted: Wanted,
    leeway: Leeway = FREE,
    *,
    measures: Measures | None = None,
    wish: Way | None = None,
    num_runs: int = 1,
) -> Chosen:
    """The plan that the place names; else what `leeway` has settled; else the best for its devices, or `wish`, kept for
    later; for so many runs, where it may compile. GPUs that nobody measured are measured first by `measures`. Raises
    `ValueError`.
    """
    place = model.place
    if (named := named_plan(place)) is not None:
        return Chosen(plan=named, why=BY_HAND)
    if leeway.choice is not None:
        is_taken = leeway.is_guided == wanted.is_guided and leeway.choice.plan.num_ranks <= place.group_size
        if is_taken and not (leeway.choice.is_compiled and wanted.has_step_cache):
            return leeway.choice
        leeway = EXACT
    if measures is not None and not place.cluster:
        measures(place.devices)
    return choose(model, wanted, may_round=leeway.may_round, keeps=True, wish=wish, num_runs=num_runs)


def told(choice: Chosen, model: Model) -> Chosen:
    """The choice, whose reason is logged unless the user named the plan."""
    if choice.why != BY_HAND:
        is_less = choice.plan.num_ranks < model.place.group_size
        logger.log(logging.WARNING if is_less else logging.INFO, "%s", choice.why)
    return choice
