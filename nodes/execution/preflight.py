"""Whether a workflow will run, found before it does: wiring and values, then files, models, plans and memory.

Torch is not imported and nothing is loaded. What headers and numbers can tell is an error, what is reckoned an estimate
that may be off; what only a run knows is not told of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...parallel.machine.now import DeviceNow
from ..files.workspace import Workspace
from ..graph.check import check
from ..graph.graph import Graph
from ..graph.problems import Problem
from ..graph.resolve import Overrides
from ..graph.spec import NodeSpec
from ..preview.preview import planned
from ..preview.walk import Walk, refused
from .schedule import needs_of_checked


def preflight(
    graph: Graph,
    specs: Mapping[str, NodeSpec],
    overrides: Overrides | None = None,
    *,
    workspace: Workspace,
    machine: Sequence[DeviceNow],
) -> list[Problem]:
    """All problems of a workflow on this machine, errors first. One that is not sound in itself is not followed
    further.
    """
    if found := check(graph, specs, overrides, workspace=workspace):
        return found
    accelerators = [device.name for device in machine if device.name != "cpu"]
    walk = Walk(graph, specs, overrides or {}, workspace=workspace, accelerators=accelerators)
    needs = needs_of_checked(graph, specs, overrides=overrides or {}, workspace=workspace)
    needed = frozenset(needs.order or needs.nodes)  # all of one that makes nothing yet
    found = list(refused(walk, needed))
    told = {problem.message for problem in found}
    for node in planned(walk, machine)[0]:
        if node.problem and node.problem_code and node.problem not in told:
            kind = "estimate" if node.problem_code == "memory" else "error"
            mends = tuple(node.mends)
            found.append(Problem(node.node, "", node.problem_code, node.problem, kind=kind, mends=mends))
    return sorted((each for each in found if each.node in needed), key=lambda problem: problem.kind != "error")
