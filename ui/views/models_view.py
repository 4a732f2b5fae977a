"""What is here: models, what fits on these devices, what is loaded now, and which ready workflows run."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ...nodes.execution.preflight import foretell
from ...nodes.graph.graph import graph_from_plain
from ...nodes.preview.table import ModelRow, model_rows
from ...nodes.registry import SPECS
from ...parallel.machine.now import DeviceNow
from ...pipelines.pools import loaded
from ..contract.kept import Template
from ..contract.shown import LoadedPart, ModelsView, TemplateNeeds
from ..library.opening import templates
from ..settings import Settings
from .devices import devices_now

FRESH_S = 30.0
"""How long an answer is good for: reading the headers of many models takes seconds."""


class _Table:
    """The latest list of models of one set of folders."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = float("-inf")
        self._folders: tuple[Path, ...] = ()
        self._rows: list[ModelRow] = []

    def rows(self, folders: tuple[Path, ...], machine: list[DeviceNow], *, refresh: bool) -> list[ModelRow]:
        asked = time.monotonic()
        with self._lock:
            # whoever asked for a new look while one was waited for gets that one
            oldest = asked if refresh else asked - FRESH_S
            if folders != self._folders or self._taken < oldest:
                taken = time.monotonic()
                self._rows = model_rows(folders, machine)
                self._folders, self._taken = folders, taken
            return self._rows


_TABLE = _Table()


def models_view(settings: Settings, *, refresh: bool = False) -> ModelsView:
    """`refresh` looks for models again. Raises `ValueError` for a folder of models that is not there."""
    now = devices_now()
    models = _TABLE.rows(settings.models_dirs, now, refresh=refresh)
    names = {model.location: model.name for model in models}
    held = [
        LoadedPart(
            name=names.get(each.folder, each.folder),
            component=each.component,
            device=each.device,
            bytes=each.num_bytes,
        )
        for each in loaded()
    ]
    return ModelsView(models=models, devices=now, loaded=held)


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


def _needs(template: Template, settings: Settings) -> TemplateNeeds:
    graph = graph_from_plain(template.graph)
    found = foretell(graph, SPECS, workspace=settings.reading(settings.place), machine=devices_now()).problems
    problem = next((each for each in found if each.kind != "unknown"), None)
    model = ""
    if problem is not None and problem.socket == "source":
        spec = SPECS.get(graph.nodes[problem.node].type)
        is_model = spec is not None and (socket := spec.input("source")) is not None and socket.widget == "model"
        source = graph.params.get("source")
        model = str(source.default) if is_model and source is not None else ""
    return TemplateNeeds(id=template.id, runs=problem is None, model=model, why=problem.message if problem else "")
