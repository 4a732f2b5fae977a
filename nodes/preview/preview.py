"""What a run would do with the devices, before it: for each denoise the plan, why, and what every rank needs there.

Nothing is loaded and torch is not imported: files' headers, configs and what the machine says of itself are enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ...parallel.machine.now import DeviceNow
from ...parallel.plan import DEGREES, ParallelPlan
from ...parallel.wording import worded
from ...pipelines.forecast.memory import Need, asked_of, fits, spares_beside, whole_bytes, whole_needs
from ...pipelines.forecast.plans import why_not
from ...pipelines.forecast.remedies import amount
from ...pipelines.forecast.terms import ALONE, Chosen, Wanted
from ...pipelines.models.describe import card_of
from ...pipelines.place import choice_for, names_plan
from ...pipelines.values import Model
from ..graph.sketch import Denoising
from .choices import Choice, choices, devices_of, for_all, memories_of, needs_of, usual
from .room import lack_of
from .rounding import wanted_of
from .walk import MAX_DENOISES, Walk

GIB = 2**30
MADE_BY = "the workflow's result was made by it; plan auto, where it is asked for by name, chooses anew"
TOO_MANY = worded(
    "its plan is not shown, because only the first {} denoises are looked at; it can run all the same", MAX_DENOISES
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodePlan:
    """How one denoise would run, or `problem`: why it cannot. Bytes of `need_bytes` are the whole model's weights."""

    node: str
    model: str = ""
    family: str = ""
    plan: str = ""
    why: str = ""
    is_chosen_by_hand: bool = False
    num_ranks: int = 0
    strategies: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    ranks: Sequence[Mapping[str, Any]] = ()
    """{rank, device, bytes, fits} of each."""
    need_bytes: int = 0
    problem: str = ""
    mends: Sequence[Mapping[str, Any]] = ()
    """Values that make it fit, each a set of them by node.socket, the cheapest first."""
    problem_code: str = ""
    """`not_taken` of what the workflow asks for, `plan` of what the plan cannot be, `memory` of what does not fit; ""
    where the node's own inputs are not known."""


def planned(walk: Walk, machine: Sequence[DeviceNow]) -> tuple[list[NodePlan], list[Choice]]:
    """Each denoise as it would run, and the plans that there are for all of them together."""
    nodes, found = [], []
    names = walk.denoising()
    for name in names[:MAX_DENOISES]:
        try:
            asked, problems = walk.denoise(name)
            choice = _chosen(walk, name, asked, machine)
            if asked.pipeline:
                nodes.append(_whole(name, asked, choice, problems, machine=machine))
                continue
            plan, listed = _node(walk, name, asked, choice, problems, machine=machine)
            nodes.append(plan)
            found.append(listed)
        except ValueError as error:
            nodes.append(NodePlan(node=name, problem=str(error)))
    nodes += [NodePlan(node=name, problem=TOO_MANY) for name in names[MAX_DENOISES:]]
    return nodes, for_all(found)


def _chosen(walk: Walk, name: str, asked: Denoising, machine: Sequence[DeviceNow]) -> Chosen:
    """The plan, and why. Of a size that the model cannot paint, the plan is that of its own."""
    if not asked.model.place.devices:
        return Chosen(plan=ParallelPlan(), why=ALONE)
    try:
        choice = choice_for(asked.model, wanted_of(asked), now=machine)
    except ValueError:
        choice = choice_for(asked.model, wanted_of(dataclasses.replace(asked, latents=None)), now=machine)
    if name in walk.carried:
        return dataclasses.replace(choice, why=MADE_BY)
    if name in walk.not_carried:
        return dataclasses.replace(choice, why=f"{walk.not_carried[name]}; {choice.why}")
    return choice


