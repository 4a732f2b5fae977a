"""Which ready workflows run on this server, what the others lack, and where a node can be seen at work."""

from __future__ import annotations

import threading
import time

from ...nodes.execution.preflight import foretell
from ...nodes.graph.graph import graph_from_plain
from ...nodes.graph.ready import ready
from ...nodes.registry import SPECS
from ..contract.kept import Template
from ..contract.shown import NodeUse, TemplateNeeds
from ..errors import NotHere
from ..library.shipped import example_of, templates, templates_with
from ..settings import Settings
from .devices import devices_now
from .models_view import FRESH_S


class _Needs:
    """The latest answer, of one server's settings; who asks while it is made waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = float("-inf")
        self._settings: Settings | None = None
        self._found: list[TemplateNeeds] = []

    def of(self, settings: Settings) -> list[TemplateNeeds]:
        with self._lock:
            if settings is not self._settings or time.monotonic() - self._taken > FRESH_S:
                self._found = [_needs(template, settings) for template in templates()]
                self._settings, self._taken = settings, time.monotonic()
            return self._found


_NEEDS = _Needs()


def templates_needs(settings: Settings) -> list[TemplateNeeds]:
    """Of each template. Takes a second the first time: not for the event loop."""
    return _NEEDS.of(settings)


def node_use(type: str, settings: Settings) -> NodeUse:
    """An example of the node, with what it needs, and the templates that have it. Raises `NotHere`."""
    if type not in SPECS:
        raise NotHere(f"there is no node {type[:40]!r} on this server; reload the page")
    found = example_of(type)
    if found is None:
        return NodeUse(example=None, node="", needs=None, templates=[])
    example, node = found
    return NodeUse(example=example, node=node, needs=_needs(example, settings), templates=templates_with(type))


def _needs(template: Template, settings: Settings) -> TemplateNeeds:
    graph = graph_from_plain(template.graph)
    workspace = settings.reading(settings.place)
    found = foretell(ready(graph, SPECS, workspace=workspace), workspace=workspace, machine=devices_now()).problems
    problem = next((each for each in found if each.kind != "unknown"), None)
    model = ""
    if problem is not None and problem.socket == "source":
        spec = SPECS.get(graph.nodes[problem.node].type)
        is_model = spec is not None and (socket := spec.input("source")) is not None and socket.widget == "model"
        source = graph.params.get("source")
        model = str(source.default) if is_model and source is not None else ""
    return TemplateNeeds(id=template.id, runs=problem is None, model=model, why=problem.message if problem else "")
