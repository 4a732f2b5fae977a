"""What a denoise is predicted to take by its plan, told before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...parallel.machine.folders import user_cache
from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Foreseen
from ..components.memory import CONTEXT_BYTES
from ..models.describe import card_of
from ..needs.memory import work_of
from ..values import Model
from .compiling import graphs_told
from .forecast import forecast_at
from .known import spot_of
from .terms import ALONE, BY_HAND, Wanted, num_steps_of, wanted_by

if TYPE_CHECKING:
    from ..requests import Denoise


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
