"""A node called by hand: each argument is checked against its sockets, and files are refused before a run.

In a workflow the checker has looked at all inputs before; in plain Python nobody has. The messages are the same.
"""

import dataclasses
import functools
import inspect
import numbers
import operator
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from ...parallel.errors import code_of, where_of
from ...pipelines.models.regular_file import Unchanged
from ...pipelines.values import Audio, Image, Mask, Video
from ..files.atomic import check_place
from ..files.audio_files import MAX_CHANNELS, MAX_RATE, MIN_RATE
from ..files.workspace import Workspace, content_hash, numbered
from ..graph.problems import Names
from ..graph.scalars import PLAIN_TYPES, SCALAR_TYPES, as_type, fault
from ..graph.signature import read_spec
from ..graph.sketch import Given, Made, Refusal, Sketch, Unknown, Writes, if_known
from ..graph.spec import INJECTED, VALUE_TYPES, InputSpec, NodeSpec

P = ParamSpec("P")
R = TypeVar("R")

# Which nodes make a value, by its type.
MAKERS = {
    "Model": "load_model",
    "Conditioning": "encode_text",
    "Latents": "empty_latents, encode_image or denoise",
    "Image": "load_image or decode",
    "References": "reference_pictures",
    "Mask": "load_mask, blur_mask, outpaint or crop_image",
    "Video": "decode_video or load_video",
    "Audio": "load_audio or decode_audio",
    "Sampling": "sampler_options",
    "Saved": "save_image",
}
PATHS = ("model", "lora", "picture", "mask", "audio")  # widgets of texts that name a file, which may be given as a path
DIMS = {"Image": "B H W C", "Mask": "B H W", "Video": "B F H W C"}
# Takes a call in place of the node, in whoever builds a workflow by calling nodes (`python/workflow.py`).
BUILDING: ContextVar[Callable[..., Any] | None] = ContextVar("BUILDING", default=None)


def checked(call: Callable[P, R]) -> Callable[P, R]:
    """The node itself, which raises `ValueError` for an argument that its socket does not take, by the name of both."""

    @functools.cache  # read at the first call: in a workflow the checker has looked at everything before
    def read() -> tuple[inspect.Signature, tuple[InputSpec, ...]]:
        signature = inspect.signature(call)
        takes_more = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
        return signature, read_spec(call, title="", category="", takes_more=takes_more).inputs

    @functools.wraps(call)
    def node(*args: P.args, **kwargs: P.kwargs) -> R:
        if (add := BUILDING.get()) is not None:
            return add(node, *args, **kwargs)
        signature, sockets = read()
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            check_names(call, kwargs)
            return call(*args, **kwargs)  # Python says what is missing or too many
        for socket in sockets:
            if socket.name in bound.arguments:
                bound.arguments[socket.name] = argument(socket, bound.arguments[socket.name])
        return call(*bound.args, **bound.kwargs)

    return node


def check_names(call: Callable[..., Any], names: Iterable[str], known: Collection[str] = ()) -> None:
    """Raises `TypeError` for a name that is no input of the node, with the nearest that is one."""
    known = known or [name for name in inspect.signature(call).parameters if name not in INJECTED]
    for name in names:
        if name not in known and name not in INJECTED:
            raise TypeError(f"{call.__name__} has no input {name!r}; {Names().offer(name, known)}")


def sketch_by(call: Callable[..., Any]) -> Sketch:
    """Of a node that only reckons with plain values: it is called."""
    names = tuple(inspect.signature(call).parameters)
    return lambda given: call(**{n: given.workspace if n == "workspace" else given.value(n) for n in names})


def reckoning(call: Callable[..., Any], *, title: str, category: str) -> NodeSpec:
    """The spec of a node that only reckons with plain values."""
    return read_spec(call, title=title, category=category, sketch=sketch_by(call))


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
    if socket.type == "Image" and not isinstance(value, Image):
        value = as_image(socket.name, value)
    if not isinstance(value, VALUE_TYPES[socket.type]):
        got, makers = type(value).__name__, MAKERS[socket.type]
        raise ValueError(f"{socket.name} is a {got}; it takes a {socket.type}: give what {makers} returns")
    if isinstance(value, Image | Mask | Video):
        dims, shape = DIMS[socket.type], getattr(value.pixels, "shape", ())
        is_bytes = len(shape) == len(dims.split()) and str(value.pixels.dtype) == "torch.uint8"
        if not (socket.takes_bytes and is_bytes):
            _check_floats(socket.name, value.pixels, dims, span="0..1")
    if isinstance(value, Audio):
        _check_audio(socket.name, value)
    return value


