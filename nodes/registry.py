"""Every node there is: what the modules of `steps` list as `NODES`, and what comes from outside; and their catalog.

An id is a promise to saved files; never rename. What packages and the owner's folder bring is added when the process
starts.
"""

import dataclasses
import difflib
import importlib
import pkgutil
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..pipelines import doors
from ..pipelines.doors import Door
from .graph.scalars import MAX_LISTED, PLAIN_TYPES, fault
from .graph.spec import InputSpec, NodeSpec
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
    # by pydantic, which takes a while and a list of nodes can spare
    from .graph.graph import NAME_PATTERN, TYPE_PATTERN

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


# ---- The catalog: as data for a page and other tools, and as text for people.

# Fields that only this process can use.
HIDDEN = {
    *("call", "injected", "takes_bytes", "paths", "fingerprint", "migrate", "recipe"),
    *("sketch", "denoises", "refuses", "means", "writes", "reads"),
    *("chooser", "chosen", "left_out", "longest"),
}


def catalog(id: str = "") -> list[dict[str, Any]]:
    """Every node, or one, as JSON data. A pipeline class names Run Pipeline with its sockets."""
    return [entry(spec) for spec in ([find(id)] if id else SPECS.values())]


def entry(spec: NodeSpec) -> dict[str, Any]:
    """One node as JSON data; `chosen_by` are the inputs that decide which others it has."""
    return {**_plain(spec), "chosen_by": list(spec.chooser.by) if spec.chooser else []}


def table() -> str:
    """One line per node."""
    return "\n".join(f"{s.id:<20} {s.title:<18} {s.help.partition('.')[0]}." for s in SPECS.values())


def describe(id: str) -> str:
    """One node with its sockets."""
    spec = find(id)
    lines = [f"{spec.title} ({spec.id}, version {spec.version})", "", spec.help, ""]
    lines += [f"  in   {s.name:<20} {_type(s):<28} {s.help}".rstrip() for s in spec.inputs]
    lines += [f"  out  {s.name:<20} {s.type:<28} {s.help}".rstrip() for s in spec.outputs]
    return "\n".join(lines)


def find(id: str) -> NodeSpec:
    """Raises `ValueError` with the nearest id."""
    if id not in SPECS:
        if (chosen := _chosen(id)) is not None:
            return chosen
        near = difflib.get_close_matches(id, SPECS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"there is no node {id!r}; {hint}`latentloom nodes` lists them all")
    return SPECS[id]


def _chosen(name: str) -> NodeSpec | None:
    """The node whose sockets depend on a choice, with those of this one, such as a pipeline class."""
    for spec in SPECS.values():
        decides = spec.chooser and spec.input(spec.chooser.by[-1])
        if spec.chooser is not None and decides and name in decides.choices[1:]:
            return spec.chooser.choose({decides.name: name})
    return None


def _type(socket: InputSpec) -> str:
    kind = "|".join(socket.choices) if socket.choices else socket.type
    if len(socket.choices) > MAX_LISTED:
        kind = f"one of {len(socket.choices)}"
    if socket.min is not None or socket.max is not None:
        ends = (
            "" if each is None else f"{each:g}" if abs(each) < 1e6 else str(int(each))
            for each in (socket.min, socket.max)
        )
        kind += f" {'..'.join(ends)}"
    return kind if socket.required else f"{kind} = {socket.default!r}"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in HIDDEN}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
