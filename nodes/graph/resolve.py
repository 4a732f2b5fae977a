"""From the file to what nodes are called with: older nodes upgraded, overrides and params in, defaults filled.

An *override* is a value given for one run, for a param by its name or for one input as `node.socket`. *Upgrading* a
node applies its migration to inputs that an older version saved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...parallel.wording import worded
from .graph import Graph, Link, Node, Param, ParamRef, Wrapped
from .problems import Problem
from .scalars import as_type
from .spec import InputSpec, NodeSpec

Overrides = Mapping[str, Any]  # by a param's name, or by "node.socket"


@dataclass(frozen=True, slots=True)
class Resolved:
    """One node ready to be called, once its links have values."""

    node: Node
    spec: NodeSpec
    values: dict[str, Any]
    links: dict[str, Link]


def upgrade(graph: Graph, specs: Mapping[str, NodeSpec], overrides: Overrides) -> tuple[Graph, list[Problem]]:
    """Bring nodes saved by older versions up to the installed ones; problems name those that cannot be."""
    problems: list[Problem] = []
    params = param_values(graph, overrides)
    changed: dict[str, Node] = {}
    for name, node in graph.nodes.items():
        spec = specs.get(node.type)
        if spec is None or node.version >= spec.version:
            continue
        try:
            changed[name] = _upgraded(node, spec, params)
        except (ValueError, KeyError, TypeError) as error:
            message = worded(
                "it was saved with version {} of {}, and cannot become version {} ({}: {}); set it up again",
                node.version,
                node.type,
                spec.version,
                type(error).__name__,
                error,
            )
            problems.append(Problem(name, "", "no_migration", message))
    return (graph.model_copy(update={"nodes": {**graph.nodes, **changed}}) if changed else graph), problems


def _upgraded(node: Node, spec: NodeSpec, params: Mapping[str, Any]) -> Node:
    """A param of a socket that is there no more is given as its value, which the migration may have to translate."""
    if spec.migrate is None:
        raise ValueError("there is no migration")
    plain = node.model_dump(by_alias=True)
    gone = {name: entry for name, entry in node.inputs.items() if spec.input(name) is None}
    values = {name: params[entry.param] for name, entry in gone.items() if isinstance(entry, ParamRef)}
    inputs = spec.migrate(node.version, {**plain["inputs"], **values})
    return Node.model_validate({**plain, "version": spec.version, "inputs": inputs})


def param_values(graph: Graph, overrides: Overrides) -> dict[str, Any]:
    """Every param by name; None where it has no default and was not given."""
    return {name: overrides.get(name, param.default) for name, param in graph.params.items()}


def param_socket(name: str, param: Param) -> InputSpec:
    """A param as a socket, so that the same rules check its value."""
    return InputSpec(
        name=name, type=param.type, required=True, choices=tuple(param.choices), min=param.min, max=param.max
    )


def with_overrides(graph: Graph, overrides: Overrides) -> dict[str, Node]:
    """The nodes, with those inputs replaced that a "node.socket" override names."""
    nodes = dict(graph.nodes)
    for target, value in overrides.items():
        name, dot, socket = target.partition(".")
        if dot and (node := nodes.get(name)):
            nodes[name] = node.model_copy(update={"inputs": {**node.inputs, socket: value}})
    return nodes


def plain_value(entry: Any, params: Mapping[str, Any]) -> Any:
    """The value of an input that is no link."""
    if isinstance(entry, ParamRef):
        return params[entry.param]
    return entry.value if isinstance(entry, Wrapped) else entry


def resolve(graph: Graph, specs: Mapping[str, NodeSpec]) -> dict[str, Resolved]:
    """Every node of a checked graph, with its spec; those are by node."""
    params = param_values(graph, {})
    found: dict[str, Resolved] = {}
    for name, node in graph.nodes.items():
        made = found[name] = Resolved(node, specs[name], values={}, links={})
        for socket in made.spec.inputs:
            if isinstance(entry := node.inputs.get(socket.name, socket.default), Link):
                made.links[socket.name] = entry
            else:
                made.values[socket.name] = as_type(socket.type, plain_value(entry, params))
    return found


def baked(graph: Graph, overrides: Mapping[str, Any]) -> Graph:
    """The workflow with these values as its own, so that its file alone gives the same result."""
    if not overrides:
        return graph
    params = {
        name: param.model_copy(update={"default": overrides.get(name, param.default)})
        for name, param in graph.params.items()
    }
    return graph.model_copy(update={"params": params, "nodes": with_overrides(graph, overrides)})