def as_image(name: str, value: Any) -> Any:
    """Pictures of Pillow's, and arrays, as ours; all else as it is. Raises `ValueError`."""
    read = Image.from_pil if hasattr(value, "getexif") else Image.from_numpy
    try:
        return read(value) if hasattr(value, "__array_interface__") else value
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


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


def _check_audio(name: str, audio: Audio) -> None:
    _check_floats(name, audio.waveform, "B C S", span="-1..1")
    if not all(audio.waveform.shape) or audio.waveform.shape[1] > MAX_CHANNELS:
        got = " x ".join(map(str, audio.waveform.shape))
        wanted = f"1 or more sounds of 1 to {MAX_CHANNELS} channels, not empty"
        raise ValueError(f"{name} holds {got} samples; give {wanted}")
    if not isinstance(audio.rate, int) or not MIN_RATE <= audio.rate <= MAX_RATE:
        wanted = f"a whole number of {MIN_RATE:,} to {MAX_RATE:,}"
        raise ValueError(f"{name} has {audio.rate!r} samples a second; give {wanted}")


def _check_floats(name: str, tensor: Any, dims: str, *, span: str) -> None:
    shape = tuple(getattr(tensor, "shape", ()))
    if len(shape) != len(dims.split()) or not tensor.is_floating_point():
        got = f"{' x '.join(map(str, shape))} of {tensor.dtype}" if shape else f"a {type(tensor).__name__}"
        raise ValueError(f"{name} holds {got}; it takes floats {dims} in {span}: give such a tensor")


# ---- What nodes that read or write files refuse before a run: a path that leads nowhere, a name that is not allowed.

# Why files are refused: a file is looked at once while it stays as it is, since a page asks at every change.
_UNFIT = Unchanged[str | Refusal](512)


def refused_by(code: str, ask: Callable[[], object], *mends: Mapping[str, Any]) -> str | Refusal:
    """The `ValueError` that `ask` raises, with values that mend it; "" where it raises none."""
    try:
        ask()
    except Unknown:
        raise
    except ValueError as error:
        return refusal(code, error, *mends)
    return ""


def refusal(code: str, error: ValueError, *mends: Mapping[str, Any]) -> Refusal:
    """An error as a refusal; one that is the machine's matter keeps its own code."""
    own = code_of(error)
    return Refusal(code=own if where_of(own) == "machine" else code, why=str(error), mends=mends)


def loading(
    call: Callable[..., Any],
    *,
    title: str,
    category: str,
    check_size: Callable[..., None],
    check: Callable[..., None],
    limits: Callable[[Workspace], dict[str, Any]] = lambda workspace: {},
) -> NodeSpec:
    """The spec of a node that reads the file at its socket `path`: no more of it than `check_size` lets pass, and none
    that `check` refuses before the run. Both are given the run's `limits`."""

    def fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
        file = workspace.input_path(inputs["path"], socket="path")
        check_size(file, **limits(workspace))
        return content_hash(file, socket="path")

    def refuses(given: Given) -> dict[str, str | Refusal]:
        path, more = given.value("path"), limits(given.workspace)
        try:
            file = given.workspace.input_path(path, socket="path")
        except ValueError as error:
            return {"path": refusal("no_file", error)}
        look = functools.partial(refused_by, "no_file", lambda: check(file, **more))
        return {"path": _UNFIT.get((check, file, *more.values()), [file], look)}

    told: dict[str, Any] = {"fingerprint": fingerprint, "refuses": refuses, "sketch": lambda given: Made(count=1)}
    return read_spec(call, title=title, category=category, **told)


def saving(
    call: Callable[..., Any], *, title: str, category: str, made: str, ending: str = "", writes: Writes
) -> NodeSpec:
    """The spec of a node that writes what stands at its socket `made` under its `name`, by an ending that may be its
    `format`."""

    def refuses(given: Given) -> dict[str, str | Refusal]:
        return _name_refusals(given, made, ending or str(given.value("format")))

    return read_spec(call, title=title, category=category, is_output=True, refuses=refuses, writes=writes)


def _name_refusals(given: Given, made: str, ending: str) -> dict[str, str | Refusal]:
    """Where nobody knows how many files that makes, they are not compared with those of other nodes."""
    name, workspace = given.value("name"), given.workspace
    count = if_known(lambda: given.value(made).count, 0)
    if not count or workspace.counts_up:
        workspace, count = dataclasses.replace(workspace, claims=None), 1

    def ask() -> None:
        for file in numbered(name, count, ending):
            check_place(workspace.output_path(file, socket="name"))

    return {"name": refused_by("bad_name", ask)}
