"""How a workflow would use the devices, for the page: answered before a run, on every change of the workflow.

It reads config files and headers of weights; nothing is loaded.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...nodes.files.workspace import Workspace
from ...nodes.graph.graph import Graph
from ...nodes.graph.ready import Ready, ready
from ...nodes.headless.plans import plan_denoise
from ...nodes.preview.preview import planned
from ...nodes.preview.walk import Walk
from ...nodes.registry import SPECS
from ...parallel.machine.now import DeviceNow
from ...parallel.plan import DEGREES
from ...parallel.progress import SILENT
from ...pipelines.components.memory import memory_limit
from ...pipelines.costs.machine import EXAMPLES, Machine, limited, named_machine
from ...pipelines.forecast.choice import spelt
from ...pipelines.forecast.forecast import Forecast, of_each_kind
from ...pipelines.forecast.here import is_busy, machine_here
from ...pipelines.forecast.known import machine_at, machines_folder, spot_of, with_devices
from ...pipelines.forecast.plans import AUTO
from ...pipelines.values import MARK, Engine, Place
from ..contract.shown import PlanMachine, PlanNode, PlanStrategies, PlanView, PredictedPlan, Prediction, RejectedPlan
from ..errors import Conflict
from ..settings import Settings
from .devices import accelerators, asked_place, devices_now

BUSY = "something else is at work on this machine, so that what is measured now would not hold; try again later"
NOT_KEPT = (
    "what was measured is not kept, because something else began to work meanwhile or its folder cannot be written; "
    "try again later, or look into the log"
)
MOST_PREDICTED = 4  # denoises of a run that waits: each costs some 20 ms
MACHINES = [str(name) for name in EXAMPLES.split(", ")]
NOTHING = "this workflow denoises nothing, so no plan is needed; add a Denoise node or Run Pipeline"


def plan_view(
    graph: Graph,
    overrides: Mapping[str, Any],
    *,
    devices: str,
    plan: str,
    settings: Settings,
    machine: str = "",
    go_on: Callable[[], None] = SILENT.check,
) -> PlanView:
    """The plan of each denoise, what its ranks need and the other plans there are, here or on a named `machine`.

    Empty `devices` and `plan` are the server's own. `problem` tells what cannot be; the view is then that of the plan
    `auto`, or of the server's own devices. `go_on` is as for `Walk`, and asked before each prediction too.
    """
    now = devices_now()
    try:
        there = limited(named_machine(machine.strip()), memory_limit()) if machine.strip() else None
    except ValueError as error:
        return PlanView(devices=now, nodes=[], choices=[], problem=str(error), examples=MACHINES)
    shown = now
    if there is not None:
        unused = DeviceNow(name="", title=there.title, total_bytes=there.memory_bytes, used_bytes=0, load=None)
        shown = [replace(unused, name=name) for name in there.devices]
    own = settings.place if there is None else Place(devices=there.devices, plan=AUTO)
    here = accelerators(shown)
    place, problem = _place(devices, plan, own, here=here)
    workspace = settings.reading(place)
    prepared = ready(graph, SPECS, overrides, workspace=workspace)
    walk = Walk(prepared, workspace=workspace, accelerators=here, go_on=go_on)
    found, choices = planned(walk, shown)
    if there is not None:
        there, choices = with_devices(there, len(place.devices)), []
    nodes = []
    for node in found:
        go_on()
        nodes.append(_foretold(PlanNode.model_validate(node), walk, now, there))
    problem = problem or ("" if nodes else NOTHING)
    return PlanView(devices=shown, nodes=nodes, choices=choices, problem=problem, examples=MACHINES)


def predicted_seconds(prepared: Ready, needed: Collection[str], *, workspace: Workspace) -> float | None:
    """What the needed denoises of a workflow, and what is around them, are predicted to take
    together on the workspace's devices; None where one of them is not known, or they are many."""
    now = devices_now()
    try:
        walk = Walk(prepared, workspace=workspace, accelerators=accelerators(now))
        names = [name for name in walk.denoising() if name in needed]
        if not 0 < len(names) <= MOST_PREDICTED:
            return None
        found = [_answer(walk, name, now=now) for name in names]
    except ValueError:  # which the run tells
        return None
    known = [answer for answer in found if answer is not None and answer.machine.is_timed]
    chosen = [answer.chosen for answer in known if answer.chosen is not None]
    return sum(each.all_s for each in chosen) if len(chosen) == len(names) else None


