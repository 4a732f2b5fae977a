"""What server and worker say to each other, a line of JSON each.

    line     from    when
    Start    server  first: what the worker opens
    Order    server  a run is to be made                             Line with `event`, ..., `outcome` of this run
    Cancel   server  a run is to end at its next step
    Ask      server  what is loaded, or to measure the machine       Line with `answer`
    Line     worker  something happened in a run, or was answered
    (end)    server  it has ended, or is about to

Nothing is pickled. A preview is a small picture, in base64.
"""

from __future__ import annotations

import json
import typing
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, TypeAdapter, create_model
from pydantic_core import PydanticSerializationError

from ...nodes.execution.events import Event
from ...parallel.wording import known_in, remember
from ..live.state import MadeFile, Outcome
from .work import Order, Picture, Told

STRICT = ConfigDict(
    frozen=True, extra="forbid", ser_json_inf_nan="constants", ser_json_bytes="base64", val_json_bytes="base64"
)
Question = Literal["loaded", "measured"]


class Start(BaseModel):
    """What the worker opens before anything else."""

    model_config = STRICT

    cache_dir: Path
    doors: dict[str, Any]
    """As `pipelines.doors.order` says it."""


class Cancel(BaseModel):
    model_config = STRICT

    cancel: str
    """The run."""


class Ask(BaseModel):
    model_config = STRICT

    ask: int
    """Its number."""
    what: Question


_HINTS = typing.get_type_hints(Event, localns={"Tensor": object})
_FIELDS: dict[str, Any] = {
    field.name: (_HINTS[field.name], ... if field.default is MISSING else field.default)
    for field in fields(Event)
    if field.name != "preview"
}
_Event = create_model("_Event", __config__=STRICT, **_FIELDS)


def _read(plain: Any) -> Event | None:
    return plain and Event(**dict(_Event.model_validate(plain)))


def _plain(event: Event | None) -> dict[str, Any] | None:
    if event is None:
        return None
    return _Event(**{name: getattr(event, name) for name in _FIELDS}).model_dump(mode="json", exclude_defaults=True)


class Line(BaseModel):
    """One of: what a run tells, how it ended, an answer, an error alone, which says why the worker cannot begin, or
    nothing: it is alive.
    """

    model_config = STRICT

    run: str = ""
    event: Annotated[Any, PlainValidator(_read), PlainSerializer(_plain)] = None
    """An `Event`, or None."""
    picture: Picture | None = None
    made: MadeFile | None = None
    thread: int = 0
    outcome: Outcome | None = None

    answer: int = 0
    value: Any = None
    error: str = ""
    code: str = ""
    said: dict[str, Any] = Field(default_factory=dict)
    """How its sentences were made (`parallel/wording.py`)."""

    def told(self) -> Told:
        return Told(event=self.event, picture=self.picture, made=self.made, thread=self.thread)


def line_of(run: str, told: Told) -> Line:
    return Line.model_construct(run=run, event=told.event, picture=told.picture, made=told.made, thread=told.thread)


SAYING = {"event", "outcome", "value", "error"}
"""What of a line has sentences."""
_ORDERS: TypeAdapter[Order | Cancel | Ask] = TypeAdapter(Order | Cancel | Ask)


def read_order(line: bytes) -> Order | Cancel | Ask:
    return _ORDERS.validate_json(line)


def read_line(line: bytes) -> Line:
    found = Line.model_validate_json(line)
    remember(found.said)
    return found


def written(said: BaseModel) -> bytes:
    if isinstance(said, Line) and (known := known_in(said.model_dump(mode="json", include=SAYING))):
        said = said.model_copy(update={"said": known})
    try:
        text = said.model_dump_json(exclude_defaults=True)
    except PydanticSerializationError:  # a text that is none, such as the name of a file may be
        text = json.dumps(said.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"
