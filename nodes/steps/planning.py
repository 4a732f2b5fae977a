"""Parallel Plan: on which devices a model works, and how a denoise uses them together."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from ...pipelines import place as places
from ...pipelines.values import Model
from ..files.workspace import HERE, Workspace
from ..graph.signature import read_spec
from ..graph.sketch import Given, Unknown
from .arguments import checked


@checked
def parallel_plan(
    model: Model,
    *,
    devices: Annotated[str, "all, or a list such as cuda:0,cuda:1, cuda*4 or cpu*2"] = "all",
    plan: Annotated[
        str,
        "auto, auto,compiled (which rounds differently), or degrees such as cfg=2,ulysses=2,allgather=2,weights=8; "
        "their product, without weights, is the number of devices",
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
    if (run := workspace.place).devices:
        return places.placed(model, places.checked(dataclasses.replace(run, plan=run.plan or places.read_plan(plan))))
    place = places.read_place(devices, plan, here=here)
    is_typed = workspace.host == "command line"
    places.check_cores(place, more=f"run it with --devices cpu*{len(place.devices)}" if is_typed else "")
    return places.placed(model, place)


def plan_refusals(given: Given) -> dict[str, str]:
    """A plan that is none on any machine."""
    try:
        places.read_plan("" if given.workspace.place.plan else str(given.value("plan")))
    except ValueError as error:
        return {"plan": str(error)}
    return {}


def named_plan(workspace: Workspace) -> str:
    """A plan that the command line names; one that is chosen changes no result."""
    return workspace.place.plan if places.names_plan(workspace.place) else ""


def plan_means(given: Given) -> dict[str, str]:
    """The devices one by one, and a plan that the command line names."""
    if not given.is_machine_known:
        raise Unknown("nobody has looked for this machine's devices")
    return means_of_spread(sketch_of_spread(given.value("model"), given), given)


def means_of_spread(model: Model, given: Given) -> dict[str, str]:
    place, asked = model.place, given.workspace.place.plan
    plan = {"plan": asked} if asked and places.names_plan(place) else {}
    return {**({"devices": listed(place.devices)} if place.devices else {}), **plan}


def listed(devices: Sequence[str]) -> str:
    """Devices as one writes them."""
    return f"cpu*{len(devices)}" if set(devices) == {"cpu"} and len(devices) > 1 else ",".join(devices)


def sketch_of_spread(model: Model, given: Given) -> Model:
    """The model spread as the inputs `devices` and `plan` say; by the plan `auto`, or on its own device, where that is
    all that can be."""
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
        fingerprint=lambda inputs, workspace: workspace.place.plan,
        sketch=lambda given: sketch_of_spread(given.value("model"), given),
        refuses=plan_refusals,
        means=plan_means,
    ),
}
