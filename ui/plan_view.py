"""How a workflow would use the devices, for the page: answered before a run, on every change of the workflow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..nodes.graph import Graph
from ..nodes.plan_preview import preview
from ..nodes.workspace import Workspace
from ..parallel.machine_now import DeviceNow
from ..pipelines.place import AUTO, check_cores, read_place
from ..pipelines.values import Place
from .devices import devices_now
from .settings import Settings

NOTHING = "this workflow denoises nothing, so no plan is needed; add a Denoise node"


def plan_view(
    graph: Graph, overrides: Mapping[str, Any], *, devices: str, plan: str, settings: Settings
) -> dict[str, Any]:
    """The plan of each denoise, what its ranks need and the other plans there are.

    Empty `devices` and `plan` are the server's own. `problem` tells what cannot be; the view is then that of the plan
    `auto`, or of the server's own devices.
    """
    now = devices_now()
    machine = [DeviceNow(**device) for device in now]
    place, problem = _place(devices, plan, settings.place, [each.name for each in machine if each.name != "cpu"])
    roots = tuple(folder.resolve() for folder in settings.models_dirs)
    nodes, choices = preview(graph, overrides, workspace=Workspace(roots=roots, place=place), machine=machine)
    return {
        "devices": now,
        "nodes": [dataclasses.asdict(node) for node in nodes],
        "choices": [dataclasses.asdict(choice) for choice in choices],
        "problem": problem or ("" if nodes else NOTHING),
    }


def _place(devices: str, plan: str, own: Place, accelerators: Sequence[str]) -> tuple[Place, str]:
    """What was asked for, or as much of it as can be and what is wrong with the rest."""
    if not devices.strip() and not plan.strip():
        return own, ""
    try:
        return _read(devices, plan or own.plan, own, accelerators), ""
    except ValueError as error:
        problem = str(error)
    try:
        return (_read(devices, AUTO, own, accelerators) if devices.strip() else own), problem
    except ValueError:
        return own, problem


def _read(devices: str, plan: str, own: Place, accelerators: Sequence[str]) -> Place:
    place = read_place(devices or ",".join(own.devices), plan, here=accelerators)
    if len(place.devices) > len(own.devices):
        check_cores(place)
    return place
