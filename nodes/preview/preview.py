"""What a run would do with the devices, before it: for each denoise the plan, why, and what every rank needs there.

Nothing is loaded and torch is not imported: files' headers, configs and what the machine says of itself are enough.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ...parallel.machine.now import DeviceNow
from ...parallel.plan import DEGREES, ParallelPlan
from ...parallel.wording import worded
from ...pipelines.forecast.choice import GIB, amount
from ...pipelines.forecast.memory import EACH, asked_of, fits, spares_beside, whole_bytes, whole_needs
from ...pipelines.forecast.plans import ALONE, spelt_at_work, why_not
from ...pipelines.forecast.weights import Need
from ...pipelines.models.describe import card_of
from ...pipelines.place import names_plan, plan_for
from ..graph.sketch import Denoising
from .carried import wanted_of
from .choices import Choice, choices, devices_of, for_all, memories_for, needs_of, usual
from .room import lack_of
from .walk import MAX_DENOISES, Walk

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
    ranks: Sequence[Mapping[str, Any]] = ()  # {rank, device, bytes, fits} of each
    need_bytes: int = 0
    problem: str = ""
    # Values that make it fit, each a set of them by node.socket, the cheapest first.
    mends: Sequence[Mapping[str, Any]] = ()
    # `not_taken` of what the workflow asks for, `plan` of what the plan cannot be, `memory` of what does not fit; ""
    # where the node's own inputs are not known.
    problem_code: str = ""


def planned(walk: Walk, machine: Sequence[DeviceNow]) -> tuple[list[NodePlan], list[Choice]]:
    """Each denoise as it would run, and the plans that there are for all of them together."""
    nodes, found = [], []
    names = walk.denoising()
    for name in names[:MAX_DENOISES]:
        try:
            asked, problems = walk.denoise(name)
            plan, why = ParallelPlan(), ALONE
            if asked.model.place.devices:
                plan, why = plan_for(asked.model, wanted_of(asked), now=machine)
            if name in walk.carried:
                why = MADE_BY
            elif name in walk.not_carried:
                why = f"{walk.not_carried[name]}; {why}"
            problem = next(filter(None, (*problems, *asked.refusals.values())), "")
            node = NodePlan(node=name, why=why, problem=problem)
            if asked.pipeline:
                nodes.append(_whole(node, asked, plan, machine))
            else:
                node, listed = _by_steps(walk, node, asked, plan, machine)
                nodes.append(node)
                found.append(listed)
        except ValueError as error:
            nodes.append(NodePlan(node=name, problem=str(error)))
    nodes += [NodePlan(node=name, problem=TOO_MANY) for name in names[MAX_DENOISES:]]
    return nodes, for_all(found)


def _by_steps(
    walk: Walk, node: NodePlan, asked: Denoising, plan: ParallelPlan, machine: Sequence[DeviceNow]
) -> tuple[NodePlan, list[Choice]]:
    model, why, problem = asked.model, node.why, node.problem
    length = asked.num_tokens or card_of(model).text_length
    wanted = dataclasses.replace(wanted_of(asked), text_length=length, has_step_cache=False)
    try:
        wanted.canvas(model)
    except ValueError as error:
        problem = problem or str(error)
        wanted = dataclasses.replace(wanted, width=0, height=0, frames=0, batch=1)
    if asked.doubt:
        own = usual(model).canvas(model)
        why = worded(
            "{}; memory is that of the model's own {} x {}, because {}", why, own.width, own.height, asked.doubt
        )
    needs, memories = needs_of(model, wanted, plan, machine), memories_for(model, machine)
    if model.place.devices and (spares := spares_beside(asked_of(needs, devices_of(model, plan)), memories)):
        device, spare = max(spares.items(), key=lambda each: each[1])
        why = f"{why}; a spare rank takes {amount(spare)} more of {device} and its like, while there is room"
    found = _on_ranks(dataclasses.replace(node, why=why, problem=problem), asked, plan, needs, memories)
    listed = choices(model, wanted, machine)
    if not found.problem and (short := lack_of(walk, node.node, model, wanted, plan, machine=machine, listed=listed)):
        found = dataclasses.replace(found, problem=short[0], problem_code="memory", mends=short[1])
    return found, listed


def _whole(node: NodePlan, asked: Denoising, plan: ParallelPlan, machine: Sequence[DeviceNow]) -> NodePlan:
    """Of a pipeline that is run whole: that its weights do not fit is known, that all the rest does is not."""
    why = f"{node.why}; memory is that of the weights, which each rank holds; what the steps take is not known"
    needs, memories = whole_needs(asked.model, plan.num_ranks), memories_for(asked.model, machine)
    found = _on_ranks(dataclasses.replace(node, why=why), asked, plan, needs, memories)
    short = next((rank for rank in found.ranks if rank["fits"] is False), None)
    # that the weights fit says nothing of the rest, so that True is told as None; False stays
    found = dataclasses.replace(found, ranks=[{**rank, "fits": rank["fits"] and None} for rank in found.ranks])
    if found.problem or short is None:
        return found
    there = memories[EACH if short["device"] == "cpu" and EACH in memories else short["device"]]
    told = (
        f"it does not fit: the weights take {short['bytes'] / GIB:.1f} GiB on {short['device']}, which has "
        f"{there / GIB:.1f} GiB for all; take a smaller dtype, or a device with more"
    )
    return dataclasses.replace(found, problem=told, problem_code="memory")


def _on_ranks(
    node: NodePlan, asked: Denoising, plan: ParallelPlan, needs: Sequence[Need], memories: Mapping[str, int]
) -> NodePlan:
    """The node with all that is known of its plan, and of what its ranks need."""
    model, devices = asked.model, devices_of(asked.model, plan)
    problem = node.problem or why_not(plan, model)
    ranks = zip(devices, needs, fits(needs, devices, memories), strict=True)
    return dataclasses.replace(
        node,
        model=model.source,
        family=asked.pipeline or model.family,
        plan=spelt_at_work(plan, model, has_step_cache=asked.has_step_cache),
        is_chosen_by_hand=names_plan(model.place),
        num_ranks=plan.num_ranks,
        strategies={axis: getattr(plan, axis) for axis in (*DEGREES, "text")},
        ranks=[
            {"rank": rank, "device": device, "bytes": need.num_bytes, "fits": is_fit}
            for rank, (device, need, is_fit) in enumerate(ranks)
        ],
        need_bytes=whole_bytes(model),
        problem=problem,
        problem_code="not_taken" if node.problem else "plan" if problem else "",
    )
