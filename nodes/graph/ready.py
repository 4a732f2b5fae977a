"""A workflow made ready: ordinary nodes of today's versions, with their values, sockets and modes decided.

Six steps, whose order matters, are called here alone; those that decide sockets and modes lie below. Whoever checks,
previews, orders, exports or explains a workflow is handed a `Ready` and prepares nothing again.
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...parallel.wording import worded
from ..files.workspace import Host, Workspace
from .graph import Graph, Link, Node, ParamRef
from .problems import GraphError, Problem, refuse
from .resolve import Overrides, baked, param_values, plain_value, upgrade
from .spec import Chooser, NodeSpec, Specs
from .unfolding.unfold import unfold
from .unfolding.unfolded import Unfolded

# Codes of problems: what leaves the sockets as they are, and after which nothing is known of them.
NO_FIT, UNDECIDED = "no_fit", ("linked_choice", "unknown_choice")


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Made by `ready`. It may have problems; `check` finds all of them."""

    file: Graph  # the workflow as it was given
    asked: Overrides
    types: Specs  # the nodes that are installed, by type
    host: Host  # who asks
    unfolding: Unfolded  # the way from unfolded nodes back to the file, and what could not be unfolded
    written: Graph  # with the nodes that are switched off, and before any file was asked what sockets a node has
    graph: Graph  # the nodes that run, with what files say of their sockets
    specs: Mapping[str, NodeSpec]  # of each node that is installed, by its name, those that are switched off among them
    problems: tuple[Problem, ...]  # nodes that cannot become today's version, or whose sockets cannot be decided

    @cached_property
    def params(self) -> Mapping[str, Any]:
        return param_values(self.graph, {})

    def inputs_as_written(self, name: str) -> dict[str, Any]:
        """What stands at a node that runs, without what files say: for a host that asks its own files."""
        now = self.graph.nodes[name].inputs
        own = self.written.nodes[name].inputs.items()
        entries = {socket: now.get(socket) if isinstance(entry, Link) else entry for socket, entry in own}
        return {socket: entry for socket, entry in entries.items() if entry is not None or socket in now}


def ready(
    graph: Graph, types: Specs, overrides: Overrides | None = None, *, workspace: Workspace | None = None
) -> Ready:
    """Prepare a workflow with these values in place of its own. Raises nothing: what is wrong is in the value.

    In the `workspace` folders are listed, and files looked at that say which sockets a node has; without one none is,
    and a node that only a file tells of is known as far as the workflow itself tells.
    """
    asked = overrides or {}
    unfolding = unfold(graph, types, asked, workspace)  # first: a for-each makes nodes, which the other steps look at
    newest, too_old = upgrade(unfolding.graph, types, unfolding.overrides)
    written = baked(newest, unfolding.overrides)  # which name sockets of today's version
    whole, undecided = settled(written, types, workspace)
    known = specs_of(whole, types)
    return Ready(
        file=graph,
        asked=asked,
        types=types,
        host=workspace.host if workspace else "python",
        unfolding=unfolding,
        written=written,
        graph=effective(whole, known),
        specs=known,
        problems=(*too_old, *undecided),
    )


# ---- Sockets: those of a node that has others by what is given at some of them. The workflow file says all that is
# needed for that, or names files that do; nothing else is asked.


def specs_of(graph: Graph, specs: Mapping[str, NodeSpec]) -> dict[str, NodeSpec]:
    """The spec of each node that is installed, by the node's name; one that cannot be chosen is the node's own."""
    found = {name: specs[node.type] for name, node in graph.nodes.items() if node.type in specs}
    params = param_values(graph, {})
    for name, spec in found.items():
        if spec.chooser is not None:
            with contextlib.suppress(ValueError):  # `settled` tells
                found[name] = spec.chooser.choose(_given(spec.chooser, graph.nodes[name], params)) or spec
    return found


