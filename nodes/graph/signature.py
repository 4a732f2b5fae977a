"""A node's signature, read: its parameters are inputs, its return type is the output, `Annotated` holds the rest."""

from __future__ import annotations

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..files.workspace import Workspace, content_hash
from . import spec
from .sketch import Denoises, Means, Reads, Refuses, Sketch, Writes

NO_MARKS = spec.Socket()
BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def read_spec(
    call: Callable[..., Any],
    *,
    title: str,
    category: str,
    version: int = 1,
    is_output: bool = False,
    uses_device: bool = False,
    is_kept: bool = True,
    fingerprint: spec.Fingerprint | None = None,
    migrate: spec.Migrate | None = None,
    recipe: spec.Recipe | None = None,
    sketch: Sketch | None = None,
    denoises: Denoises | None = None,
    refuses: Refuses | None = None,
    means: Means | None = None,
    writes: Writes | None = None,
    reads: Reads | None = None,
    chooser: spec.Chooser | None = None,
    takes_more: bool = False,
    id: str = "",
) -> spec.NodeSpec:
    """Read a node function's signature: parameters are inputs, the return annotation is the output.

    A tuple is several outputs, None is none. Beside our own types and scalars there are lists of them, `Path` for an
    input file, and any dataclass as a wire type of the package's own. With `takes_more`, a `**` parameter is given
    the inputs that the node does not always have. Raises `TypeError` for an annotation no socket can carry, and for a
    parameter that cannot be given by its name.
    """
    hints = typing.get_type_hints(call, include_extras=True)
    parameters = _parameters(call, hints, takes_more=takes_more)
    injected = tuple(name for name, kind in spec.INJECTED.items() if name in parameters and hints[name] == kind)
    read = {name: _read(hints[name]) for name in parameters if name not in injected}
    paths = tuple(name for name, (kind, _, _) in read.items() if kind is Path)
    return spec.NodeSpec(
        id=id,
        version=version,
        title=title,
        category=category,
        help=inspect.cleandoc(call.__doc__ or ""),
        inputs=tuple(_input(parameters[name], *marked) for name, marked in read.items()),
        outputs=_outputs(call, hints["return"]),
        call=call,
        injected=injected,
        paths=paths,
        is_output=is_output,
        uses_device=uses_device,
        is_kept=is_kept,
        fingerprint=_with_files(fingerprint, paths) if paths else fingerprint,
        migrate=migrate,
        recipe=recipe,
        sketch=sketch,
        denoises=denoises,
        refuses=refuses,
        means=means,
        writes=writes,
        reads=reads,
        chooser=chooser,
    )


def _parameters(
    call: Callable[..., Any], hints: Mapping[str, Any], *, takes_more: bool
) -> dict[str, inspect.Parameter]:
    """Those of a node function, of which each can be an input or is injected."""
    every = inspect.signature(call).parameters.items()
    found = {name: each for name, each in every if not (takes_more and each.kind is inspect.Parameter.VAR_KEYWORD)}
    if lacking := [name for name in (*found, "return") if name not in hints]:
        raise TypeError(f"{call.__name__}: {', '.join(lacking)} has no annotation, which names the type of a socket")
    if nameless := [name for name, each in found.items() if each.kind not in BY_NAME]:
        raise TypeError(f"{call.__name__}: {', '.join(nameless)} cannot be given by name, as the inputs of nodes are")
    for name in ("progress", "workspace"):
        if name in found and hints[name] is not (kind := spec.INJECTED[name]):
            raise TypeError(f"{call.__name__}: parameter {name} is injected and must be a {kind.__name__}")
    return found


