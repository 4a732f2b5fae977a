"""The catalog of nodes: as data for a page and other tools, and as text for people."""

import dataclasses
import difflib
from typing import Any

from .graph.scalars import MAX_LISTED
from .graph.spec import InputSpec, NodeSpec
from .registry import SPECS

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
