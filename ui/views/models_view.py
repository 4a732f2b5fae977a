"""What is here: models, what fits on these devices, and what is loaded now."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ...nodes.preview.table import ModelRow, model_rows
from ...parallel.machine.now import DeviceNow
from ...pipelines.components.memory import Held
from ..contract.shown import LoadedPart, ModelsView
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


def models_view(settings: Settings, *, loaded: Sequence[Held] = (), refresh: bool = False) -> ModelsView:
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
        for each in loaded
    ]
    return ModelsView(models=models, devices=now, loaded=held)
