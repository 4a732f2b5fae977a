"""The devices of this server for the page: name, title, memory and load."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..parallel import machine_now

FRESH_S = 1.0
"""So often the machine is asked at most, whatever number of pages watch it."""


class _Latest:
    """The last look, shared by all who ask within a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = float("-inf")
        self._devices: list[dict[str, Any]] = []

    def devices(self) -> list[dict[str, Any]]:
        with self._lock:
            if time.monotonic() - self._taken > FRESH_S:
                self._devices = [dataclasses.asdict(device) for device in machine_now.devices_now()]
                self._taken = time.monotonic()
            return [dict(device) for device in self._devices]


_LATEST = _Latest()


def devices_now() -> list[dict[str, Any]]:
    """`{name, title, total_bytes, used_bytes, load}` of each. Takes seconds the first time where there is a GPU."""
    return _LATEST.devices()


def accelerators(devices: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of all but the CPU."""
    return [device["name"] for device in devices if device["name"] != "cpu"]
