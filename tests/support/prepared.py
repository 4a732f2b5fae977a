"""What is asked of a prepared workflow, for tests that have it as a file, with values and folders beside it."""

from collections.abc import Callable, Collection
from typing import Any

import pytest

from latentloom.nodes.execution import preflight
from latentloom.nodes.execution import schedule as scheduling
from latentloom.nodes.execution.run import RunResult
from latentloom.nodes.execution.run import run as run_prepared
from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph import ready as preparing
from latentloom.nodes.graph.check import check as check_prepared
from latentloom.nodes.graph.check import installed_version
from latentloom.nodes.graph.graph import Graph
from latentloom.nodes.graph.problems import Problem
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.graph.resolve import Overrides
from latentloom.nodes.graph.spec import Specs
from latentloom.nodes.graph.unfolding.unfold import unfold
from latentloom.nodes.hosts import comfy_file


def spied(monkeypatch: pytest.MonkeyPatch, note: Callable[[], Any] = lambda: None) -> list[Any]:
    """One note for each time that a workflow is prepared from now on."""
    notes: list[Any] = []
    monkeypatch.setattr(preparing, "unfold", lambda *given: notes.append(note()) or unfold(*given))
    return notes


def check(
    graph: Graph,
    specs: Specs,
    overrides: Overrides | None = None,
    require: Callable[[str], str | None] = installed_version,
    workspace: Workspace | None = None,
) -> list[Problem]:
    return check_prepared(ready(graph, specs, overrides, workspace=workspace), require)


def run(
    graph: Graph, specs: Specs, *, overrides: Overrides | None = None, workspace: Workspace = HERE, **how: Any
) -> RunResult:
    return run_prepared(ready(graph, specs, overrides, workspace=workspace), workspace=workspace, **how)


def schedule(
    graph: Graph, specs: Specs, *, overrides: Overrides, workspace: Workspace, **how: Any
) -> scheduling.Schedule:
    return scheduling.schedule(ready(graph, specs, overrides, workspace=workspace), workspace=workspace, **how)


def needs_of(
    graph: Graph,
    specs: Specs,
    *,
    overrides: Overrides,
    workspace: Workspace | None = None,
    targets: Collection[str] | None = None,
) -> scheduling.Needs:
    return scheduling.needs_of(ready(graph, specs, overrides, workspace=workspace), targets)


def foretell(
    graph: Graph, specs: Specs, overrides: Overrides | None = None, *, workspace: Workspace, **how: Any
) -> preflight.Foretold:
    return preflight.foretell(ready(graph, specs, overrides, workspace=workspace), workspace=workspace, **how)


def to_comfy(
    graph: Graph, specs: Specs, overrides: Overrides | None = None, *, workspace: Workspace | None = None
) -> dict[str, Any]:
    return comfy_file.to_comfy(ready(graph, specs, overrides, workspace=workspace))
