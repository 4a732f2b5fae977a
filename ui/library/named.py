"""Workflows by the names under which programs run them: saved ones, apps and templates; and what may be set of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...nodes.files.workspace import Workspace
from ...nodes.graph.graph import Graph, graph_from_plain
from ...nodes.headless.job import check_apart, parse_sweep, typed_values
from ...nodes.registry import SPECS
from ...parallel.errors import did_you_mean
from ...parallel.wording import worded
from ..errors import NotHere
from .app_form import check_values
from .apps import Published
from .library import Library
from .shipped import templates


@dataclass(frozen=True, kw_only=True)
class Named:
    """A workflow, with the name that found it."""

    name: str
    graph: Graph
    workflow_id: str | None = None  # of one of the user's own that runs as it is saved now
    app: Published | None = None  # then nothing but its settings may be set

    def values(self, given: Mapping[str, Any], sweep: Sequence[str], workspace: Workspace) -> dict[str, Any]:
        """What is given, read and checked as the command line's `--set` and `--sweep` are. Raises `ValueError`."""
        if self.app:  # before anything is said of nodes
            names = {*given, *(text.partition("=")[0].strip() for text in sweep)}
            check_values(self.graph, SPECS, dict.fromkeys(names), is_whole=False)
        values = typed_values(self.graph, SPECS, given, workspace=workspace)
        varied = parse_sweep(self.graph, SPECS, sweep, given=values, workspace=workspace)
        check_apart(self.graph, values, varied)
        for each in varied if self.app else ():
            check_values(self.graph, SPECS, {**values, **each})
        return values


def named(library: Library, user: str, name: str) -> Named:
    """By the id or name of a workflow that the user has saved, or as `model_named`. Raises `NotHere`."""
    heads = library.heads(user)
    for head in (*(each for each in heads if each.id == name), *(each for each in heads if each.name == name)):
        return Named(name=name, graph=library.graph(user, head.id), workflow_id=head.id)
    return model_named(library, user, name)


def model_named(library: Library, user: str, name: str) -> Named:
    """By the name of an app that the user has published, the token of anybody's, or a template's id. Raises
    `NotHere`."""
    found = models_of(library, user)
    if (model := found.get(name)) is not None:
        return model
    try:
        app = library.apps.find(name)
    except NotHere:
        hint = did_you_mean(name, found) or "look at what is listed"
        raise NotHere(worded("there is nothing called {!r} to run; {}", name[:100], hint.strip())) from None
    return Named(name=name, graph=app.read(), app=app)


def models_of(library: Library, user: str) -> dict[str, Named]:
    """What others may be shown by name: the apps that the user has published, and the templates. Of two apps with one
    name the newer has it, the older its token."""
    found: dict[str, Named] = {}
    apps = (Named(name=app.graph["name"], graph=app.read(), app=app) for app in library.apps.of(user))
    for model in (*apps, *_templates()):
        name = model.app.token if model.app and model.name in found else model.name
        found.setdefault(name, model)
    return found


@cache
def _templates() -> tuple[Named, ...]:
    return tuple(Named(name=each.id, graph=graph_from_plain(each.graph)) for each in templates())
