"""What a for-each gives, gathered into one value; what it saves, named apart; and whose each part is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph import MAX_NODES, Link, Node
from ..resolve import Resolved
from ..spec import NodeSpec
from .unfolded import NUMBER


@dataclass(frozen=True)
class Joiner:
    """A node that makes one value of several."""

    type: str
    sockets: tuple[str, ...]
    output: str
    given: Mapping[str, Any]
    """What else it is given."""


JOINERS: Mapping[str, Joiner] = {
    "Image": Joiner("LoomBatchPictures", ("image", *(f"image_{number}" for number in range(2, 9))), "image", {}),
    "string": Joiner("LoomJoinText", ("first", "second", "third", "fourth"), "text", {"separator": "\n"}),
}
"""By the type of what they join."""


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
    batches = [each for each in (name, *_sources(nodes[name])) if nodes[each].spec.id == joiner.type]
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


def _sources(node: Resolved) -> list[str]:
    return [*dict.fromkeys(link.node for link in node.links.values())]


def link_to(node: str, socket: str) -> Link:
    """A link to an unfolded node, whose name is none that a file may have."""
    return Link.model_construct(source=f"{node}.{socket}")


def named_apart(inputs: dict[str, Any], spec: NodeSpec, id: str) -> dict[str, Any]:
    """So that no two elements write one file: the plain name of what is saved, with the numbers of its elements."""
    socket = spec.input("name")
    name = inputs.get("name", socket.default if socket else None)
    numbers = "".join(NUMBER.findall(id)).replace("/", "-")
    return {**inputs, "name": name + numbers} if isinstance(name, str) and numbers else inputs
