"""Nodes whose sockets depend on what is given at some of them: which sockets a node of a workflow has.

The workflow file says all that is needed for that, or names files that do; nothing else is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...parallel.wording import worded
from ..files.workspace import Workspace
from .graph import Graph, Link, Node, ParamRef
from .problems import Problem, short
from .resolve import param_values, plain_value

if TYPE_CHECKING:
    from .spec import InputSpec, NodeSpec

# Codes of problems: what leaves the sockets as they are, and after which nothing is known of them.
NO_FIT, UNDECIDED = "no_fit", ("linked_choice", "unknown_choice")
# The socket that holds, as a JSON object, the values of those that a host with fixed sockets has no place for.
ARGUMENTS = "arguments"


@dataclass(frozen=True, kw_only=True)
class Chooser:
    """How a node's sockets follow from what is given at `by`. Nothing here imports torch."""

    by: tuple[str, ...]
    # The node with the sockets that these values ask for; None where they do not say. Reads no file. Raises
    # `ValueError` for what there is not.
    choose: Callable[[Mapping[str, Any]], NodeSpec | None]
    # The values that files say where the workflow leaves them out. Raises `ValueError` where they cannot.
    find: Callable[[Mapping[str, Any], Workspace], Mapping[str, Any]] = lambda values, workspace: {}
    # Why files say that what is chosen cannot be; "" where they do not. The sockets are those of the choice anyhow.
    fits: Callable[[Mapping[str, Any], Workspace], str] = lambda values, workspace: ""
    may_link: tuple[str, ...] = ()  # those of `by` that may come by a wire, and are then not known to `choose`
    # For a host whose nodes always have the same sockets: beside the node's own, those that most choices have or that
    # only a wire can feed, and `arguments` for the rest.
    fixed: tuple[InputSpec, ...] = ()


def specs_of(graph: Graph, specs: Mapping[str, NodeSpec]) -> dict[str, NodeSpec]:
    """The spec of each node that is installed, by the node's name; one that cannot be chosen is the node's own."""
    found = {name: specs[node.type] for name, node in graph.nodes.items() if node.type in specs}
    params = param_values(graph, {})
    for name, spec in found.items():
        if spec.chooser is not None:
            try:
                found[name] = spec.chooser.choose(_given(spec.chooser, graph.nodes[name], params)) or spec
            except ValueError:
                continue  # `settled` tells
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


def fixed_inputs(spec: NodeSpec) -> tuple[InputSpec, ...]:
    """A node's sockets in a host whose nodes always have the same ones."""
    return (*spec.inputs, *spec.chooser.fixed) if spec.chooser else spec.inputs


def folded(spec: NodeSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of any of a node's sockets, for those of a host whose nodes always have the same ones."""
    if spec.chooser is None:
        return dict(values)
    fixed = {socket.name for socket in fixed_inputs(spec)}
    rest = {name: value for name, value in values.items() if name not in fixed}
    kept = {name: value for name, value in values.items() if name in fixed}
    return {**kept, ARGUMENTS: json.dumps(rest)} if rest else kept


def unfolded(spec: NodeSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `folded`; a text that is empty at a socket of the host counts as not given. Raises
    `ValueError`."""
    if spec.chooser is None:
        return dict(values)
    fixed = {socket.name for socket in spec.chooser.fixed}
    kept = {name: value for name, value in values.items() if name != ARGUMENTS and (name not in fixed or value != "")}
    text = values.get(ARGUMENTS) or "{}"
    try:
        rest = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        rest = None
    if not isinstance(rest, dict):
        raise ValueError(
            worded('{} is {}; write a JSON object of sockets, such as {{"height": 512}}', ARGUMENTS, short(text))
        )
    if twice := next((name for name in rest if name in kept), None):
        raise ValueError(worded("{} is given by its own socket and in {}; leave one of them out", twice, ARGUMENTS))
    return {**kept, **rest}


def chosen(spec: NodeSpec, values: Mapping[str, Any], workspace: Workspace) -> NodeSpec:
    """The node as these plain values have it, files asked. Raises `ValueError`."""
    if spec.chooser is None:
        return spec
    given = {name: values[name] for name in spec.chooser.by if name in values}
    return spec.chooser.choose({**given, **spec.chooser.find(given, workspace)}) or spec
