"""Sub-workflows: the spec of a node that uses one, where its nodes come to lie, and those that cannot be unfolded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....parallel.errors import BadInput
from ..graph import SUB, Graph, Node, ParamRef, Sub, SubParam, in_order
from ..spec import InputSpec, NodeSpec, OutputSpec, Specs

MAX_LEVELS = 16


class Folded(BadInput):
    """What keeps a node of the file from being unfolded; a `Problem` in the end."""

    code = "folded"

    def __init__(self, problem: str, message: str, socket: str = "", inside: str = "") -> None:
        super().__init__(message)
        self.problem, self.socket, self.inside = problem, socket, inside


@dataclass(eq=False)
class Scope:
    """Nodes of one list of nodes in the file, at one place where they are used."""

    path: str  # before the names of its nodes: "", or such as "paint/3/"
    words: str
    nodes: Mapping[str, Node]
    sub: Sub | None = None
    outer: Scope | None = None
    user: str = ""  # the node of the outer scope that uses it
    element: Mapping[str, Any] = field(default_factory=dict[str, Any])
    mode: str = "run"

    def fault(self, code: str, message: str, name: str, socket: str = "") -> Folded:
        """Of a node here; inside a sub-workflow the message says where."""
        if not self.path:
            return Folded(code, message, socket)
        place = ".".join(part for part in (self.path + name, socket) if part)
        return Folded(code, f"{self.words} / {name}: {message}", inside=place)


@dataclass(frozen=True)
class Copy:
    """One ordinary node as it will be: where, and with which element of its own for-each."""

    scope: Scope
    name: str
    id: str
    words: str
    element: Mapping[str, Any]


def sub_of(graph: Graph, node: Node) -> Sub | None:
    """The sub-workflow that a node uses; None of an ordinary one, and of one that the file lacks."""
    return graph.subs.get(node.type.removeprefix(SUB)) if node.type.startswith(SUB) else None


def with_subs(graph: Graph, specs: Specs) -> Specs:
    """The specs with those of nodes that use the workflow's sub-workflows, innermost first."""
    found = dict(specs)
    for name in _innermost_first(graph):
        found[SUB + name] = _spec(name, graph.subs[name], found)
    return found if graph.subs else specs


def unusable(graph: Graph) -> dict[str, str]:
    """Why sub-workflows cannot be unfolded, by name: one that contains itself, or too many inside each other."""
    levels = dict.fromkeys(_innermost_first(graph), 0)
    for name in levels:
        levels[name] = 1 + max((levels[each] for each in _used(graph, name)), default=0)
    return _circles(graph, levels) | {
        name: f"{level} sub-workflows lie inside each other in {name}; at most {MAX_LEVELS} may; fold fewer"
        for name, level in levels.items()
        if level > MAX_LEVELS
    }


def _used(graph: Graph, name: str) -> Iterator[str]:
    """The sub-workflows that one uses, of those that there are."""
    for node in graph.subs[name].nodes.values():
        if sub_of(graph, node) is not None:
            yield node.type.removeprefix(SUB)


def _innermost_first(graph: Graph) -> list[str]:
    """Without those that contain themselves, and that contain such a one."""
    return in_order({name: {*_used(graph, name)} for name in graph.subs})


def _circles(graph: Graph, good: Mapping[str, int]) -> dict[str, str]:
    """By each that contains itself, or contains such a one, the circle in words. Each is gone through once."""
    found: dict[str, str] = {}
    for name in graph.subs:
        way: list[str] = []
        places: dict[str, int] = {}
        while name not in good and name not in found and name not in places:
            places[name] = len(way)
            way.append(name)
            name = next(each for each in _used(graph, name) if each not in good)
        if name in places:
            circle = way[places[name] :]
            for index, each in enumerate(circle):
                back = (circle[(index - step) % len(circle)] for step in range(min(6, len(circle) + 1)))
                shown = " in ".join(back)
                found[each] = f"the sub-workflow {each} contains itself ({shown}); take it out of itself"
        if name in found:
            found |= {each: found[name] for each in way if each not in found}
    return found


def _spec(name: str, sub: Sub, specs: Specs) -> NodeSpec:
    return NodeSpec(
        id=SUB + name,
        version=1,
        title=sub.title or name,
        category="subs",
        help=sub.help,
        inputs=tuple(_input(param, each, sub, specs) for param, each in sub.params.items()),
        outputs=tuple(OutputSpec(name=each, type=_type(sub, each, specs)) for each in sub.outputs),
        call=_never,
        is_output=any(each.type in specs and specs[each.type].is_output for each in sub.nodes.values()),
    )


def _never(**inputs: Any) -> None:
    raise AssertionError("a sub-workflow is unfolded before it runs")


def _input(name: str, param: SubParam, sub: Sub, specs: Specs) -> InputSpec:
    """As the first socket has it that takes the param, where the param does not say otherwise."""
    taking = (
        spec.input(socket)
        for node in sub.nodes.values()
        for socket, entry in node.inputs.items()
        if isinstance(entry, ParamRef) and entry.param == name and (spec := specs.get(node.type))
    )
    alone = InputSpec(name=name, type=param.type, required=True, choices=tuple(param.choices))
    found = next(filter(None, taking), alone)
    return dataclasses.replace(
        found,
        name=name,
        required=found.required and param.default is None,
        default=found.default if param.default is None else param.default,
        min=found.min if param.min is None else param.min,
        max=found.max if param.max is None else param.max,
        help=param.help or found.help,
    )


def _type(sub: Sub, output: str, specs: Specs) -> str:
    link = sub.outputs[output]
    node = sub.nodes.get(link.node)
    spec = specs.get(node.type) if node else None
    found = spec.output(link.socket) if spec else None
    return found.type if found else ""
