"""The masks among an app's settings: how each is read, and over which picture it is painted.

What lies under a mask is found as in the page (`web/src/material/mask/under.ts`): by the links from the mask to where
both meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from ...nodes.graph.graph import Graph, Input, Link, ParamRef, Wrapped
from ...nodes.graph.spec import NodeSpec
from ..contract.app import AppMask, AppValue

CHANNEL = "channel"


def mask_at(graph: Graph, specs: Mapping[str, NodeSpec], node: str) -> AppMask:
    """The mask that a setting feeds to this node."""
    spec = specs.get(graph.nodes[node].type)
    default = next((each.default for each in spec.inputs if each.name == CHANNEL), None) if spec else None
    usual = AppValue(value=default if isinstance(default, str) else "")
    return AppMask(
        channel=_value(graph.nodes[node].inputs.get(CHANNEL)) or usual,
        picture=_picture_beside(graph, specs, node) or AppValue(),
    )


def _picture_beside(graph: Graph, specs: Mapping[str, NodeSpec], mask: str) -> AppValue | None:
    """Of the nodes that the mask reaches, at the first that a picture reaches as well."""
    feeds = {name: [source for source in _sources(graph, name) if source in graph.nodes] for name in graph.nodes}
    fed: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for name, sources in feeds.items():
        for source in sources:
            fed[source].append(name)
    own = {*_walk(mask, feeds.__getitem__)}
    behind = (_walk(reached, feeds.__getitem__) for reached in _walk(mask, fed.__getitem__))
    pictures = (_picture_at(graph, specs, name) for name in chain.from_iterable(behind) if name not in own)
    return next((picture for picture in pictures if picture), None)


def _picture_at(graph: Graph, specs: Mapping[str, NodeSpec], name: str) -> AppValue | None:
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


def _sources(graph: Graph, name: str) -> Iterator[str]:
    for entry in graph.nodes[name].inputs.values():
        if isinstance(entry, Link):
            yield entry.source.partition(".")[0]


def _walk(start: str, after: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Each once, the nearest first."""
    rest, seen = [start], {start}
    for name in rest:
        yield name
        rest += (new := [each for each in dict.fromkeys(after(name)) if each not in seen])
        seen.update(new)