def _answer(
    walk: Walk, name: str, *, now: Sequence[DeviceNow], there: Machine | None = None, engine: Engine = "eager"
) -> Forecast | None:
    """None where machines of a cluster would do it. Raises `ValueError`."""
    model = walk.denoise(name)[0].model
    if model.place.cluster:
        return None
    devices = model.place.devices[: model.place.group_size] or (model.device,)
    return plan_denoise(walk, name, there or machine_at(spot_of(devices, now)), engine=engine)


def _foretold(node: PlanNode, walk: Walk, now: Sequence[DeviceNow], there: Machine | None) -> PlanNode:
    """The node with what its plan is predicted to take here; or as it would be run `there`."""
    if not node.plan:
        return node
    try:
        engine = "inductor" if there is None and node.plan.endswith(MARK) else "eager"
        answer = _answer(walk, node.node, now=now, there=there, engine=engine)
    except ValueError:  # which the node's own problem tells, or nobody can tell
        return node
    if answer is None:
        return node
    if there is None or node.is_chosen_by_hand:
        return node.model_copy(update={"prediction": _prediction(answer, node.plan.removesuffix(MARK))})
    plan = answer.taken.plan
    strategies = PlanStrategies.model_validate({name: getattr(plan, name) for name in (*DEGREES, "text")})
    chosen = {"plan": str(plan), "why": answer.why, "num_ranks": plan.num_ranks, "strategies": strategies}
    return node.model_copy(update={"prediction": _prediction(answer, ""), "ranks": [], "problem": "", **chosen})


def _prediction(answer: Forecast, plan: str) -> Prediction | None:
    """Of this plan, where the planner knows it; "" is the one to take, or the closest where none fits."""
    asked = next((each for each in answer.found if str(each.plan) == plan), None)
    if plan and asked is None:
        return None
    shown, rows = asked or answer.taken, of_each_kind(answer)
    if shown not in rows:
        rows = sorted([*rows, shown], key=lambda each: (each.all_s, each.num_bytes))
    by_itself, is_timed = shown == answer.chosen, answer.machine.is_timed
    rejected = answer.rejected if by_itself else ()
    seconds = {name: getattr(shown, name) for name in ("text_s", "decode_s", "seconds", "load_s")}
    seconds |= {"step_s": shown.step.seconds, "steps_s": shown.steps_s + shown.around_s}
    return Prediction(
        machine=PlanMachine.model_validate(answer.machine),
        plan=spelt(shown),
        why=answer.why if by_itself else "",
        num_devices=shown.num_devices,
        steps=answer.demand.steps,
        **(seconds if is_timed else dict.fromkeys(seconds)),
        bytes=shown.num_bytes,
        lacking_bytes=shown.lacking_bytes,
        rejected=[
            RejectedPlan(plan=spelt(each), step_s=each.step.seconds if is_timed else None, why=why)
            for each, why in rejected
        ],
        plans=[
            PredictedPlan(
                plan=spelt(each),
                num_devices=each.num_devices,
                seconds=each.all_s if is_timed else None,
                bytes=each.num_bytes,
                lacking_bytes=each.lacking_bytes,
                is_shown=each == shown,
            )
            for each in rows
        ],
        remedy=" · ".join(each.words for each in answer.mends),
        hint=answer.hint if by_itself else "",
    )


def measured() -> PlanMachine:
    """This machine, measured now, which takes about ten seconds. Raises `Conflict` while something else is at work and
    where it cannot be kept, or `RankFailed`."""
    before = spot_of((), devices_now())
    if is_busy(before):
        raise Conflict(BUSY)
    machine = machine_here(machines_folder(), anew=True)
    if spot_of(before.devices).stamp == before.stamp:
        raise Conflict(NOT_KEPT)
    return PlanMachine.model_validate(machine)


def _place(devices: str, plan: str, own: Place, *, here: Sequence[str]) -> tuple[Place, str]:
    """What was asked for, or as much of it as can be and what is wrong with the rest."""
    problem = ""
    for each in (plan, AUTO) if devices.strip() else [plan] if plan.strip() else ():
        try:
            return asked_place(devices, each, own=own, here=here), problem
        except ValueError as error:
            problem = problem or str(error)
    return own, problem
