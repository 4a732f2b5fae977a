"""A node called by hand: each argument is checked against the node's own sockets before anything is done.

In a workflow the checker has looked at all inputs before; in plain Python nobody has. The messages are the same.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ...pipelines.values import Image, Video
from ..graph.scalars import PLAIN_TYPES, SCALAR_TYPES, as_type, fault
from ..graph.spec import VALUE_TYPES, InputSpec, read_spec

P = ParamSpec("P")
R = TypeVar("R")

MAKERS = {
    "Model": "load_model",
    "Conditioning": "encode_text",
    "Latents": "empty_latents, encode_image or denoise",
    "Image": "load_image or decode",
    "Video": "decode_video",
    "Sampling": "sampler_options",
    "Saved": "save_image",
}
"""Which nodes make a value, by its type."""
PATHS = ("model", "lora", "picture")
"""Widgets of texts that name a file, which may be given as a path."""
DIMS = {"Image": "B H W C", "Video": "B F H W C"}


def checked(call: Callable[P, R]) -> Callable[P, R]:
    """The node itself, which raises `ValueError` for an argument that its socket does not take, by the name of both."""
    signature = inspect.signature(call)

    @functools.cache
    def sockets() -> dict[str, InputSpec]:
        takes_more = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
        spec = read_spec(call, title="", category="", takes_more=takes_more)
        return {socket.name: socket for socket in spec.inputs}

    @functools.wraps(call)
    def node(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return call(*args, **kwargs)  # Python says what is missing, too many or unknown
        for name, socket in sockets().items():
            if name in bound.arguments:
                bound.arguments[name] = argument(socket, bound.arguments[name])
        return call(*bound.args, **bound.kwargs)

    return node


def argument(socket: InputSpec, value: Any) -> Any:
    """The value as its socket takes it. Raises `ValueError` for what it does not take."""
    if value is None and not socket.required and socket.default is None:
        return None
    if socket.type in PLAIN_TYPES:
        value = _plain(socket, value)
        if found := fault(socket, value):
            is_listed = socket.type in SCALAR_TYPES and isinstance(value, list | tuple)
            raise ValueError(found[1] + (", and call once for each" if is_listed else ""))
        return as_type(socket.type, value)
    if not isinstance(value, VALUE_TYPES[socket.type]):
        got, makers = type(value).__name__, MAKERS[socket.type]
        raise ValueError(f"{socket.name} is a {got}; it takes a {socket.type}: give what {makers} returns")
    if isinstance(value, Image | Video):
        _check_pixels(socket.name, value.pixels, DIMS[socket.type])
    return value


def _plain(socket: InputSpec, value: Any) -> Any:
    """Values of other libraries (numpy's), texts of other classes and paths, as the plain types that sockets take."""
    if type(value) in (bool, int, float, str):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if socket.type == "bool" and type(value).__name__ in ("bool", "bool_") and hasattr(value, "item"):
        return value.item()
    if socket.type == "int" and isinstance(value, numbers.Integral):
        return operator.index(value)
    if socket.type == "float" and isinstance(value, numbers.Real):
        return float(value)
    return os.fspath(value) if socket.widget in PATHS and isinstance(value, os.PathLike) else value


def _check_pixels(name: str, pixels: Any, dims: str) -> None:
    shape = tuple(getattr(pixels, "shape", ()))
    if len(shape) != len(dims.split()) or not pixels.is_floating_point():
        got = f"{' x '.join(map(str, shape))} of {pixels.dtype}" if shape else f"a {type(pixels).__name__}"
        raise ValueError(f"{name} holds {got}; it takes floats {dims} in 0..1: give such a tensor")
