"""The node spec: all that a page, a host, a checker or a command line knows of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...parallel.progress import Progress
from ...pipelines import values
from ...pipelines.doors import FOLDER
from ...pipelines.values import NUM_SEEDS
from ..files.workspace import Workspace
from .sketch import Denoises, Means, Reads, Refuses, Sketch, Writes

Widget = Literal["", "seed", "strength", "multiline", "json", "model", "lora", "picture", "mask", "audio"]

MAX_SEED = NUM_SEEDS - 1


@dataclass(frozen=True, kw_only=True)
class Socket:
    """Goes into `Annotated[...]` beside a parameter's or the result's type. A text there is its help.

    `widget` tells a page how to draw the value: a "picture", "mask" or "audio" is a path of an input file, a "model" a
    source, a "strength" a number that is mostly from -2 to 2, a "json" a text that is JSON, or empty, or a list or an
    object as it is.
    """

    help: str = ""
    min: float | None = None
    max: float | None = None
    step: float | None = None
    widget: Widget = ""
    advanced: bool = False
    auto: bool = False  # whether zero stands for the model's own number
    # Whether the node takes pixels as bytes, too (`values.Depth`), as who only writes or shows them does.
    takes_bytes: bool = False
    name: str = ""  # the socket name of an output; the value's type in lower case where empty


# Names what a node reads besides its inputs (a file's content); part of the cache key.
Fingerprint = Callable[[Mapping[str, Any], Workspace], str]

# Turns the inputs saved by an older version of a node into today's.
Migrate = Callable[[int, dict[str, Any]], dict[str, Any]]

# The version and values by which the cache knows a node's results, where those of an older version are still good.
Recipe = Callable[[Mapping[str, Any]], tuple[int, Mapping[str, Any]]]

# Arguments that a node gets from its host rather than from a socket; `depth` is that of the pixels that it gives.
Injected = Literal["progress", "workspace", "depth"]

# With the type by which each is known.
INJECTED: Mapping[Injected, Any] = {"progress": Progress, "workspace": Workspace, "depth": values.Depth}
SCALARS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "string"}


@dataclass(frozen=True)
class Saved:
    """The files that a node wrote, in order."""

    files: tuple[str, ...]


# Ours by name; those of packages from outside, found in the signatures of their nodes, as `package_Name`.
VALUE_TYPES: dict[str, type] = {
    t.__name__: t
    for t in (
        *(values.Model, values.Conditioning, values.Latents, values.Image, values.Mask, values.Video, values.Audio),
        *(values.References, values.Sampling, Saved),
    )
}


def type_name(kind: type) -> str:
    """What a class of values is called on wires."""
    if VALUE_TYPES.get(kind.__name__) is kind:
        return kind.__name__
    package = kind.__module__.removeprefix(f"{FOLDER}.").partition(".")[0]  # or what lies in the folder by that name
    return f"{package}_{kind.__name__}"


def files_of(made: Any) -> tuple[str, ...]:
    """The files that a node wrote, in what it gave."""
    parts = made if isinstance(made, tuple) else (made,)
    return tuple(file for part in parts if isinstance(part, Saved) for file in part.files)


@dataclass(frozen=True, kw_only=True)
class InputSpec(Socket):
    """One input, read. `type` is a scalar ("int", "float", "bool", "string", "choice"), a name in `VALUE_TYPES`, or a
    list of one of these, such as "list[float]"."""

    name: str
    type: str
    required: bool
    default: Any = None
    choices: tuple[str, ...] = ()
    longest: int = 0  # characters of a text that are taken; 0: as many as of any text


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    name: str
    type: str
    help: str = ""


# The socket that holds, as a JSON object, the values of those that a host with fixed sockets has no place for.
ARGUMENTS = "arguments"


@dataclass(frozen=True, kw_only=True)
class Chooser:
    """How a node's sockets follow from what is given at some of them, `by`. Nothing here imports torch."""

    by: tuple[str, ...]
    # The node with the sockets that these values ask for; None where they do not say. Reads no file. Raises
    # `ValueError` for what there is not.
    choose: Callable[[Mapping[str, Any]], NodeSpec | None]
    # The values that files say where the workflow leaves them out. Raises `ValueError` where they cannot.
    find: Callable[[Mapping[str, Any], Workspace], Mapping[str, Any]] = lambda values, workspace: {}
    # Why files say that what is chosen cannot be; "" where they do not. The sockets are those of the choice anyhow.
    fits: Callable[[Mapping[str, Any], Workspace], str] = lambda values, workspace: ""
    may_link: tuple[str, ...] = ()  # those of `by` that may come by a wire, and are then not known to `choose`
    # For a host whose nodes always have the same sockets: beside the node's own, those that most choices have or that
    # only a wire can feed, and `arguments` for the rest.
    fixed: tuple[InputSpec, ...] = ()


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
    # Texts that name a file: the node gets its path, once it was found inside the folders of the run.
    paths: tuple[str, ...] = ()
    # What a node from outside comes from, with the version of its distribution or the hash of its sources; it is part
    # of the cache key. Empty for ours.
    origin: str = ""
    # Whether the node acts (writes files, shows text), and so runs although nothing asks for its value.
    is_output: bool = False
    uses_device: bool = False
    # False: what it gives holds for this machine and this run only; it costs little and is made each time.
    is_kept: bool = True
    fingerprint: Fingerprint | None = field(default=None, compare=False)
    migrate: Migrate | None = field(default=None, compare=False)
    recipe: Recipe | None = field(default=None, compare=False)
    # Tells a planner what the node would make; None: that is known only when it has run.
    sketch: Sketch | None = field(default=None, compare=False)
    denoises: Denoises | None = field(default=None, compare=False)
    refuses: Refuses | None = field(default=None, compare=False)
    means: Means | None = field(default=None, compare=False)
    writes: Writes | None = field(default=None, compare=False)
    reads: Reads | None = field(default=None, compare=False)
    # Of a node whose sockets depend on what is given at some of them: how. Those here are the ones it always has.
    chooser: Chooser | None = field(default=None, compare=False)
    chosen: str = ""  # what they are then chosen by, such as a pipeline class
    # Inputs that what is chosen has and this node never gives it, each with the reason.
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)

    def make(
        self, inputs: Mapping[str, Any], *, progress: Progress, workspace: Workspace, depth: values.Depth = "floats"
    ) -> Any:
        """Call the node as its host: the value of its output, a tuple of them for several, None for none.

        Raises what the node raises, and `ValueError` for a file that is not there or outside the run's folders.
        """
        given: dict[str, Any] = {"progress": progress, "workspace": workspace, "depth": depth}
        files = {name: self._file(inputs, name, workspace) for name in self.paths}
        made = self.call(**{**inputs, **files}, **{name: given[name] for name in self.injected})
        if len(self.outputs) > 1 and (not isinstance(made, tuple) or len(made) != len(self.outputs)):
            names = ", ".join(output.name for output in self.outputs)
            raise TypeError(f"{self.id} gave no tuple of {names}; correct what it returns")
        return made

    def _file(self, inputs: Mapping[str, Any], name: str, workspace: Workspace) -> Path | None:
        socket = self.input(name)
        assert socket is not None, f"{name} is a socket that names a file"
        path = inputs.get(name, socket.default)
        is_none = not path and not socket.required and socket.default is None
        return None if is_none else workspace.input_path(str(path), socket=name)

    def part(self, made: Any, output: str) -> Any:
        """The value of one output, in what the node gave."""
        names = [each.name for each in self.outputs]
        return made[names.index(output)] if len(names) > 1 else made

    @property
    def takes_bytes(self) -> tuple[str, ...]:
        """The inputs whose pixels may come as bytes."""
        return tuple(socket.name for socket in self.inputs if socket.takes_bytes)

    def input(self, name: str) -> InputSpec | None:
        return next((socket for socket in self.inputs if socket.name == name), None)

    def output(self, name: str) -> OutputSpec | None:
        return next((socket for socket in self.outputs if socket.name == name), None)


Specs = Mapping[str, NodeSpec]
