"""Parallel Plan: on which devices a model works, and how a denoise uses them together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from ...pipelines.values import Model
from ..files.workspace import HERE, Workspace
from ..graph.sketch import Given, Unknown
from ..graph.spec import Socket, read_spec
from .arguments import checked


@checked
def parallel_plan(
    model: Model,
    *,
    devices: Annotated[str, Socket(help="all, or a list such as cuda:0,cuda:1, cuda*4 or cpu*2")] = "all",
    plan: Annotated[
        str,
        Socket(
            help="auto, auto,compiled (which rounds differently), or degrees such as "
            "cfg=2,ulysses=2,allgather=2,weights=8; their product, without weights, is the number of devices"
        ),
    ] = "auto",
    workspace: Workspace = HERE,
) -> Model:
    """The model spread over devices: one rank on each, started when it is first needed, and kept warm.

    The picture is that of one device. `latentloom run --devices` and `--plan` take precedence, so that a workflow runs
    on another machine too.
    """
    return spread(model, devices, plan, workspace=workspace)


def spread(model: Model, devices: str, plan: str, *, workspace: Workspace, here: Sequence[str] | None = None) -> Model:
    """What the node does; `here` names this machine's accelerators, and without it torch is asked."""
    from ...pipelines.place import check_cores, checked, placed, read_place, read_plan

    if (run := workspace.place).devices:
        return placed(model, checked(dataclasses.replace(run, plan=run.plan or read_plan(plan))))
    place = read_place(devices, plan, here=here)
    is_typed = workspace.host == "command line"
    check_cores(place, more=f"run it with --devices cpu*{len(place.devices)}" if is_typed else "")
    return placed(model, place)


def plan_refusals(given: Given) -> dict[str, str]:
    """A plan that is none on any machine."""
    from ...pipelines.place import read_plan

    try:
        read_plan("" if given.workspace.place.plan else str(given.value("plan")))
    except ValueError as error:
        return {"plan": str(error)}
    return {}


def plan_fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
    """What the command line puts in place of the node's plan."""
    return workspace.place.plan


def named_plan(workspace: Workspace) -> str:
    """A plan that the command line names; one that is chosen changes no result."""
    from ...pipelines.place import names_plan

    return workspace.place.plan if names_plan(workspace.place) else ""


def plan_sketch(given: Given) -> Model:
    """The model spread over the devices; by the plan `auto`, or on its own device, where that is all that can be."""
    return sketch_of_spread(given.value("model"), given)


def plan_means(given: Given) -> dict[str, str]:
    """The devices one by one, and a plan that the command line names."""
    if not given.is_machine_known:
        raise Unknown("nobody has looked for this machine's devices")
    return means_of_spread(plan_sketch(given), given)


def means_of_spread(model: Model, given: Given) -> dict[str, str]:
    from ...pipelines.place import names_plan

    place, asked = model.place, given.workspace.place.plan
    plan = {"plan": asked} if asked and names_plan(place) else {}
    return {**({"devices": listed(place.devices)} if place.devices else {}), **plan}


def listed(devices: Sequence[str]) -> str:
    """Devices as one writes them."""
    return f"cpu*{len(devices)}" if set(devices) == {"cpu"} and len(devices) > 1 else ",".join(devices)


def sketch_of_spread(model: Model, given: Given) -> Model:
    """What `plan_sketch` says, of any node with such inputs `devices` and `plan`."""
    devices = given.value("devices")
    try:
        return spread(model, devices, given.value("plan"), workspace=given.workspace, here=given.accelerators)
    except ValueError as error:
        given.tell(str(error))
    try:
        return spread(model, devices, "auto", workspace=given.workspace, here=given.accelerators)
    except ValueError:
        return model


NODES = {
    "LoomParallelPlan": read_spec(
        parallel_plan,
        title="Parallel Plan",
        category="model",
        is_kept=False,
        fingerprint=plan_fingerprint,
        sketch=plan_sketch,
        refuses=plan_refusals,
        means=plan_means,
    ),
}
