"""The node spec: all that a page, a host, a checker or a command line knows of a node, read from its signature."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...parallel.progress import Progress
from ...pipelines import values
from ...pipelines.requests import NUM_SEEDS
from ..files.workspace import Workspace

Widget = Literal["", "seed", "multiline", "model", "lora", "picture"]


MAX_SEED = NUM_SEEDS - 1


@dataclass(frozen=True, kw_only=True)
class Socket:
    """Goes into `Annotated[...]` beside a parameter's or the result's type.

    `widget` tells a page how to draw the value: a "picture" is a path of an input file, a "model" a source.
    """

    help: str = ""
    min: float | None = None
    max: float | None = None
    step: float | None = None
    widget: Widget = ""
    advanced: bool = False
    name: str = ""
    """The socket name of an output; the value's type in lower case where empty."""


Fingerprint = Callable[[Mapping[str, Any], Workspace], str]
"""Names what a node reads besides its inputs (a file's content); part of the cache key."""

Migrate = Callable[[int, dict[str, Any]], dict[str, Any]]
"""Turns the inputs saved by an older version of a node into today's."""

Injected = Literal["progress", "workspace"]
"""Arguments that a node gets from its host rather than from a socket."""

INJECTED: tuple[Injected, ...] = ("progress", "workspace")
SCALARS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "string"}


@dataclass(frozen=True)
class Saved:
    """The files that a node wrote, in order."""

    files: tuple[str, ...]


VALUE_TYPES: dict[str, type] = {
    t.__name__: t
    for t in (values.Model, values.Conditioning, values.Latents, values.Image, values.Video, values.Sampling, Saved)
}


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """One input socket. `type` is a scalar ("int", "float", "bool", "string", "choice") or a name in `VALUE_TYPES`."""

    name: str
    type: str
    required: bool
    default: Any = None
    choices: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    step: float | None = None
    widget: Widget = ""
    advanced: bool = False
    help: str = ""


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    name: str
    type: str
    help: str = ""


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """One node. `call` takes the inputs by name, plus `progress` and `workspace` where `injected` lists them."""

    id: str
    version: int
    title: str
    category: str
    help: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    call: Callable[..., Any] = field(compare=False)
    injected: tuple[Injected, ...] = ()
    is_output: bool = False
    """Whether the node acts (writes files, shows text), and so runs although nothing asks for its value."""
    uses_device: bool = False
    is_kept: bool = True
    """False: what it gives holds for this machine and this run only; it costs little and is made each time."""
    fingerprint: Fingerprint | None = field(default=None, compare=False)
    migrate: Migrate | None = field(default=None, compare=False)

    def injections(self, *, progress: Progress, workspace: Workspace) -> dict[str, Any]:
        """The arguments that this node gets from its host rather than from a socket."""
        given: dict[str, Any] = {"progress": progress, "workspace": workspace}
        return {name: given[name] for name in self.injected}

    def input(self, name: str) -> InputSpec | None:
        return next((socket for socket in self.inputs if socket.name == name), None)

    def output(self, name: str) -> OutputSpec | None:
        return next((socket for socket in self.outputs if socket.name == name), None)


def read_spec(
    call: Callable[..., Any],
    *,
    title: str,
    category: str,
    version: int = 1,
    is_output: bool = False,
    uses_device: bool = False,
    is_kept: bool = True,
    fingerprint: Fingerprint | None = None,
    migrate: Migrate | None = None,
    id: str = "",
) -> NodeSpec:
    """Read a node function's signature: parameters are inputs, the return annotation is the output.

    A function without result (`-> None`) has no output. Raises `TypeError` for an annotation no socket can carry.
    """
    hints = typing.get_type_hints(call, include_extras=True)
    parameters = inspect.signature(call).parameters
    injected: tuple[Injected, ...] = tuple(name for name in INJECTED if name in parameters)
    for name, kind in (("progress", Progress), ("workspace", Workspace)):
        if name in injected and hints[name] is not kind:
            raise TypeError(f"{call.__name__}: parameter {name} is injected and must be a {kind.__name__}")
    return NodeSpec(
        id=id,
        version=version,
        title=title,
        category=category,
        help=inspect.cleandoc(call.__doc__ or ""),
        inputs=tuple(_input(p, hints[n]) for n, p in parameters.items() if n not in injected),
        outputs=() if hints["return"] is type(None) else (_output(call, hints["return"]),),
        call=call,
        injected=injected,
        is_output=is_output,
        uses_device=uses_device,
        is_kept=is_kept,
        fingerprint=fingerprint,
        migrate=migrate,
    )


def _input(parameter: inspect.Parameter, hint: Any) -> InputSpec:
    kind, socket, choices, optional = _unpack(hint)
    required = parameter.default is inspect.Parameter.empty
    if optional and (required or parameter.default is not None):
        raise TypeError(f"input {parameter.name}: an optional value must default to None")
    return InputSpec(
        name=parameter.name,
        type=kind,
        required=required,
        default=None if required else parameter.default,
        choices=choices,
        min=socket.min,
        max=socket.max,
        step=socket.step,
        widget=socket.widget,
        advanced=socket.advanced,
        help=socket.help,
    )


def _output(call: Callable[..., Any], hint: Any) -> OutputSpec:
    kind, socket, _, optional = _unpack(hint)
    if optional:
        raise TypeError(f"{call.__name__}: an output cannot be optional")
    return OutputSpec(name=socket.name or kind.lower(), type=kind, help=socket.help)


def _unpack(hint: Any) -> tuple[str, Socket, tuple[str, ...], bool]:
    """(socket type, marker, choices, is optional) of one annotation."""
    socket = Socket()
    if typing.get_origin(hint) is typing.Annotated:
        hint, *marks = typing.get_args(hint)
        socket = next((m for m in marks if isinstance(m, Socket)), socket)
    optional = False
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        members = [a for a in typing.get_args(hint) if a is not type(None)]
        optional, hint = True, members[0]
    if typing.get_origin(hint) is Literal:
        return "choice", socket, typing.get_args(hint), optional
    if hint in SCALARS:
        return SCALARS[hint], socket, (), optional
    if VALUE_TYPES.get(getattr(hint, "__name__", "")) is hint:
        return hint.__name__, socket, (), optional
    known = ", ".join([*SCALARS.values(), *VALUE_TYPES])
    raise TypeError(f"{hint!r} is no socket type; use one of {known}, or a Literal of strings")