def _node(
    walk: Walk, name: str, asked: Denoising, choice: Chosen, problems: Sequence[str], *, machine: Sequence[DeviceNow]
) -> tuple[NodePlan, list[Choice]]:
    model, problem = asked.model, next(filter(None, (*problems, *asked.refusals.values())), "")
    length = asked.num_tokens or card_of(model).text_length
    wanted = dataclasses.replace(wanted_of(asked), text_length=length, has_step_cache=False)
    try:
        wanted.canvas(model)
    except ValueError as error:
        problem = problem or str(error)
        wanted = dataclasses.replace(wanted, width=0, height=0, frames=0, batch=1)
    plan, why = choice.plan, choice.why
    if asked.doubt:
        own = usual(model).canvas(model)
        why = worded(
            "{}; memory is that of the model's own {} x {}, because {}", why, own.width, own.height, asked.doubt
        )
    listed = choices(model, wanted, machine)
    found = _node_plan(name, model, wanted, choice, why, problem, machine=machine)
    if not found.problem and (short := lack_of(walk, name, model, wanted, plan, machine=machine, listed=listed)):
        found = dataclasses.replace(found, problem=short[0], problem_code="memory", mends=short[1])
    return found, listed


def _whole(
    name: str, asked: Denoising, choice: Chosen, problems: Sequence[str], *, machine: Sequence[DeviceNow]
) -> NodePlan:
    """Of a pipeline that is run whole: that its weights do not fit is known, that all the rest does is not."""
    model, plan = asked.model, choice.plan
    devices, needs = devices_of(model, plan), whole_needs(model, plan.num_ranks)
    memories = {} if model.place.cluster else memories_of(machine)
    room = fits(needs, devices, memories)
    problem, code = _first([*problems, *asked.refusals.values()], plan, model)
    if not problem and False in room:
        short, code = room.index(False), "memory"
        held, device = needs[short].num_bytes, devices[short]
        problem = (
            f"it does not fit: the weights take {held / GIB:.1f} GiB on {device}, which has "
            f"{memories[device] / GIB:.1f} GiB for all; take a smaller dtype, or a device with more"
        )
    told = f"{choice.why}; memory is that of the weights, which each rank holds; what the steps take is not known"
    return NodePlan(
        node=name,
        model=model.source,
        family=asked.pipeline,
        plan=str(plan),
        why=told,
        is_chosen_by_hand=names_plan(model.place),
        num_ranks=plan.num_ranks,
        strategies=_strategies(plan),
        ranks=_ranks(devices, needs, [None if each else each for each in room]),
        need_bytes=whole_bytes(model),
        problem=problem,
        problem_code=code,
    )


def _first(told: Sequence[str], plan: ParallelPlan, model: Model) -> tuple[str, str]:
    """What cannot be of what was asked for, else of the plan, and its code; both "" where all can."""
    if problem := next(filter(None, told), ""):
        return problem, "not_taken"
    problem = why_not(plan, model)
    return problem, "plan" if problem else ""


def _strategies(plan: ParallelPlan) -> dict[str, int | str]:
    return {axis: getattr(plan, axis) for axis in (*DEGREES, "text")}


def _ranks(devices: Sequence[str], needs: Sequence[Need], fit: Sequence[bool | None]) -> list[dict[str, Any]]:
    return [
        {"rank": rank, "device": device, "bytes": need.num_bytes, "fits": is_fit}
        for rank, (device, need, is_fit) in enumerate(zip(devices, needs, fit, strict=True))
    ]


def _node_plan(
    name: str,
    model: Model,
    wanted: Wanted,
    choice: Chosen,
    why: str,
    problem: str,
    *,
    machine: Sequence[DeviceNow],
) -> NodePlan:
    plan, memories = choice.plan, memories_of(machine)
    devices, needs = devices_of(model, plan), needs_of(model, wanted, plan, machine)
    fit = fits(needs, devices, {} if model.place.cluster else memories)
    if (
        model.place.devices
        and not model.place.cluster
        and (spares := spares_beside(asked_of(needs, devices), memories))
    ):
        device, spare = max(spares.items(), key=lambda each: each[1])
        why = f"{why}; a spare rank takes {amount(spare)} more of {device} and its like, while there is room"
    problem, code = _first([problem], plan, model)
    return NodePlan(
        node=name,
        model=model.source,
        family=model.family,
        plan=str(choice),
        why=why,
        is_chosen_by_hand=names_plan(model.place),
        num_ranks=plan.num_ranks,
        strategies=_strategies(plan),
        ranks=_ranks(devices, needs, fit),
        need_bytes=whole_bytes(model),
        problem=problem,
        problem_code=code,
    )
