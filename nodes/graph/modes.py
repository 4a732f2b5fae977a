"""Mute and bypass: the graph that a run, the checker and an export see, without the nodes that are switched off.

A bypassed node hands its first linked input of an output's type on to that output's consumers. A muted node is left
out, and so is one whose required input comes from such a node; an optional input loses the link, an output goes.
"""

from collections import defaultdict
from collections.abc import Mapping

from .graph import Graph, Link, Node
from .problems import GraphError, refuse
from .spec import NodeSpec

Specs = Mapping[str, NodeSpec]


def effective(graph: Graph, specs: Specs) -> Graph:
    """The graph of the nodes that run. Specs are by node."""
    if all(node.mode == "run" for node in graph.nodes.values()):
        return graph
    sources = _Sources(graph, specs)
    links = {name: sources.links(name) for name in graph.nodes}
    gone = _left_out(graph, specs, links)
    nodes = {
        name: _rewired(node, {socket: _if_there(link, gone) for socket, link in links[name].items()})
        for name, node in graph.nodes.items()
        if name not in gone
    }
    results = {name: _if_there(sources.of(link), gone) for name, link in graph.outputs.items()}
    outputs = {name: link for name, link in results.items() if link is not None}
    return graph.model_copy(update={"nodes": nodes, "outputs": outputs})


def left_out(graph: Graph, name: str) -> GraphError:
    """Why a node that was asked for is not in the effective graph."""
    why = {
        "mute": "it is muted; run it, or ask for another node",
        "bypass": "it is bypassed and makes nothing of its own; run it, or ask for another node",
        "run": "it needs a node that is muted; run that one too, or ask for another node",
    }
    return refuse("left_out", why[graph.nodes[name].mode], node=name)


def nothing_left() -> GraphError:
    """For a run whose every result is left out."""
    message = "nothing is left to run, because all outputs are muted or need a muted node; let one of them run"
    return refuse("nothing_to_run", message)


class _Sources:
    """Where links really come from, through bypassed nodes; each output is followed once. Specs are by node."""

    def __init__(self, graph: Graph, specs: Specs) -> None:
        self._graph, self._specs = graph, specs
        self._known: dict[str, Link | None] = {}

    def links(self, name: str) -> dict[str, Link | None]:
        """Where the linked inputs of a node that runs come from, by socket; None where nothing comes."""
        if self._graph.nodes[name].mode != "run":
            return {}
        entries = self._graph.nodes[name].inputs.items()
        return {socket: self.of(entry) for socket, entry in entries if isinstance(entry, Link)}

    def of(self, link: Link) -> Link | None:
        """The output that a link leads to; None for one that is muted or has nothing to hand on."""
        way: list[str] = []
        current: Link | None = link
        while current is not None and self._is_off(current):
            if current.source in self._known:
                current = self._known[current.source]
                break
            self._known[current.source] = None  # till the way's end is known; nodes in a circle have none
            way.append(current.source)
            current = self._handed_on(current)
        self._known.update(dict.fromkeys(way, current))
        return current

    def _is_off(self, link: Link) -> bool:
        node = self._graph.nodes.get(link.node)
        return node is not None and node.mode != "run"

    def _handed_on(self, link: Link) -> Link | None:
        node = self._graph.nodes[link.node]
        spec = self._specs.get(link.node)
        output = spec.output(link.socket) if spec else None
        if node.mode == "mute" or spec is None or output is None:
            return None
        given = (node.inputs.get(each.name) for each in spec.inputs if each.type == output.type)
        return next((entry for entry in given if isinstance(entry, Link)), None)


def _left_out(graph: Graph, specs: Specs, links: Mapping[str, Mapping[str, Link | None]]) -> set[str]:
    users: dict[str, set[str]] = defaultdict(set)
    gone = {name for name, node in graph.nodes.items() if node.mode != "run"}
    waiting: list[str] = []
    for name, sources in links.items():
        spec = specs.get(name)  # one that is not known needs nothing: the node stays, so that the checker names it
        required = [socket.name for socket in spec.inputs if socket.required] if spec else []
        for link in (sources[socket] for socket in required if socket in sources):
            if link is None:
                waiting.append(name)
            else:
                users[link.node].add(name)
    while waiting:
        name = waiting.pop()
        if name not in gone:
            gone.add(name)
            waiting.extend(users[name])
    return gone


def _if_there(link: Link | None, gone: set[str]) -> Link | None:
    return None if link is None or link.node in gone else link


def _rewired(node: Node, links: Mapping[str, Link | None]) -> Node:
    """The node with these links; None takes one away."""
    if all(node.inputs.get(socket) == link for socket, link in links.items()):
        return node
    lost = {socket for socket, link in links.items() if link is None}
    inputs = {socket: links.get(socket, entry) for socket, entry in node.inputs.items() if socket not in lost}
    return node.model_copy(update={"inputs": inputs})
