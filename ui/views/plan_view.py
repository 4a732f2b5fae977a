"""How a workflow would use the devices, for the page: answered before a run, on every change of the workflow.

It reads config files and headers of weights; nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...nodes.graph.graph import Graph
from ...nodes.preview.preview import preview
from ...pipelines.place import AUTO
from ...pipelines.values import Place
from ..contract.shown import PlanNode, PlanView
from ..settings import Settings
from .devices import accelerators, asked_place, devices_now

NOTHING = "this workflow denoises nothing, so no plan is needed; add a Denoise node or Run Pipeline"


def plan_view(graph: Graph, overrides: Mapping[str, Any], *, devices: str, plan: str, settings: Settings) -> PlanView:
    """The plan of each denoise, what its ranks need and the other plans there are.

    Empty `devices` and `plan` are the server's own. `problem` tells what cannot be; the view is then that of the plan
    `auto`, or of the server's own devices.
    """
    now = devices_now()
    place, problem = _place(devices, plan, settings.place, here=accelerators(now))
    nodes, choices = preview(graph, overrides, workspace=settings.reading(place), machine=now)
    return PlanView(
        devices=now,
        nodes=[PlanNode.model_validate(node) for node in nodes],
        choices=choices,
        problem=problem or ("" if nodes else NOTHING),
    )


def _place(devices: str, plan: str, own: Place, *, here: Sequence[str]) -> tuple[Place, str]:
    """What was asked for, or as much of it as can be and what is wrong with the rest."""
    if not devices.strip() and not plan.strip():
        return own, ""
    try:
        return asked_place(devices, plan, own=own, here=here), ""
    except ValueError as error:
        problem = str(error)
    try:
        return (asked_place(devices, AUTO, own=own, here=here) if devices.strip() else own), problem
    except ValueError:
        return own, problem
