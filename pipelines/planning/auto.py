"""The plan `auto` of a denoise: the planner's for its devices; the rule's where no time can be predicted.

It is chosen among plans that compute each number by the same sums, so that it changes no picture and nobody need keep
it. Of a machine that nobody measured no device stays idle; where its rates are assumed too, the rule stands unless
another plan is predicted to save a quarter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ..models.checks import why_not_compiled
from ..models.describe import card_of
from ..values import MARK, Model
from .choice import spelt
from .forecast import forecast_at, rejected
from .known import Spot, machine_at, spot_of
from .plans import auto_plan, why_whole
from .terms import Chosen, Wanted


def choose(model: Model, wanted: Wanted, *, now: Sequence[DeviceNow] | None = None) -> Chosen:
    """For the devices of the model's place, on this machine as it is `now` (see `spot_of`). Reads headers and configs
    only, once. Raises `ValueError` for a size that the model cannot paint.
    """
    why_eager = why_not_compiled(model, has_step_cache=wanted.has_step_cache) if model.place.compiles else ""
    is_compiled = model.place.compiles and not why_eager
    found = _ruled(model, wanted)
    if found is None:
        # a short prompt counts as one of the model's own length, so that few prompts change the plan
        wanted = replace(wanted, text_length=max(wanted.text_length, card_of(model).text_length))
        working = replace(model, engine="inductor") if is_compiled else model
        found = _chosen(working, wanted, spot_of(model.place.devices, now), model.place.replicas)
    why = worded("{}; not compiled, because {}", found.why, why_eager) if why_eager else found.why
    return replace(found, is_compiled=is_compiled, why=why)


def _ruled(model: Model, wanted: Wanted) -> Chosen | None:
    """The rule's plan, where no time can be predicted or there is no other; else None."""
    place = model.place
    size = place.group_size
    if size == 1 and place.replicas > 1:
        return Chosen(
            plan=ParallelPlan(), why=worded("plan auto is one process: {} groups work on separate runs", place.replicas)
        )
    if size <= 1 or why_whole(Path(model.folder)):
        return _by_rule(model, size, wanted)
    if not model.family:
        return _by_rule(model, size, wanted, "how long a pipeline's steps take is not known")
    return _by_rule(model, size, wanted, "the machines of a cluster are not measured") if place.cluster else None


def _by_rule(model: Model, num_devices: int, wanted: Wanted, reason: str = "") -> Chosen:
    plan, why = auto_plan(model, num_devices, is_guided=wanted.is_guided)
    return Chosen(plan=plan, why=worded("{}; by rule, because {}", why, reason) if reason else why)


def _chosen(model: Model, wanted: Wanted, spot: Spot, groups: int) -> Chosen:
    """What the forecast takes, and how long a step takes by others, corrected by what runs here took."""
    try:
        answer = forecast_at(model, wanted, spot, groups)
    except ValueError as error:
        return _by_rule(model, machine_at(spot).num_devices // groups, wanted, str(error))
    taken, there = answer.taken, answer.machine.num_devices
    devices = "one device" if there == 1 else f"{there} devices"
    where = devices if taken.num_devices == there else f"{taken.num_devices} of {devices}"
    each = "" if taken.replicas == 1 else f" in each of {taken.replicas} groups"
    why = answer.why or "no plan fits, and it lacks least"
    compiled = MARK * model.place.compiles * model.is_compiled
    told = worded("plan auto is {}{}{} on {}: {}", taken.plan, compiled, each, where, why)
    return Chosen(
        plan=taken.plan,
        why=worded("{}; reckoned for {}", told, answer.machine.title),
        rejected=tuple((spelt(other), other.run.step.seconds, words) for other, words in rejected(answer, taken)),
    )
