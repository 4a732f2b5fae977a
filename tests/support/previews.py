"""What a workflow would do with the devices of a machine, as the page's plan view and the preflight ask it."""

from collections.abc import Mapping, Sequence
from typing import Any

from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.preview.choices import Choice
from latentloom.nodes.preview.preview import NodePlan, planned
from latentloom.nodes.preview.walk import Walk
from latentloom.nodes.registry import SPECS
from latentloom.parallel.machine.now import DeviceNow


def preview(
    graph: Graph, overrides: Mapping[str, Any], *, workspace: Workspace, machine: Sequence[DeviceNow]
) -> tuple[list[NodePlan], list[Choice]]:
    accelerators = [device.name for device in machine if device.name != "cpu"]
    prepared = ready(graph, SPECS, overrides, workspace=workspace)
    return planned(Walk(prepared, workspace=workspace, accelerators=accelerators), machine)
