"""The form of an app: its settings, what they take, and which results it shows.

A setting is a param of the workflow. What the param does not say (widget, range, choices, help) is said by the first
socket that it feeds, as in the page's own forms (`web/src/simple/formFields.ts`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from ...nodes.graph.graph import Graph, Input, Link, Param, ParamRef, Wrapped
from ...nodes.graph.problems import GraphError, Names, Problem, short
from ...nodes.graph.scalars import fault
from ...nodes.graph.spec import InputSpec, Specs
from ...nodes.graph.unfolding.subs import with_subs
from ...nodes.preview.meant import Sizes
from ...parallel.wording import worded
from ..contract.app import AppForm, AppGroup, AppMask, AppShape, AppValue
from ..contract.shown import CatalogInput

Told = TypeVar("Told")


def form_of(graph: Graph, specs: Specs, *, version: int) -> AppForm:
    """All that whoever opens the app is told of it."""
    groups: list[AppGroup] = []
    fields, known = fields_of(graph, specs), with_subs(graph, specs)
    for name, field in fields.items():
        title = graph.params[name].group
        last = groups[-1:] if not title else [group for group in groups if group.title == title]
        if not last or last[0].title != title:
            groups.append(AppGroup(title=title, fields=[]))
            last = groups[-1:]
        last[0].fields.append(CatalogInput.model_validate(field))
    return AppForm(
        name=graph.name,
        description=graph.description,
        version=version,
        groups=groups,
        masks={name: mask_at(graph, known, node) for name, node, _ in _first(graph) if fields[name].widget == "mask"},
    )


def fields_of(graph: Graph, specs: Specs) -> dict[str, InputSpec]:
    """What each of the settings takes, in the order of the file."""
    known = with_subs(graph, specs)
    first: dict[str, InputSpec] = {}
    for name, node, socket in fed(graph):
        spec = known.get(graph.nodes[node].type)
        if spec and (found := spec.input(socket)):
            first.setdefault(name, found)
    return {name: _field(name, param, first.get(name)) for name, param in graph.params.items()}


def fed(graph: Graph) -> Iterator[tuple[str, str, str]]:
    """Each param with the node and socket of an input that it sets."""
    for name, node in graph.nodes.items():
        for socket, entry in node.inputs.items():
            if isinstance(entry, ParamRef):
                yield entry.param, name, socket


def _field(name: str, param: Param, socket: InputSpec | None) -> InputSpec:
    socket = socket or InputSpec(name=name, type=param.type, required=True)
    is_choice = param.type == "choice" or (param.type == "string" and socket.type == "choice")
    is_number = param.type in ("int", "float")
    return InputSpec(
        name=name,
        type="choice" if is_choice else param.type,
        required=param.default is None,
        default=param.default,
        choices=tuple(param.choices) or socket.choices,
        min=socket.min if param.min is None and is_number else param.min,
        max=socket.max if param.max is None and is_number else param.max,
        step=socket.step if param.type == "float" else None,
        widget="" if is_choice else socket.widget,
        auto=socket.auto,
        help=param.help or socket.help,
    )


def check_values(graph: Graph, specs: Specs, values: Mapping[str, Any], *, is_whole: bool = True) -> None:
    """Raises `GraphError` with all that is wrong. With `is_whole=False` only names that are no setting are refused."""
    faults = _faults(fields_of(graph, specs), values)
    if problems := [each for each in faults if is_whole or each.code == "unknown_param"]:
        raise GraphError(problems)


def _faults(fields: Mapping[str, InputSpec], values: Mapping[str, Any]) -> Iterator[Problem]:
    names = Names()
    for name, value in values.items():
        if name not in fields:
            hint = names.offer(name, fields)
            yield Problem(
                "", name, "unknown_param", worded("{} is no setting of this app; {}; leave it out", short(name), hint)
            )
        elif found := fault(replace(fields[name], required=True), value):
            yield Problem("", name, *found)
    for name, field in fields.items():
        if field.required and name not in values:
            yield Problem(
                "", name, "missing_param", worded("{} has no value, and this app needs one; fill it in", name)
            )


def by_setting(graph: Graph, told: Mapping[str, Mapping[str, Told]]) -> dict[str, Told]:
    """What is told of inputs by node and socket, of the settings that feed them."""
    return {name: told[node][socket] for name, node, socket in _first(graph) if socket in told.get(node, ())}


def shapes_of(graph: Graph, sizes: Mapping[str, Sizes]) -> dict[str, AppShape]:
    """The settings that are heights, with those that are the widths beside them."""
    widths = {node: name for name, node, socket in _first(graph) if socket == "width"}
    return {
        name: AppShape(width=widths[node], sizes=sizes[node])
        for name, node, socket in _first(graph)
        if socket == "height" and node in widths and node in sizes
    }


def _first(graph: Graph) -> list[tuple[str, str, str]]:
    """As `fed`, the first input of each."""
    return [*{each[0]: each for each in reversed([*fed(graph)])}.values()]


@contextmanager
def told_by_settings(graph: Graph) -> Iterator[None]:
    """What is wrong with a workflow is told of the settings that feed the places, and of no node."""
    try:
        yield
    except GraphError as error:
        told: dict[Problem, None] = {}  # each once: a setting may feed several nodes
        for problem in error.problems:
            node = graph.nodes.get(problem.node)
            entry = node.inputs.get(problem.socket) if node else None
            setting = entry.param if isinstance(entry, ParamRef) else "" if node else problem.socket
            told[replace(problem, node="", socket=setting, mends=(), inside="")] = None
        raise GraphError(told) from None


def is_shown(graph: Graph, node: str) -> bool:
    """Whether the form shows what this node saves: its owner may have said not to."""
    place = graph.layout.get(node.partition("/")[0])
    return not (isinstance(place, dict) and place.get("shown") is False)


CHANNEL = "channel"


def mask_at(graph: Graph, specs: Specs, node: str) -> AppMask:
    """The mask that a setting feeds to this node."""
    spec = specs.get(graph.nodes[node].type)
    default = next((each.default for each in spec.inputs if each.name == CHANNEL), None) if spec else None
    usual = AppValue(value=default if isinstance(default, str) else "")
    return AppMask(
        channel=_value(graph.nodes[node].inputs.get(CHANNEL)) or usual,
        picture=_picture_beside(graph, specs, node) or AppValue(),
    )


def _picture_beside(graph: Graph, specs: Specs, mask: str) -> AppValue | None:
    """Of the nodes that the mask reaches, at the first that a picture reaches as well."""
    feeds = {
        name: [each.node for each in node.inputs.values() if isinstance(each, Link) and each.node in graph.nodes]
        for name, node in graph.nodes.items()
    }
    fed: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for name, sources in feeds.items():
        for source in sources:
            fed[source].append(name)
    own = {*_walk(mask, feeds.__getitem__)}
    behind = (_walk(reached, feeds.__getitem__) for reached in _walk(mask, fed.__getitem__))
    pictures = (_picture_at(graph, specs, name) for name in chain.from_iterable(behind) if name not in own)
    return next((picture for picture in pictures if picture), None)


def _picture_at(graph: Graph, specs: Specs, name: str) -> AppValue | None:
    spec = specs.get(graph.nodes[name].type)
    socket = next((each.name for each in spec.inputs if each.widget == "picture"), None) if spec else None
    return _value(graph.nodes[name].inputs.get(socket)) if socket else None


def _value(entry: Input | None) -> AppValue | None:
    """None where it is not written there, but comes by a link."""
    match entry:
        case ParamRef():
            return AppValue(setting=entry.param)
        case str():
            return AppValue(value=entry)
        case Wrapped(value=str() as text):
            return AppValue(value=text)
        case _:
            return None


def _walk(start: str, after: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Each once, the nearest first."""
    rest, seen = [start], {start}
    for name in rest:
        yield name
        rest += (new := [each for each in dict.fromkeys(after(name)) if each not in seen])
        seen.update(new)
