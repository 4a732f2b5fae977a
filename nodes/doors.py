"""Nodes from outside: what packages and the owner's folder bring is added to the registry when the process starts."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..pipelines import doors
from ..pipelines.doors import Door
from .graph.graph import NAME_PATTERN, TYPE_PATTERN
from .graph.spec import NodeSpec
from .hosts.comfyui import comfy_title, node_class
from .registry import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS, SPECS

_LOCK = threading.RLock()
_entered: list[str] = []
"""The doors that were tried, by their titles."""


def open_doors(folder: Path | str | None = None) -> None:
    """Add nodes, families and split plans from outside to ours; the first call in a process counts.

    Raises `ValueError` for a folder that is none, that others may write to, or that comes too late.
    """
    doors.open_doors(folder)
    with _LOCK:
        for door in doors.doors("nodes"):
            if door.title not in _entered:
                _entered.append(door.title)
                doors.enter(door, _add)


def _add(door: Door, found: Any) -> None:
    if not isinstance(found, Mapping):
        raise ValueError("it is no dict of nodes by their ids; give one, each made by read_spec")
    for id, spec in found.items():
        _check(door, id, spec)
    for id, spec in found.items():
        spec = dataclasses.replace(spec, id=id, origin=door.origin)
        SPECS[id] = spec
        NODE_CLASS_MAPPINGS[id] = node_class(spec)
        NODE_DISPLAY_NAME_MAPPINGS[id] = comfy_title(spec)


def _check(door: Door, id: Any, spec: Any) -> None:
    if not isinstance(spec, NodeSpec):
        raise ValueError(f"its node {id!r} is a {type(spec).__name__}; give what read_spec returns")
    if id in SPECS:
        raise ValueError(f"it claims {id}, which another one has; call its own node {door.package}_NAME")
    if not isinstance(id, str) or not id.startswith(f"{door.package}_") or not re.fullmatch(TYPE_PATTERN, id):
        raise ValueError(f"its node {id!r} is not called {door.package}_NAME, in letters, digits and _; rename it")
    for socket in (*spec.inputs, *spec.outputs):
        if not re.fullmatch(NAME_PATTERN, socket.name):
            raise ValueError(f"{id} has a socket {socket.name!r}; name it in lower-case letters, digits and _")