def _input(parameter: inspect.Parameter, kind: Any, socket: spec.Socket, optional: bool) -> spec.InputSpec:
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
    required = parameter.default is inspect.Parameter.empty
    default = None if required else parameter.default
    if isinstance(default, Path):
        default = str(default)
    if optional and (required or default is not None):
        raise TypeError(f"input {parameter.name}: an optional value must default to None")
    if socket.widget not in typing.get_args(spec.Widget):
        known = ", ".join(filter(None, typing.get_args(spec.Widget)))
        raise TypeError(f"input {parameter.name}: there is no widget {socket.widget!r}; use one of {known}, or none")
    told = [each for each in (socket.min, socket.max, socket.step, default) if each is not None]
    scalars = [part for each in told for part in (each if isinstance(each, list | tuple) else (each,))]
    if not all(isinstance(each, str | int) or (isinstance(each, float) and math.isfinite(each)) for each in scalars):
        raise TypeError(
            f"input {parameter.name}: its default or range is nothing that a page can be told; use finite numbers, "
            "texts, truth values and lists of these, and None for what is made when the node runs"
        )
    given: dict[str, Any] = {**vars(socket), "name": parameter.name, "default": default, "choices": choices}
    return spec.InputSpec(type=_type(kind), required=required, **given)


def _outputs(call: Callable[..., Any], hint: Any) -> tuple[spec.OutputSpec, ...]:
    if hint is types.NoneType:
        return ()
    members = typing.get_args(hint) if typing.get_origin(hint) is tuple and typing.get_args(hint)[-1:] != (...,) else ()
    outputs: list[spec.OutputSpec] = []
    for kind, socket, optional in map(_read, members or (hint,)):
        if optional or kind is Path:
            raise TypeError(f"{call.__name__}: an output cannot be optional, and files that it wrote are a Saved")
        type = _type(kind)
        name = socket.name or type.rpartition("_")[2].removeprefix("list[").removesuffix("]").lower()
        outputs.append(spec.OutputSpec(name=name, type=type, help=socket.help))
    if len(names := {output.name for output in outputs}) < len(outputs):
        raise TypeError(f"{call.__name__}: outputs are called {', '.join(sorted(names))}; name each with Socket(name=)")
    return tuple(outputs)


def _with_files(own: spec.Fingerprint | None, paths: Sequence[str]) -> spec.Fingerprint:
    """What a node that reads files by their paths reads: their content, and what its own fingerprint names."""

    def fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
        found = {name: workspace.input_path(str(inputs[name]), socket=name) for name in paths if inputs[name]}
        files = [content_hash(path, socket=name) for name, path in found.items()]
        return " ".join([*files, own(inputs, workspace) if own else ""])

    return fingerprint


def _read(hint: Any) -> tuple[Any, spec.Socket, bool]:
    """An annotation without its marks and without `| None`, the marks, and whether None is part of it."""
    bare, *marks = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
    socket = next((mark for mark in marks if isinstance(mark, spec.Socket)), NO_MARKS)
    if text := next((mark for mark in marks if isinstance(mark, str)), ""):
        socket = dataclasses.replace(socket, help=text)
    if typing.get_origin(bare) in (types.UnionType, typing.Union):
        return next(each for each in typing.get_args(bare) if each is not type(None)), socket, True
    return bare, socket, False


def _type(kind: Any) -> str:
    """What a plain annotation is called as the type of a socket."""
    parts = typing.get_args(kind)
    if typing.get_origin(kind) is Literal:
        if not all(isinstance(choice, str) for choice in parts):
            raise TypeError(f"{kind!r} is no socket type; choices are texts")
        return "choice"
    if typing.get_origin(kind) in (list, Sequence) or parts[1:] == (...,):
        if parts[0] is Path:
            raise TypeError(
                f"{kind!r} is no socket type; take one Path by itself, which is looked for among the files "
                "that a run may read"
            )
        return f"list[{_type(parts[0])}]"
    if kind is Path or kind in spec.SCALARS:
        return spec.SCALARS[str if kind is Path else kind]
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        known = ", ".join([*spec.SCALARS.values(), *spec.VALUE_TYPES])
        raise TypeError(
            f"{kind!r} is no socket type; use one of {known}, a list of them, a Literal of texts, a Path or a dataclass"
        )
    if spec.VALUE_TYPES.setdefault(name := spec.type_name(kind), kind) is not kind:
        raise TypeError(f"there are two types called {name}; rename one")
    return name
