"""A workflow that was unfolded: the way back to places in the file, and what a for-each gives, gathered."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..graph import MAX_NODES, Graph, Link, Node
from ..problems import Problem
from ..resolve import Overrides, Resolved
from ..spec import NodeSpec

NUMBER = re.compile(r"/\d+(?=/|$)")  # of an element, in the name of an unfolded node


@dataclass(frozen=True, kw_only=True)
class Unfolded:
    """The workflow of ordinary nodes. A node that cannot be unfolded stays as it is, and is in `problems`."""

    graph: Graph
    overrides: Overrides  # without those that are in the graph now
    problems: tuple[Problem, ...] = ()
    # Inputs of unfolded nodes, and the input of the file's node where their value stands; both as node.socket.
    places: Mapping[str, str] = field(default_factory=dict[str, str])

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


# ---- What a for-each gives, gathered into one value; what it saves, named apart; and whose each part is.


@dataclass(frozen=True)
class Joiner:
    """A node that makes one value of several."""

    type: str
    sockets: tuple[str, ...]
    output: str
    given: Mapping[str, Any]  # what else it is given


# By the type of what they join.
JOINERS: Mapping[str, Joiner] = {
    "Image": Joiner("LoomBatchPictures", ("image", *(f"image_{number}" for number in range(2, 9))), "image", {}),
    "string": Joiner("LoomJoinText", ("first", "second", "third", "fourth"), "text", {"separator": "\n"}),
}


def gathered(
    id: str, title: str, sources: Sequence[Link], joiner: Joiner, specs: Mapping[str, NodeSpec]
) -> tuple[dict[str, Node], Link]:
    """The nodes that join several values, the last of which is called `id`, and where their one value comes from."""
    version = specs[joiner.type].version if joiner.type in specs else 1
    nodes: dict[str, Node] = {}
    left = list(sources)
    while len(left) > 1:
        parts = [left[at : at + len(joiner.sockets)] for at in range(0, len(left), len(joiner.sockets))]
        left = []
        for part in parts:
            name = id if len(parts) == 1 else f"{id}/{len(nodes) + 1}"
            inputs = {**dict(zip(joiner.sockets, part, strict=False)), **joiner.given}
            nodes[name] = Node(type=joiner.type, version=version).model_copy(update={"title": title, "inputs": inputs})
            left.append(link_to(name, joiner.output))
    return nodes, left[0]


def parts_of(name: str, nodes: Mapping[str, Resolved]) -> tuple[str, ...]:
    """The nodes whose pictures a node makes or is given as one batch, in order; empty where they are not of several
    nodes, or of more than a workflow may have."""
    joiner = JOINERS["Image"]
    sources = dict.fromkeys(link.node for link in nodes[name].links.values())
    batches = [each for each in (name, *sources) if nodes[each].spec.id == joiner.type]
    if not batches or (len(batches) > 1 and batches[0] != name):
        return ()
    parts: list[str] = []
    left = batches[:1]
    while left:
        each = left.pop()
        if nodes[each].spec.id == joiner.type:
            links = nodes[each].links
            left += [links[socket].node for socket in reversed(joiner.sockets) if socket in links]
        else:
            parts.append(each)
        if len(parts) + len(left) > MAX_NODES:
            return ()
    return tuple(parts)


def link_to(node: str, socket: str) -> Link:
    """A link to an unfolded node, whose name is none that a file may have."""
    return Link.model_construct(source=f"{node}.{socket}")


def named_apart(inputs: dict[str, Any], spec: NodeSpec, id: str) -> dict[str, Any]:
    """So that no two elements write one file: the plain name of what is saved, with the numbers of its elements."""
    socket = spec.input("name")
    name = inputs.get("name", socket.default if socket else None)
    numbers = "".join(NUMBER.findall(id)).replace("/", "-")
    return {**inputs, "name": name + numbers} if isinstance(name, str) and numbers else inputs
