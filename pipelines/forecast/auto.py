"""What is told of a denoise before it begins: the plan `auto`, what it takes, and how many groups share out a sweep.

What `auto` takes is chosen among plans that compute each number by the same sums, so that it changes no picture and
nobody need keep it. Of a machine that nobody measured no device stays idle; where its rates are assumed too, the rule
stands unless another plan is predicted to save a quarter. A group does whole runs of a sweep, so that what it gives is
what one group of as many devices gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from ...parallel.machine.folders import user_cache
from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Foreseen
from ...parallel.wording import worded
from ..components.memory import CONTEXT_BYTES
from ..costs.units import duration
from ..models.checks import compiles, why_not_compiled
from ..models.describe import card_of
from ..values import MARK, Model, Place
from .choice import AS_FAST, DOUBT, Candidate, graphs_told, replicas_of, spelt
from .forecast import forecast_at, rejected
from .known import Spot, machine_at, spot_of
from .memory import work_of
from .plans import auto_plan, why_whole
from .terms import ALONE, BY_HAND, Chosen, Wanted, num_steps_of, wanted_by

if TYPE_CHECKING:
    from ..requests import Denoise


def choose(model: Model, wanted: Wanted, *, now: Sequence[DeviceNow] | None = None) -> Chosen:
    """For the devices of the model's place, on this machine as it is `now` (see `spot_of`). Reads headers and configs
    only, once. Raises `ValueError` for a size that the model cannot paint.
    """
    is_compiled = compiles(model, has_step_cache=wanted.has_step_cache)
    found = _ruled(model, wanted)
    if found is None:
        # a short prompt counts as one of the model's own length, so that few prompts change the plan
        wanted = replace(wanted, text_length=max(wanted.text_length, card_of(model).text_length))
        found = _chosen(
            _working(model, has_step_cache=wanted.has_step_cache),
            wanted,
            spot_of(model.place.devices, now),
            model.place.replicas,
        )
    if is_compiled or not model.place.compiles:
        return replace(found, is_compiled=is_compiled)
    why_eager = why_not_compiled(model, has_step_cache=wanted.has_step_cache)
    return replace(found, why=worded("{}; not compiled, because {}", found.why, why_eager))


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


def foreseen_for(
    request: Denoise,
    plan: ParallelPlan,
    *,
    is_guided: bool,
    why: str = "",
    rejected: Sequence[tuple[str, float, str]] = (),
) -> Foreseen | None:
    """Of the run around this denoise, by this plan on its model's devices; None where that cannot be predicted: the
    machines of a cluster are not known here, some transformers are no rows of blocks, and what a step cache skips
    depends on the picture.
    """
    from ..costs.ran import kept
    from .history import corrected, setting_of

    model, wanted = request.model, wanted_by(request, is_guided=is_guided)
    place = model.place
    if place.cluster or plan.cfg > 1 + is_guided or request.step_cache != "none":
        return None
    wanted = replace(wanted, steps=num_steps_of(request))
    try:
        answer = forecast_at(model, wanted, spot_of(place.devices or (model.device,)), place.replicas)
    except ValueError:
        return None
    found, machine = answer.by(plan, replicas=place.replicas), answer.machine
    run = found.run
    graphs = graphs_told(model, machine, plan, steps=run.steps)
    foreseen = Foreseen(
        plan=str(plan),
        why="; ".join(filter(None, (why or (BY_HAND if place.devices else ALONE), graphs))),
        machine=machine.title,
        is_measured=machine.is_measured,
        is_assumed=machine.is_assumed,
        steps=run.steps,
        step_s=run.steps_s / max(1, run.steps),
        text_s=run.text_s,
        decode_s=run.decode_s,
        load_s=run.load_s,
        num_bytes=found.num_bytes,
        context_bytes=0 if machine.kind == "cpu" else CONTEXT_BYTES,
        rejected=rejected,
    )
    tokens = wanted.text_length or card_of(model).text_length
    setting = setting_of(model, answer.canvas, machine, text_tokens=tokens)
    return corrected(foreseen, setting, kept(user_cache()))


def decoders_for(model: Model, wanted: Wanted, plan: ParallelPlan, *, now: Sequence[DeviceNow] | None = None) -> int:
    """How many of the plan's ranks decode together what it denoised: all where one alone has no room, else one. `now`
    as of `spot_of`.
    """
    place = model.place
    if plan.num_ranks == 1 or not model.family:
        return 1
    if place.cluster:  # whose machines' memory nobody knows: all that can
        return work_of(model, canvas=wanted.canvas(model), text_length=0).decoders(plan)
    try:
        answer = forecast_at(model, wanted, spot_of(place.devices, now), place.replicas)
    except ValueError:
        return 1
    return answer.by(plan, replicas=place.replicas).decoders


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """`replicas` groups of equal size, and why."""

    replicas: int
    seconds: float
    """Of all runs, by prediction."""
    plan: str
    """What a group does of the first run that was asked for."""
    why: str

    def at(self, place: Place) -> Place:
        """The place in so many groups; devices that are left over do nothing."""
        return _grouped(place, self.replicas)


def shared_out(
    asked: Sequence[tuple[Model, Wanted]],
    place: Place,
    num_runs: int,
    *,
    is_warm: bool = False,
    now: Sequence[DeviceNow] | None = None,
) -> Sharing | None:
    """For denoises that stand for all of the sweep; `is_warm`: the place's own groups may have loaded the model, others
    would have to. None where there is nothing to choose: one device or run, machines
    of a cluster, or where no number of groups fits. Raises `ValueError` where no time can be predicted.
    """
    if min(len(place.devices), num_runs) < 2 or place.cluster or not asked:
        return None
    is_assumed = False
    options: dict[int, list[Candidate]] = {}
    for groups in replicas_of(len(place.devices), num_runs):
        spot = spot_of(_grouped(place, groups).devices, now)
        found = [forecast_at(_working(model, has_step_cache=False), wanted, spot, groups) for model, wanted in asked]
        known = [each.chosen for each in found if each.chosen is not None]
        is_assumed = found[0].machine.is_assumed
        if len(known) == len(found):
            options[groups] = known
    if not options:
        return None
    seconds = {groups: _all_s(found, -(-num_runs // groups)) for groups, found in options.items()}
    if is_warm:
        seconds = {n: each + (n != place.replicas) * options[n][0].run.load_s for n, each in seconds.items()}
    chosen = fewest(seconds, is_assumed=is_assumed)
    return Sharing(
        replicas=chosen,
        seconds=seconds[chosen],
        plan=f"{options[chosen][0].plan}{MARK * place.compiles}",
        why=_why(seconds, chosen, options[chosen][0].plan, num_runs, len(place.devices), is_assumed=is_assumed),
    )


def _grouped(place: Place, groups: int) -> Place:
    most = len(place.devices) // groups * groups
    return Place(devices=place.devices[:most], plan=place.plan, replicas=groups, cluster=place.cluster)


def _working(model: Model, *, has_step_cache: bool) -> Model:
    """As it works by the place's plan."""
    return replace(model, engine="inductor") if compiles(model, has_step_cache=has_step_cache) else model


