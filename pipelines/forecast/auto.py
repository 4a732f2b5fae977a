"""What is told of a denoise before it begins: the plan `auto`, what it takes, and how many groups share out a sweep.

What `auto` takes is chosen among plans that compute each number by the same sums, so that it changes no picture and
nobody need keep it. Of a machine that nobody measured no device stays idle; where its rates are assumed too, the rule
stands unless another plan is predicted to save a quarter. A group does whole runs of a sweep, so that what it gives is
what one group of as many devices gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from ...parallel.machine.folders import user_cache
from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Foreseen
from ...parallel.wording import worded
from ..components.memory import CONTEXT_BYTES
from ..costs.run import Run, duration
from ..models.describe import card_of, why_not_compiled
from ..values import MARK, Model, Place
from .choice import AS_FAST, DOUBT, graphs_told, replicas_of, spelt
from .forecast import Forecast, forecast_at, rejected, streaming
from .known import spot_of
from .memory import work_of
from .plans import (
    ALONE,
    BY_HAND,
    LEFT_OPEN,
    Wanted,
    at_work,
    auto_plan,
    num_steps_of,
    spelt_at_work,
    wanted_by,
    why_whole,
)

if TYPE_CHECKING:
    from ..requests import Denoise


def choose(model: Model, wanted: Wanted, *, now: Sequence[DeviceNow] | None = None) -> tuple[ParallelPlan, str]:
    """The plan for the devices of the model's place, on this machine as it is `now` (see `spot_of`), and why. Reads
    headers and configs only, once.
    """
    plan, why = _chosen(model, wanted, now)
    if model.place.compiles and (told := why_not_compiled(model, has_step_cache=wanted.has_step_cache)):
        why = worded("{}; not compiled, because {}", why, told)
    return plan, why


def _chosen(model: Model, wanted: Wanted, now: Sequence[DeviceNow] | None) -> tuple[ParallelPlan, str]:
    place, reason = model.place, ""
    if place.group_size == 1 and place.replicas > 1:
        return ParallelPlan(), worded("plan auto is one process: {} groups work on separate runs", place.replicas)
    if _has_choice(model):
        if not model.family:
            reason = "how long a pipeline's steps take is not known"
        elif place.cluster:
            reason = "the machines of a cluster are not measured"
        else:
            try:
                answer = _answer(model, wanted, now)
                taken, there, why = answer.taken, answer.machine.num_devices, answer.why
            except ValueError as error:
                reason = str(error)
            else:
                mark = MARK * answer.model.place.compiles * answer.model.is_compiled
                devices = "one device" if there == 1 else f"{there} devices"
                where = devices if taken.num_devices == there else f"{taken.num_devices} of {devices}"
                each = "" if taken.replicas == 1 else f" in each of {taken.replicas} groups"
                why = why or "no plan fits, and it lacks least"
                told = worded("plan auto is {}{}{} on {}: {}", taken.plan, mark, each, where, why)
                return taken.plan, worded("{}; reckoned for {}", told, answer.machine.title)
    plan, why = auto_plan(model, place.group_size, is_guided=wanted.is_guided)
    return plan, worded("{}; by rule, because {}", why, reason) if reason else why


def _has_choice(model: Model) -> bool:
    return model.place.group_size > 1 and not why_whole(Path(model.folder))


def _answer(model: Model, wanted: Wanted, now: Sequence[DeviceNow] | None = None) -> Forecast:
    # A short prompt counts as one of the model's own length, so that few prompts change the plan.
    wanted = replace(wanted, text_length=max(wanted.text_length, card_of(model).text_length))
    working = at_work(model, has_step_cache=wanted.has_step_cache)
    return forecast_at(working, wanted, spot_of(model.place.devices, now), model.place.replicas)


def foreseen_for(request: Denoise, plan: ParallelPlan, *, is_guided: bool, why: str = "") -> Foreseen | None:
    """Of the run around this denoise, by this plan on its model's devices; None where that cannot be predicted: the
    machines of a cluster are not known here, some transformers are no rows of blocks, and what a step cache skips
    depends on the picture.
    """
    from ..costs.ran import kept
    from .history import corrected, setting_of

    place, wanted = request.model.place, wanted_by(request, is_guided=is_guided)
    model, rejections = at_work(request.model, has_step_cache=wanted.has_step_cache), ()
    if place.cluster or plan.cfg > 1 + is_guided or request.step_cache != "none":
        return None
    try:
        here = spot_of(place.devices or (model.device,))
        answer = forecast_at(model, replace(wanted, steps=num_steps_of(request)), here, place.replicas)
        # Plans that were not taken are told beside a choice only: who wrote a plan has chosen.
        if place.plan in LEFT_OPEN and _has_choice(model):
            chosen = _answer(request.model, wanted)
            others = rejected(chosen, chosen.taken)
            rejections = tuple((spelt(other), other.step.seconds, words) for other, words in others)
    except ValueError:
        return None
    run, machine = answer.by(plan, replicas=place.replicas), answer.machine
    why = why or (BY_HAND if place.devices else ALONE)
    # A plan that was chosen says itself what streams; with that no step is replayed.
    streamed, graphs = streaming(run, machine), graphs_told(model, machine, plan, steps=run.steps)
    beside = graphs if not streamed else "" if streamed in why else streamed
    foreseen = Foreseen(
        plan=spelt_at_work(plan, request.model, has_step_cache=wanted.has_step_cache),
        why="; ".join(filter(None, (why, beside))),
        machine=machine.title,
        is_measured=machine.is_measured,
        is_assumed=machine.is_assumed,
        steps=run.steps,
        step_s=run.steps_s / max(1, run.steps),
        text_s=run.text_s,
        decode_s=run.decode_s,
        load_s=run.load_s,
        num_bytes=run.num_bytes,
        context_bytes=0 if machine.kind == "cpu" else CONTEXT_BYTES,
        rejected=rejections,
    )
    setting = setting_of(model, answer.canvas, machine, text_tokens=answer.wanted.text_length)
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


def encoders_for(model: Model, wanted: Wanted, plan: ParallelPlan) -> int:
    """How many of the plan's ranks hold text encoders between them: all where that is sooner than what else there is
    room for, else one; on unlike devices, too. Machines of a cluster are not known.
    """
    place = model.place
    if plan.num_ranks == 1 or not model.device.startswith("cuda") or place.cluster:
        return 1
    try:
        spot = spot_of(place.devices)
        if len({each.title for each in spot.shown if each.name in place.devices}) > 1:  # which may round differently
            return 1
        return forecast_at(model, wanted, spot, place.replicas).by(plan, replicas=place.replicas).encoders
    except ValueError:
        return 1


# ---- sweeps


def shared_out(
    asked: Sequence[tuple[Model, Wanted]],
    place: Place,
    num_runs: int,
    *,
    is_warm: bool = False,
    now: Sequence[DeviceNow] | None = None,
) -> tuple[Place, str] | None:
    """The place in as many groups of equal size as end a sweep soonest, and why; devices that are left over do nothing.

    For denoises that stand for all of the sweep; `is_warm`: the place's own groups may have loaded the model, others
    would have to. None where there is nothing to choose: one device or run, machines
    of a cluster, or where no number of groups fits. Raises `ValueError` where no time can be predicted.
    """
    if min(len(place.devices), num_runs) < 2 or place.cluster or not asked:
        return None
    is_assumed = False
    options: dict[int, list[Run]] = {}
    for groups in replicas_of(len(place.devices), num_runs):
        spot = spot_of(_grouped(place, groups).devices, now)
        answers = [forecast_at(at_work(model), wanted, spot, groups) for model, wanted in asked]
        known = [each.chosen for each in answers if each.chosen is not None]
        is_assumed = answers[0].machine.is_assumed
        if len(known) == len(answers):
            options[groups] = known
    if not options:
        return None
    seconds: dict[int, float] = {}
    for groups, found in options.items():
        rounds = -(-num_runs // groups)  # one after the other, each as long as the mean of those that were looked at
        seconds[groups] = fmean(each.seconds + (rounds - 1) * each.next_s for each in found)
    if is_warm:
        seconds = {n: each + (n != place.replicas) * options[n][0].load_s for n, each in seconds.items()}
    chosen = fewest(seconds, is_assumed=is_assumed)
    why = _why(seconds, chosen, options[chosen][0].plan, num_runs, len(place.devices), is_assumed=is_assumed)
    return _grouped(place, chosen), why


def _grouped(place: Place, groups: int) -> Place:
    most = len(place.devices) // groups * groups
    return Place(devices=place.devices[:most], plan=place.plan, replicas=groups, cluster=place.cluster)


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