def settled(graph: Graph, specs: Mapping[str, NodeSpec], workspace: Workspace | None) -> tuple[Graph, list[Problem]]:
    """The graph with what files say of its nodes' sockets written into it, and what is wrong with what is written.

    Without a workspace no file is read, and a node that only a file tells of stays as it is.
    """
    changed: dict[str, Node] = {}
    problems: list[Problem] = []
    params = param_values(graph, {})
    for name, node in graph.nodes.items():
        chooser = specs[node.type].chooser if node.type in specs else None
        if chooser is None:
            continue
        decides = [each for each in chooser.by if each not in chooser.may_link]
        if linked := next((each for each in decides if isinstance(node.inputs.get(each), Link)), None):
            message = worded("{} comes from another node, but the sockets depend on it; write it", linked)
            problems.append(Problem(name, linked, "linked_choice", message))
            continue
        given = _given(chooser, node, params)
        try:
            more = chooser.find(given, workspace) if workspace is not None else {}
            if more:
                changed[name] = node.model_copy(update={"inputs": {**node.inputs, **more}})
                given = {**given, **more}
            chooser.choose(given)
            if workspace is not None and not more and (why := chooser.fits(given, workspace)):
                problems.append(Problem(name, chooser.by[-1], NO_FIT, why))
        except ValueError as error:
            problems.append(Problem(name, chooser.by[-1], "unknown_choice", str(error)))
    return (graph.model_copy(update={"nodes": {**graph.nodes, **changed}}) if changed else graph), problems


def _given(chooser: Chooser, node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    """What is written at the sockets that decide; without what comes by a wire, or by a param that is not there."""
    inputs = node.inputs
    entries = {name: inputs[name] for name in chooser.by if name in inputs and not isinstance(inputs[name], Link)}
    return {
        name: plain_value(entry, params)
        for name, entry in entries.items()
        if not isinstance(entry, ParamRef) or params.get(entry.param) is not None
    }


def chosen(spec: NodeSpec, values: Mapping[str, Any], workspace: Workspace) -> NodeSpec:
    """The node as these plain values have it, files asked. Raises `ValueError`."""
    if spec.chooser is None:
        return spec
    given = {name: values[name] for name in spec.chooser.by if name in values}
    return spec.chooser.choose({**given, **spec.chooser.find(given, workspace)}) or spec


# ---- Modes: a run, the checker and an export see the graph without the nodes that are switched off. A bypassed
# node hands its first linked input of an output's type on to that output's consumers. A muted node is left out, and so
# is one whose required input comes from such a node; an optional input loses the link, an output goes.


def effective(graph: Graph, specs: Specs) -> Graph:
    """The graph of the nodes that run. Specs are by node."""
    if all(node.mode == "run" for node in graph.nodes.values()):
        return graph
    sources = _Sources(graph, specs)
    links = {name: sources.links(name) for name in graph.nodes}
    gone = _left_out(graph, specs, links)

    def there(found: Mapping[str, Link | None]) -> dict[str, Link]:
        return {name: link for name, link in found.items() if link is not None and link.node not in gone}

    nodes = {name: _rewired(node, there(links[name])) for name, node in graph.nodes.items() if name not in gone}
    outputs = there({name: sources.of(link) for name, link in graph.outputs.items()})
    return graph.model_copy(update={"nodes": nodes, "outputs": outputs})


def left_out(graph: Graph, name: str) -> GraphError:
    """Why a node that was asked for is not in the effective graph."""
    why = {
        "mute": "it is muted; run it, or ask for another node",
        "bypass": "it is bypassed and makes nothing of its own; run it, or ask for another node",
        "run": "it needs a node that is muted; run that one too, or ask for another node",
    }
    return refuse("left_out", why[graph.nodes[name].mode], node=name)


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
        while current and (node := self._graph.nodes.get(current.node)) and node.mode != "run":
            if current.source in self._known:
                current = self._known[current.source]
                break
            self._known[current.source] = None  # till the way's end is known; nodes in a circle have none
            way.append(current.source)
            current = self._handed_on(node, current)
        self._known.update(dict.fromkeys(way, current))
        return current

    def _handed_on(self, node: Node, link: Link) -> Link | None:
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


def _rewired(node: Node, links: Mapping[str, Link]) -> Node:
    """The node with these links, and no others."""
    kept = {socket: entry for socket, entry in node.inputs.items() if socket in links or not isinstance(entry, Link)}
    inputs = {socket: links.get(socket, entry) for socket, entry in kept.items()}
    return node if inputs == node.inputs else node.model_copy(update={"inputs": inputs})
