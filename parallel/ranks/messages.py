"""The protocol of a pool: what host, fork server and ranks say to each other, and how it becomes plain data and back.

A connection joins the host with one other process. Below, *server* is the fork server, and its spare once that is in
office; each message may bring descriptors, and numbers in brackets say who is meant.

    message     from    to      descriptors      when                                        answer
    Fork        host    server  connection, log  a place in the pool is empty                Forked or NotForked
    ForkSpare   host    server  connection       the server has no spare                     none, or NoSpare
    ServerReady server  host    its pidfd        it can be asked; a spare says so too        (Fork, ForkSpare)
    Forked      server  host    the rank's pidfd a rank's process was forked [rank, birth]
    NotForked   server  host                     it could not be [rank, birth]
    NoSpare     server  host                     the spare could not be forked
    Exited      server  host                     a rank, or the spare, has ended [pid]
    Hello       rank    host                     it begins to listen                         Kernels, where it has a GPU
    Kernels     host    rank                     what attends there is known, or to be tried Kernels
    Kernels     rank    host                     it was found out, of a further dtype too    (anything below)
    Ping        rank    host                     nothing was heard for Fork.ping_s
    Join        host    rank                     ranks are to work together                  Joined
    Joined      rank    host                     it is in the process group, or cannot be
    RunJob      host    rank    request, grants  a job begins                                Ended, by and by
    Phase       rank    host                     a part of a job begins [job]
    StepDone    rank    host                     a step of a job is done [job]
    Moves       rank    host                     instead of Ping, where a job goes from module to module [job]
    Preview     rank    host    the picture      a step of a job can be seen [job]
    Ended       rank    host    answer, Failure  this rank's part of a job is over [job]
    Cancel      host    rank                     the user wants a job to end [job]           Ended
    Abort       host    rank                     others have failed in a job [job]           Ended or Stuck
    Stuck       rank    host                     it hangs in a rendezvous, and must be ended

On the wire a message is a JSON object: its kind and its fields, no more and no fewer. What is large, the request, a
picture, an answer, goes beside it as a body (channel.py). A text is for people; what decides something is a field of
its own, such as `Phase.is_loading`, or a code (errors.py).

That a step may begin is no message: the host writes it into memory that comes with the job of several of its ranks, by
what `StepDone` tells (grants.py), and a cancel is there before `Cancel` is.
"""

import contextlib
import functools
import re
import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar

from ..errors import BadMessage
from ..progress import RankWork
from .seat import World

# Host and fork server


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Fork a rank. Its connection and its log come with this."""

    rank: int  # the rank's number in the pool
    birth: int  # how many processes have filled this place
    device: str
    num_threads: int
    ping_s: float  # it is never silent for longer, whatever it computes
    # The network interface over which it meets others. NCCL reads it once, when it makes its first group.
    interface: str = "lo"
    # Whether accelerators may read each other's memory; otherwise what they send goes by way of the host's.
    has_p2p: bool = True
    is_spare: bool = False  # whether it waits for another's death, and so has time to load what that takes


@dataclass(frozen=True)
class ForkSpare:
    """Fork a spare of the server, whose connection comes with this."""


@dataclass(frozen=True)
class ServerReady:
    """This process can fork; its pidfd comes with this."""

    pid: int
    culprit: str = ""  # what starts CUDA as it is imported, so that ranks begin anew and import for themselves; or ""


@dataclass(frozen=True, kw_only=True)
class Forked:
    """The rank lives; its pidfd comes with this."""

    rank: int
    birth: int
    pid: int


@dataclass(frozen=True, kw_only=True)
class NotForked:
    rank: int
    birth: int
    problem: str


@dataclass(frozen=True)
class NoSpare:
    problem: str


@dataclass(frozen=True, kw_only=True)
class Exited:
    """A process that the server forked has ended; `code` is negative where a signal did it."""

    pid: int
    code: int


# Host and rank


@dataclass(frozen=True, kw_only=True)
class Hello:
    """This rank listens."""

    gpu: str = ""  # what decides which kernels work on its device, as `Known` keeps them; "" where there is no choice
    uuid: str = ""  # which GPU it has, whatever number that has here; "" where nobody says
    memory_bytes: int = 0  # of that GPU


@dataclass(frozen=True, kw_only=True)
class Attends:
    """What attends in a number format: a kernel, and (another that might have been faster, why it was left out)."""

    dtype: str
    kernel: str
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What attends on a kind of GPU; from the host, with nothing found: try them."""

    found: tuple[Attends, ...] = ()
    is_first: bool = False  # whether cuDNN may be torch's own first choice, too
    is_news: bool = False  # whether one was left out that is installed


@dataclass(frozen=True)
class Ping:
    """This rank is not frozen."""


@dataclass(frozen=True, kw_only=True)
class Join:
    """Leave the present process group and join this one, as its `rank`."""

    world: World
    rank: int
    # Whether the wires between its GPUs were seen to carry what is sent since the machine was started.
    is_proven: bool = False


@dataclass(frozen=True, kw_only=True)
class Joined:
    world: str  # its name
    problem: str  # why not; empty where all is well
    are_wires_bad: bool = False  # whether it is that what ranks send does not arrive


@dataclass(frozen=True)
class AboutJob:
    """What concerns one job, by its number."""

    job: int


