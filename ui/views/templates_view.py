"""Which ready workflows run on this server, what the others lack, and where a node can be seen at work."""

from __future__ import annotations

from ...nodes.execution.preflight import foretell
from ...nodes.graph.graph import graph_from_plain
from ...nodes.graph.ready import ready
from ...nodes.registry import SPECS
from ...parallel.wording import worded
from ..contract.kept import Template
from ..contract.shown import NodeUse, TemplateNeeds
from ..errors import NotHere
from ..library.shipped import example_of, templates, templates_with
from ..settings import Settings
from .devices import devices_now
from .latest import Latest
from .models_view import FRESH_S

_NEEDS: Latest[list[TemplateNeeds]] = Latest()


def templates_needs(settings: Settings) -> list[TemplateNeeds]:
    """Of each template. Takes a second the first time: not for the event loop."""
    return _NEEDS.of(settings, lambda: [_needs(each, settings) for each in templates()], fresh_s=FRESH_S)


def node_use(type: str, settings: Settings) -> NodeUse:
    """An example of the node, with what it needs, and the templates that have it. Raises `NotHere`."""
    if type not in SPECS:
        raise NotHere(worded("there is no node {!r} on this server; reload the page", type[:40]))
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
