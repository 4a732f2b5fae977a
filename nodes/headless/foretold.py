"""What is known of each point of a sweep before the first is begun, and how the command line tells it."""

import dataclasses
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...parallel.machine.now import devices_now
from ...parallel.wording import worded
from ..execution.preflight import Foretold, blocking, foretell
from ..files.workspace import Workspace
from ..graph.graph import Graph, ParamRef, graph_text
from ..graph.problems import Kind, Problem
from ..graph.ready import Ready
from ..graph.resolve import param_values, plain_value
from ..graph.scalars import fault
from ..graph.spec import NodeSpec
from ..graph.unfolding.unfold import folded_in
from ..preview.meant import Meant
from ..preview.room import why_no_room

MOST_SHOWN = 60
# The points of a sweep, each with its own values and what is known of it.
Points = Sequence[tuple[Mapping[str, Any], Foretold]]
REMEDIES: Mapping[Kind, str] = {
    "error": "",
    "estimate": " (this is an estimate; --force runs it all the same)",
    "unknown": " (this is a note, which keeps nothing from running)",
}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of a sweep or of a list of jobs."""

    overrides: Mapping[str, Any]
    varied: Mapping[str, Any] = field(default_factory=dict[str, Any])  # those that tell it from others of its workflow
    graph: Graph  # with the overrides as its own values
    file: Path = Path()  # the workflow's
    folder: Path
    roots: tuple[Path, ...] = ()  # what it may read, where that is its own
    # Prepared once where it is alone (see `as_job`); each time that it is asked for where it is not, since thousands of
    # points would hold the nodes of all their for-eachs from the first check to the last run.
    ready: Callable[[], Ready]
    number: int = 1  # in the sweep or the list, from 1 on
    origin: str = ""  # where its list of jobs asks for it, such as "line 3"
    workflow: str = ""  # the file as the list names it


def with_remedy(problem: Problem) -> Problem:
    """The problem in a sentence that says, on the command line, by which flags it is mended and how much it weighs."""
    flags = (
        " ".join(f"--set {shlex.quote(f'{target}={value}')}" for target, value in mend.items())
        for mend in problem.mends  # to be pasted into the command
    )
    mended = f" [{' or '.join(flags)}]" if problem.mends else ""
    return dataclasses.replace(problem, message=problem.message + mended + REMEDIES[problem.kind])


def foretold(
    points: Sequence[Point],
    specs: Mapping[str, NodeSpec],
    *,
    workspace: Workspace,
    targets: Collection[str] | None = None,
    is_there: Callable[[Point], bool] = lambda point: False,
) -> list[Foretold]:
    """What is known of each, which would write into a folder of its own; those that differ only in their seeds are
    looked at once. `is_there` tells of which nothing will be written; it is asked where the disk is short."""
    machine = devices_now()
    known: dict[tuple[Any, ...], Foretold] = {}
    found: list[Foretold] = []
    for point in points:
        mark = (point.file, point.roots, _mark_of(point.graph, specs))
        if mark not in known:
            own = dataclasses.replace(workspace, output_dir=point.folder, roots=point.roots or workspace.roots)
            known[mark] = foretell(point.ready(), workspace=own, machine=machine, targets=targets)
        found.append(known[mark])
    return _with_room(points, found, workspace, is_there) if len(found) > 1 else found


def _with_room(
    points: Sequence[Point], found: Sequence[Foretold], workspace: Workspace, is_there: Callable[[Point], bool]
) -> list[Foretold]:
    """What is known of each, and of those that the ones before them leave no room on the disk, that."""
    if not why_no_room(sum(known.num_bytes for known in found), workspace):
        return list(found)
    told: list[Foretold] = []
    before = 0
    for point, known in zip(points, found, strict=True):
        is_begun = not any(blocking(known.problems, is_forced=False)) and not is_there(point)
        num_bytes = before + known.num_bytes if is_begun else 0
        if why := why_no_room(num_bytes, workspace, what="this run and those of the sweep before it"):
            short = Problem("", "", "disk", why, kind="estimate")
            known = dataclasses.replace(known, problems=[short, *known.problems])
        elif is_begun:
            before = num_bytes
        told.append(known)
    return told


def _mark_of(graph: Graph, specs: Mapping[str, NodeSpec]) -> str:
    """The same for points whose seeds differ and nothing else, which are looked at once."""
    params = param_values(graph, {})
    if folded_in(graph):
        return graph_text(graph)
    marked = []
    for name, node in graph.nodes.items():
        for socket, entry in node.inputs.items():
            if not (isinstance(entry, ParamRef) and entry.param not in params):
                spec, value = specs.get(node.type), plain_value(entry, params)
                found = spec.input(socket) if spec else None
                is_seed = found is not None and found.widget == "seed" and not fault(found, value)
                marked.append((name, node.type, node.mode, socket, "seed" if is_seed else value))
    return repr(marked)


def is_refused(points: Points) -> bool:
    """Whether something keeps one of them from running."""
    return any(problem.kind != "unknown" for _, told in points for problem in told.problems)


def as_plain(points: Points) -> dict[str, Any]:
    found = [{**vars(problem), "point": varied} for varied, told in points for problem in told.problems]
    return {"problems": found, "values": [{"point": varied, "nodes": told.values} for varied, told in points]}


def as_text(file: Path, points: Points) -> str:
    """A line for each problem, with the values of the point that has it; where there is none, what will be made."""
    lines = []
    for varied, told in points:
        where = ",".join(f"{name}={value}" for name, value in varied.items())
        for problem in map(with_remedy, told.problems):
            lines.append(worded("{}: {}", where, problem) if where else str(problem))
    if not is_refused(points):
        shown = in_words(points[0][1].values) if len(points) == 1 else []
        lines.append("\n    ".join([f"{file}: no problems", *shown]))
    return "\n".join(lines)


def in_words(values: Meant) -> list[str]:
    """A line for each node: what 0, "" and "auto" will be there."""
    return [f"{node}: {', '.join(words)}" for node, own in values.items() if (words := _words(own))]


def _words(own: Mapping[str, Any]) -> list[str]:
    rest = {**own, **own.get("sampling", {})}
    rest.pop("sampling", None)
    words: list[str] = []
    if {"width", "height"} <= rest.keys():
        words.append(f"{rest.pop('width')} x {rest.pop('height')}")
    for name in ("frames", "steps"):
        if (count := rest.pop(name, 1)) != 1:
            words.append(f"{count} {name}")
    for name, value in rest.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        words.append(f"{name} {text if len(text) <= MOST_SHOWN else f'{text[: MOST_SHOWN - 3]}...'}")
    return words