@dataclass(frozen=True, kw_only=True)
class RunJob(AboutJob):
    """Do a job; the request comes with this, and where several ranks of one host do it, what grants them steps."""

    function: str
    lane: Literal["main", "side"]
    rank: int  # among the job's ranks, as in their process group
    num_ranks: int  # how many the job has, which are the first of that group
    previews: bool
    answers: bool  # whether this rank's answer is wanted; of the others only a mark, to see that they agree
    owner: str = ""  # whose work it is, and which node's of it: what a rank logs says so
    node: str = ""


class Cancel(AboutJob):
    """The user wants it to end."""


class Abort(AboutJob):
    """It cannot go on: what it waits for in a collective will not come."""


class Stuck(AboutJob):
    """This rank hangs in a rendezvous of it."""


@dataclass(frozen=True, kw_only=True)
class Phase(AboutJob):
    """`text` is for people. While `is_loading` a rank waits for a disk, not for others, and gets time to finish."""

    text: str
    is_loading: bool


@dataclass(frozen=True, kw_only=True)
class StepDone(AboutJob):
    done: int
    total: int


class Moves(AboutJob):
    """Its work goes on, with nothing to tell: one step, or one picture to decode, may take a CPU an hour."""


class Preview(AboutJob):
    """The picture comes with this."""


@dataclass(frozen=True, kw_only=True)
class SpreadWork:
    """How a stage was spread over ranks, and what each did."""

    plan: str
    work: tuple[RankWork, ...]


@dataclass(frozen=True, kw_only=True)
class Ended(AboutJob):
    """With it comes the answer, or else a `Failure`."""

    state: Literal["done", "cancelled", "refused", "failed"]  # `refused` is the request's fault, `failed` is not
    is_whole: bool  # whether the rank is still in its process group, in step with the others
    is_last: bool = False  # whether this process can use its accelerator no more
    mark: int = 0  # a checksum of the answer
    spread: SpreadWork | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What ended a job other than well: the body of `Ended`, as a traceback is long."""

    code: str  # the error's code, of errors.py
    text: str
    traceback: str
    said: dict = field(default_factory=dict)  # how `text` was made (wording.py)


ToServer = Fork | ForkSpare
FromServer = ServerReady | Forked | NotForked | NoSpare | Exited
ToRank = Kernels | Join | RunJob | Cancel | Abort
FromRank = Hello | Kernels | Ping | Joined | Stuck | Phase | StepDone | Moves | Preview | Ended
OfJob = Stuck | Phase | StepDone | Moves | Preview | Ended
Message = ToServer | FromServer | ToRank | FromRank

TO_SERVER: tuple[type[ToServer], ...] = typing.get_args(ToServer)
FROM_SERVER: tuple[type[FromServer], ...] = typing.get_args(FromServer)
TO_RANK: tuple[type[ToRank], ...] = typing.get_args(ToRank)
FROM_RANK: tuple[type[FromRank], ...] = typing.get_args(FromRank)

# By their names on the wire.
KINDS: Mapping[str, type[Message]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in typing.get_args(Message)
}
NAMES = {kind: name for name, kind in KINDS.items()}

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def encode(message: Message) -> dict[str, Any]:
    """A message as plain data."""
    return {"kind": NAMES[type(message)], **asdict(message)}


def decode(plain: Any, hears: Collection[type[M]]) -> M:
    """Plain data as one of the messages that this end hears. Raises `BadMessage`, which names what is wrong."""
    if not isinstance(plain, dict) or not isinstance(name := plain.get("kind"), str):
        raise BadMessage(f"a message is {str(plain)[:100]}, which has no kind")
    kind = KINDS.get(name)
    known = next((each for each in hears if each is kind), None)
    if known is None:
        reason = "is not known" if kind is None else "is not for this end"
        heard = ", ".join(sorted(NAMES[each] for each in hears))
        raise BadMessage(f"a message of kind {name[:100]!r} {reason}; it hears {heard}")
    return read(known, {field: value for field, value in plain.items() if field != "kind"}, what=name)


def read(kind: type[T], plain: Any, *, what: str) -> T:
    """A dataclass from plain data that has exactly its fields, each of its type. Raises `BadMessage`."""
    wanted = _hints(kind)
    if not isinstance(plain, dict) or plain.keys() != wanted.keys():
        got = sorted(map(str, plain)) if isinstance(plain, dict) else type(plain).__name__
        raise BadMessage(f"{what} has {got} instead of {sorted(wanted)}")
    return kind(**{name: _value(wanted[name], value, f"{what}.{name}") for name, value in plain.items()})


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    found = typing.get_type_hints(kind)
    return {field.name: found[field.name] for field in fields(kind)}


def _value(hint: Any, plain: Any, what: str) -> Any:
    """`plain` as a field's type: a scalar, a choice, a dataclass, many of one, or one that may be missing."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return None if plain is None else _value(inner[0], plain, what)
    if origin is tuple and isinstance(plain, list | tuple):
        return tuple(_value(inner[0], each, what) for each in plain)
    if is_dataclass(hint):
        return read(typing.cast("type[Any]", hint), plain, what=what)
    if hint is float and type(plain) is int:  # of a field that was given a whole number
        with contextlib.suppress(OverflowError):
            return float(plain)
    if plain in inner if origin is Literal else type(plain) is hint:  # `type`: a bool is no number here
        return plain
    raise BadMessage(f"{what} is {str(plain)[:100]!r}, a {type(plain).__name__}")
