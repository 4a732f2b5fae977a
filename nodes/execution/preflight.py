"""Whether a workflow will run, found before it does: wiring and values, then files, models, plans and memory.

Torch is not imported and nothing is loaded. What headers and numbers can tell is an error, what is reckoned an estimate
that may be off; what only a run knows is not told of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...parallel.machine.now import DeviceNow
from ..files.workspace import Workspace
from ..graph.check import check
from ..graph.graph import Graph
from ..graph.problems import GraphError, Problem
from ..graph.resolve import Overrides
from ..graph.spec import NodeSpec
from ..preview.meant import Meant, meant
from ..preview.preview import planned
from ..preview.walk import Walk, refused
from .schedule import needs_of_checked


@dataclass(frozen=True, kw_only=True)
class Foretold:
    """What is known of a run before it."""

    problems: list[Problem]
    """Errors first."""
    values: Meant = field(default_factory=Meant)
    """What 0, "" and "auto" will be, by node and socket."""


def preflight(
    graph: Graph,
    specs: Mapping[str, NodeSpec],
    overrides: Overrides | None = None,
    *,
    workspace: Workspace,
    machine: Sequence[DeviceNow],
) -> list[Problem]:
    """All problems of a workflow on this machine, errors first."""
    return foretell(graph, specs, overrides, workspace=workspace, machine=machine).problems


def foretell(
    graph: Graph,
    specs: Mapping[str, NodeSpec],
    overrides: Overrides | None = None,
    *,
    workspace: Workspace,
    machine: Sequence[DeviceNow],
) -> Foretold:
    """Of a workflow that is not sound in itself no more problems are looked for, but values may be known."""
    accelerators = [device.name for device in machine if device.name != "cpu"]
    found = check(graph, specs, overrides, workspace=workspace)
    try:
        walk = Walk(graph, specs, overrides or {}, workspace=workspace, accelerators=accelerators)
    except GraphError:
        if not found:
            raise
        return Foretold(problems=found)
    if found:
        return Foretold(problems=found, values=meant(walk))
    needs = needs_of_checked(graph, specs, overrides=overrides or {}, workspace=workspace)
    needed = frozenset(needs.order or needs.nodes)  # all of one that makes nothing yet
    found = list(refused(walk, needed))
    told = {problem.message for problem in found}
    plans = planned(walk, machine)[0]
    for node in plans:
        if node.problem and node.problem_code and node.problem not in told:
            kind = "estimate" if node.problem_code == "memory" else "error"
            found.append(Problem(node.node, "", node.problem_code, node.problem, kind=kind))
    problems = sorted((each for each in found if each.node in needed), key=lambda problem: problem.kind != "error")
    return Foretold(problems=problems, values=meant(walk, needed, plans))
