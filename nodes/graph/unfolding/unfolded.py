"""A workflow that was unfolded, and the way back from its nodes to places in the file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..graph import Graph, Link
from ..problems import Problem
from ..resolve import Overrides

NUMBER = re.compile(r"/\d+(?=/|$)")
"""Of an element, in the name of an unfolded node."""


@dataclass(frozen=True, kw_only=True)
class Unfolded:
    """The workflow of ordinary nodes. A node that cannot be unfolded stays as it is, and is in `problems`."""

    graph: Graph
    overrides: Overrides
    """Without those that are in the graph now."""
    problems: tuple[Problem, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Inputs of unfolded nodes, and the input of the file's node where their value stands; both as node.socket."""

    def told(self, problems: Iterable[Problem]) -> list[Problem]:
        """Problems of unfolded nodes at the nodes of the file; what several elements have in common is told once."""
        kept: dict[tuple[str, ...], Problem] = {}
        counts: dict[tuple[str, ...], int] = {}
        for problem in problems:
            key = (NUMBER.sub("/*", problem.node), problem.socket, problem.code, problem.message)
            kept.setdefault(key, problem)
            counts[key] = counts.get(key, 0) + 1
        return [self._told(problem, counts[key]) for key, problem in kept.items()]

    def _told(self, problem: Problem, count: int) -> Problem:
        if "/" not in problem.node:
            return problem
        place = self.places.get(f"{problem.node}.{problem.socket}", "")
        also = f" (and in {count - 1} more of its elements)" if count > 1 else ""
        mends = [
            {self.places[each]: value for each, value in mend.items()}
            for mend in problem.mends
            if mend.keys() <= self.places.keys()
        ]
        return dataclasses.replace(
            problem,
            node=top_of(problem.node),
            socket=place.partition(".")[2],
            message=f"{self.graph.nodes[problem.node].title}: {problem.message}{also}",
            mends=tuple(mends),
            inside=".".join(part for part in (problem.node, problem.socket) if part),
        )


def made_in(target: str, graph: Graph) -> dict[str, tuple[str, str]]:
    """What an unfolded graph has of a node, or of an output, of the file, by name: (node, output), where "" is all that
    the node gives. A node inside of a sub-workflow is such as paint/denoise, of all elements."""
    found = {name: (link.node, link.socket) for name, link in graph.outputs.items() if top_of(name) == target}
    plain = {name: NUMBER.sub("", name) for name in graph.nodes if top_of(name) == top_of(target)}
    inside = [name for name, each in plain.items() if f"{each}/".startswith(f"{target}/")]
    used = {entry.node for name in inside for entry in graph.nodes[name].inputs.values() if isinstance(entry, Link)}
    return found or {name: (name, "") for name in inside if name not in used}


def top_of(node: str) -> str:
    """The node of the file that an unfolded one comes from."""
    return node.partition("/")[0]
