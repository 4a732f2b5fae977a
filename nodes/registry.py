"""Every node there is: what the modules of `steps` list as `NODES`, and what comes from outside.

An id is a promise to saved files; never rename. What packages and the owner's folder bring is added when the process
starts.
"""

import dataclasses
import importlib
import pkgutil
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..pipelines import doors
from ..pipelines.doors import Door
from .graph.scalars import PLAIN_TYPES, fault
from .graph.spec import NodeSpec
from .steps import __path__ as folders

# In the order in which nodes are listed; a category that is not here comes last.
CATEGORIES = ("model", "encode", "latents", "denoise", "decode", "picture", "mask", "sound", "text", "number")


def _found() -> Iterator[NodeSpec]:
    """Modules of a folder come before those of the folders inside it, each with its nodes in the order of its dict."""
    names = [module.name for module in pkgutil.walk_packages(folders, f"{__package__}.steps.")]
    for name in sorted(names, key=lambda name: (name.count("."), name)):
        for id, spec in getattr(importlib.import_module(name), "NODES", {}).items():
            yield dataclasses.replace(spec, id=id)


def _place(spec: NodeSpec) -> int:
    return CATEGORIES.index(spec.category) if spec.category in CATEGORIES else len(CATEGORIES)


SPECS: dict[str, NodeSpec] = {spec.id: spec for spec in sorted(_found(), key=_place)}

_LOCK = threading.RLock()


class _Process:
    """What this process has opened."""

    is_open = False


def open_doors(folder: Path | str | None = None) -> None:
    """Add nodes, families and split plans from outside to ours; the first call in a process counts.

    Without a folder it is the one that LATENTLOOM_NODES names; "" is none. Raises `ValueError` for a folder that is
    none, that others may write to, or that comes too late.
    """
    doors.open_doors(folder)
    with _LOCK:
        if _Process.is_open:
            return
        _Process.is_open = True  # a package may ask for our tables when it is imported
        for door in doors.doors("nodes"):
            doors.enter(door, _add)


def _add(door: Door, found: Any) -> None:
    if not isinstance(found, Mapping):
        raise ValueError("it is no dict of nodes by their ids; give one, each made by read_spec")
    for id, spec in found.items():
        _check(door, id, spec)
    SPECS.update({id: dataclasses.replace(spec, id=id, origin=door.origin) for id, spec in found.items()})


def _check(door: Door, id: Any, spec: Any) -> None:
    from .graph.graph import (  # by pydantic, which takes a while and a list of nodes can spare
        NAME_PATTERN,
        TYPE_PATTERN,
    )

    if not isinstance(spec, NodeSpec):
        raise ValueError(f"its node {id!r} is a {type(spec).__name__}; give what read_spec returns")
    if id in SPECS:
        raise ValueError(f"it claims {id}, which another one has; call its own node {door.package}_NAME")
    if not isinstance(id, str) or not id.startswith(f"{door.package}_") or not re.fullmatch(TYPE_PATTERN, id):
        raise ValueError(f"its node {id!r} is not called {door.package}_NAME, in letters, digits and _; rename it")
    for socket in (*spec.inputs, *spec.outputs):
        if not re.fullmatch(NAME_PATTERN, socket.name):
            raise ValueError(f"{id} has a socket {socket.name!r}; name it in lower-case letters, digits and _")
    for socket in spec.inputs:  # what the catalog could not tell, or nobody could give
        found = None if socket.required or socket.default is None else fault(socket, socket.default)
        if found and socket.type in PLAIN_TYPES:
            raise ValueError(f"{id} has a default that it does not take: {found[1]}")
        if found:
            raise ValueError(f"{id}: {socket.name} has a default, but a {socket.type} comes by a wire; let it be None")
    texts = (spec.title, spec.category, *(socket.help for socket in (*spec.inputs, *spec.outputs)))
    if not all(isinstance(text, str) for text in texts) or type(spec.version) is not int:
        raise ValueError(f"{id} has a title, category, help or version of another type; give texts and a whole number")
