"""The models page's content: what is installed, what fits on these devices, and what is loaded now."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from typing import Any

from ...nodes.preview.table import model_rows
from ...parallel.machine.now import DeviceNow
from ...pipelines.pools import loaded
from ..settings import Settings
from .devices import devices_now

FRESH_S = 30.0
"""How long the list of models is good for: reading the headers of many takes seconds."""


class _Table:
    """The latest list of models of one set of folders."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = float("-inf")
        self._folders: tuple[Path, ...] = ()
        self._rows: list[dict[str, Any]] = []

    def rows(self, folders: tuple[Path, ...], machine: list[DeviceNow], *, refresh: bool) -> list[dict[str, Any]]:
        asked = time.monotonic()
        with self._lock:
            # whoever asked for a new look while one was waited for gets that one
            oldest = asked if refresh else asked - FRESH_S
            if folders != self._folders or self._taken < oldest:
                taken = time.monotonic()
                self._rows = [dataclasses.asdict(row) for row in model_rows(folders, machine)]
                self._folders, self._taken = folders, taken
            return self._rows


_TABLE = _Table()


def models_view(settings: Settings, *, refresh: bool = False) -> dict[str, Any]:
    """`refresh` looks for models again. Raises `ValueError` for a folder of models that is not there."""
    now = devices_now()
    models = _TABLE.rows(settings.models_dirs, [DeviceNow(**device) for device in now], refresh=refresh)
    names = {model["location"]: model["name"] for model in models}
    held = [
        {
            "name": names.get(each.folder, each.folder),
            "component": each.component,
            "device": each.device,
            "bytes": each.num_bytes,
        }
        for each in loaded()
    ]
    return {"models": models, "devices": now, "loaded": held}
