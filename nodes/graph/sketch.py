"""What a node would make, told before anything runs: values of the wires without tensors, found without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...parallel.errors import BadInput
from ...pipelines.values import Latents, Model
from ..files.workspace import Workspace
from .problems import Kind

if TYPE_CHECKING:
    from ...pipelines.requests import Request

T = TypeVar("T")


class Given(Protocol):
    """A node's inputs, as far as they are known before the run."""

    @property
    def workspace(self) -> Workspace: ...

    @property
    def accelerators(self) -> Sequence[str]:
        """This machine's, without the CPU; none where nobody has looked."""

    @property
    def is_machine_known(self) -> bool:
        """Whether somebody has looked for them."""

    def value(self, socket: str) -> Any:
        """What stands at a socket, or what the node before it would make. Raises `Unknown` where nobody knows."""

    def has(self, socket: str) -> bool:
        """Whether something is linked to a socket, or set there, known or not."""

    def number(self, socket: str) -> float:
        """A number of which zero means the model's own; zero too where nobody knows it."""

    def tell(self, problem: str) -> None:
        """Say that something asked for cannot be; the sketch then goes on with what can."""


class Unknown(BadInput):
    """Nobody knows before the run, which is no fault of the workflow."""

    code = "not-known"


def if_known(ask: Callable[[], T], otherwise: T) -> T:
    """What `ask` tells before the run, or `otherwise` where it raises `ValueError`."""
    try:
        return ask()
    except ValueError:
        return otherwise


class Asked:
    """A request as far as it is known before the run, for the rules of `pipelines/settling.py`: its fields are the
    node's sockets. What nobody knows raises `ValueError`; of a value that may be left out and comes by a wire it is
    known that it is there."""

    def __init__(self, kind: type[Request], given: Given) -> None:
        self._given, self._fields = given, {each.name: each for each in fields(kind)}
        self.stage = kind.stage

    def __getattr__(self, name: str) -> Any:
        own, given = self._fields[name], self._given
        if own.default is None and not given.has(name):
            return None
        if own.default_factory is not MISSING and not given.has(name):
            return own.default_factory()
        try:
            value = given.value(name)
        except ValueError:
            if own.default is None:
                return NotSeen()
            raise
        return filled(value) if type(value) is Latents else value


class NotSeen:
    """A value that is there, of which nothing else is known."""

    def __getattr__(self, name: str) -> Any:
        raise Unknown(f"its {name} is not known before the run")


# What the node would give for these inputs, in the node's own form (a tuple for several outputs). A `Latents` has its
# size and no tensor; for a `Conditioning` stands a `Text`, for a `References` a `Seen`, for an `Image`, a `Video` or an
# `Audio` a `Made`. Raises `ValueError` where it cannot say. Torch-free.
Sketch = Callable[[Given], Any]


@dataclass(frozen=True, kw_only=True)
class Text:
    """What stands for a `Conditioning`."""

    num_tokens: int  # padding included
    num_references: int = 0
    refusal: str = ""  # why the model cannot take these reference pictures, or none
    family: str = ""  # of the model that reads it; "" where nobody knows
    saw_frame: bool | None = None  # whether a first frame is read with it; None where nobody knows


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What stands for a `References`: how many pictures there are at least."""

    num_pictures: int


@dataclass(frozen=True, kw_only=True)
class Made:
    """What stands for an `Image`, a `Video` or an `Audio`: how many there are in the batch, and how large each is in
    pixels and how long; 0 where nobody knows."""

    count: int
    width: int = 0
    height: int = 0
    frames: int = 0
    fps: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Empty(Latents):
    """What stands for `Latents` of which it is known that they hold nothing yet."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Filled(Latents):
    """What stands for `Latents` that may hold something."""

    @property
    def is_empty(self) -> bool:
        return False


def filled(latents: Latents) -> Filled:
    """Of the same size, and no longer known to hold nothing."""
    return Filled(**{each.name: getattr(latents, each.name) for each in fields(Latents)})


@dataclass(frozen=True, kw_only=True)
class Denoising:
    """One denoise that a node would do."""

    model: Model
    latents: Latents | None
    num_tokens: int = 0  # of the prompt, padded; 0 is the model's own
    num_references: int = 0
    steps: int = 0  # 0 is the model's own number
    guidance: float = 0.0
    guidance_2: float = 0.0
    has_step_cache: bool = False  # whether one may be in use
    doubt: str = ""  # why the latents are not known; their size is then taken to be the model's own
    # The class of a pipeline that is run whole: guidance is then that of all its branches, 1 for one alone.
    pipeline: str = ""
    # What of its inputs the model does not take, in a sentence for each, by socket.
    refusals: Mapping[str, str] = field(default_factory=dict[str, str])


# Of a node that denoises: what it would do, so that its plan and its need can be shown.
Denoises = Callable[[Given], Denoising]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a node cannot take what stands at a socket."""

    code: str
    why: str
    kind: Kind = "error"
    # Values that it would take, each a set of them by socket, the nearest first.
    mends: tuple[Mapping[str, Any], ...] = ()


class Refused(BadInput):
    """What stands at a socket cannot be, so that nothing more can be told of the node."""

    code = "refused"

    def __init__(self, socket: str, refusal: Refusal) -> None:
        super().__init__(refusal.why)
        self.socket, self.refusal = socket, refusal


# What a node's inputs will be in the end, by socket, of those at which 0, "" or "auto" stands for something else, as
# plain values. At a socket of a wire: what the inputs of the node before it will be, by their own names. Raises
# `ValueError` where nobody knows. Torch-free.
Means = Callable[[Given], Mapping[str, Any]]


# Of a node that saves: at most how many bytes of files, 0 where nobody knows. May raise `ValueError`. Torch-free.
Writes = Callable[[Given], int]


# What of a node's inputs cannot be, by socket: a sentence for what its model does not take, "" where it does. Raises
# `ValueError` where nobody knows. Torch-free.
Refuses = Callable[[Given], Mapping[str, str | Refusal]]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Texts that a node gives to a model's text encoders, by socket."""

    model: Model
    texts: Mapping[str, str]
    text_length: int = 0  # tokens that are read; 0 is the model's own number


# Of a node whose texts are read by a model's text encoders: which, so that their tokens can be counted. Raises
# `ValueError` where nobody knows. Torch-free.
Reads = Callable[[Given], Reading]
