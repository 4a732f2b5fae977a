"""What server and worker say to each other, a line of JSON each.

    line     from    when
    Start    server  first: what the worker opens
    Order    server  a run is to be made                             Line with `event`, ..., `outcome` of this run
    Cancel   server  a run is to end at its next step
    Ask      server  what is loaded, or to measure the machine       Line with `answer`
    Line     worker  something happened in a run, or was answered; and each second, as a sign of life
    (end)    server  it has ended, or is about to

Nothing is pickled. A preview is a small picture, in base64.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import PydanticSerializationError

from ...nodes.execution.events import Event
from ...parallel.wording import known_in, remember
from ..live.state import MadeFile, Outcome


class Message(BaseModel):
    """Whatever goes between the two: what the other side does not know is refused, numbers may be infinite."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_inf_nan="constants", ser_json_bytes="base64", val_json_bytes="base64"
    )


class Start(Message):
    """What the worker opens before anything else."""

    cache_dir: Path
    doors: dict[str, Any]  # as `pipelines.doors.order` says it


class Order(Message):
    """A run that is to be made: all that whoever makes it needs to know."""

    run: str
    keeper: str = ""  # for whom caches keep what it makes; "" is everybody
    graph: dict[str, Any]  # the workflow, with the run's values in it
    folder: Path
    output_dir: Path
    roots: tuple[Path, ...]
    place: dict[str, Any]
    max_pixels: int
    targets: tuple[str, ...] | None = None


class Cancel(Message):
    cancel: str  # the run


class Ask(Message):
    ask: int  # its number
    what: Literal["loaded", "measured"]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A small picture of what is on its way: uint8 H W 3, row by row."""

    width: int
    height: int
    pixels: bytes


class Counts(Message):
    """How the ranks of the worker fare."""

    restarts: int = 0  # how many processes of ranks were replaced by others
    are_failing: bool = False  # whether ranks cannot be started, though it was tried several times


class Line(Message):
    """One of: what a run tells, its end, an answer, an error alone (why it cannot begin), or how the ranks fare, which
    says that the worker is alive."""

    run: str = ""
    event: Event | None = None  # without its preview, which is `picture`
    picture: Picture | None = None
    made: MadeFile | None = None  # a file that the run has made
    thread: int = 0  # with the start of a node that uses no device: the system's number of the thread in which it works
    outcome: Outcome | None = None

    counts: Counts | None = None
    answer: int = 0
    value: Any = None
    error: str = ""
    code: str = ""
    said: dict[str, Any] = Field(default_factory=dict)  # how its sentences were made (`parallel/wording.py`)


# An event's preview is a tensor, which no line has: the server has no torch to name its class by.
Line.model_rebuild(_types_namespace={"Tensor": object})

# What of a line has sentences.
SAYING = {"event", "outcome", "value", "error"}
_ORDERS: TypeAdapter[Order | Cancel | Ask] = TypeAdapter(Order | Cancel | Ask)


def read_order(line: bytes) -> Order | Cancel | Ask:
    return _ORDERS.validate_json(line)


def read_line(line: bytes) -> Line:
    found = Line.model_validate_json(line)
    remember(found.said)
    return found


def written(said: Message) -> bytes:
    if isinstance(said, Line) and (known := known_in(said.model_dump(mode="json", include=SAYING))):
        said = said.model_copy(update={"said": known})
    try:
        text = said.model_dump_json(exclude_defaults=True)
    except PydanticSerializationError:  # a text that is none, such as the name of a file may be
        text = json.dumps(said.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"
