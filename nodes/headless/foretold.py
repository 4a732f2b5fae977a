"""What is wrong with each point of a sweep, found before the first is begun."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...parallel.machine.now import devices_now
from ..execution.preflight import preflight
from ..files.workspace import Workspace
from ..graph.graph import Graph, ParamRef
from ..graph.problems import Problem
from ..graph.resolve import param_values, plain_value
from ..graph.scalars import fault
from ..graph.spec import NodeSpec

ESTIMATE = " (this is an estimate; --force runs it all the same)"


def with_remedy(problem: Problem) -> Problem:
    """The problem in a sentence that says by which flags it is mended, and by what an estimate is passed."""
    mended = f" [{' or '.join(map(_flags, problem.mends))}]" if problem.mends else ""
    return dataclasses.replace(
        problem, message=problem.message + mended + (ESTIMATE if problem.kind == "estimate" else "")
    )


def _flags(mend: Mapping[str, Any]) -> str:
    """To be pasted into the command."""
    return " ".join(f"--set {shlex.quote(f'{target}={value}')}" for target, value in mend.items())


def foretold(
    graphs: Iterable[Graph],
    folders: Iterable[Path],
    specs: Mapping[str, NodeSpec],
    *,
    workspace: Workspace,
    is_forced: bool = False,
) -> list[Sequence[Problem]]:
    """The problems of each, which would write into a folder of its own; those that differ only in their seeds are
    looked at once. Estimates keep nothing from running that `is_forced`.
    """
    machine = devices_now()
    known: dict[str, Sequence[Problem]] = {}
    found: list[Sequence[Problem]] = []
    for graph, folder in zip(graphs, folders, strict=True):
        mark = _mark_of(graph, specs)
        if mark not in known:
            own = dataclasses.replace(workspace, output_dir=folder)
            problems = preflight(graph, specs, workspace=own, machine=machine)
            known[mark] = [each for each in problems if each.kind == "error" or not is_forced]
        found.append(known[mark])
    return found


def _mark_of(graph: Graph, specs: Mapping[str, NodeSpec]) -> str:
    """The same for points whose seeds differ and nothing else, which are looked at once."""
    params = param_values(graph, {})
    marked = [
        (name, node.type, node.mode, socket, _marked(specs.get(node.type), socket, plain_value(entry, params)))
        for name, node in graph.nodes.items()
        for socket, entry in node.inputs.items()
        if not (isinstance(entry, ParamRef) and entry.param not in params)
    ]
    return repr(marked)


def _marked(spec: NodeSpec | None, socket: str, value: Any) -> Any:
    found = spec.input(socket) if spec else None
    return "seed" if found is not None and found.widget == "seed" and not fault(found, value) else value