def _all_s(found: Sequence[Candidate], num_rounds: int) -> float:
    """So many runs of a group one after the other, as long as the mean of those that were looked at."""
    return fmean(each.run.seconds + (num_rounds - 1) * each.run.next_s for each in found)


def fewest(seconds: dict[int, float], *, is_assumed: bool) -> int:
    """The fewest groups of those that are about as fast; by assumed rates one, unless others save a quarter."""
    least = min(seconds.values())
    if is_assumed and 1 in seconds and least > (1 - DOUBT) * seconds[1]:
        return 1
    return min(groups for groups, each in seconds.items() if each <= (1 + AS_FAST) * least)


def _why(
    seconds: dict[int, float], chosen: int, plan: ParallelPlan, num_runs: int, num_devices: int, *, is_assumed: bool
) -> str:
    """How long each number of groups takes, where more than assumptions tell."""
    size = num_devices // chosen
    each = f"{size} device{'s' if size > 1 else ''}"
    took = "end soonest, by what is assumed of such machines," if is_assumed else f"take {duration(seconds[chosen])}"
    told = f"{num_runs} runs are predicted to {took} by "
    told += f"{chosen} groups of {each}" if chosen > 1 else f"one group of {each}"
    others = [f"{duration(seconds[n])} by {n}" for n in sorted(seconds, key=lambda n: seconds[n]) if n != chosen][:3]
    not_taken = f", not {', '.join(others)}" if others and not is_assumed else ""
    if size * chosen < num_devices:
        not_taken += f"; {num_devices - size * chosen} of {num_devices} devices are left over"
    return f"{told} ({plan} in each){not_taken}" if size > 1 else told + not_taken
