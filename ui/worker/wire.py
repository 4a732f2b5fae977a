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

import typing
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, Union

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from ...nodes.execution.events import Event
from ..live.state import Made, Outcome
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


HINTS = typing.get_type_hints(Event, localns={"Tensor": object})
EventLine = create_model(
    "EventLine",
    __config__=STRICT,
    **{
        field.name: (HINTS[field.name], ... if field.default is MISSING else field.default)
        for field in fields(Event)
        if field.name != "preview"
    },
)


class Line(BaseModel):
    """One of: what a run tells, how it ended, an answer, an error alone, which says why the worker cannot begin, or
    nothing: it is alive.
    """

    model_config = STRICT

    run: str = ""
    event: EventLine | None = None
    picture: Picture | None = None
    made: Made | None = None
    thread: int = 0
    outcome: Outcome | None = None

    answer: int = 0
    value: Any = None
    error: str = ""
    code: str = ""

    def told(self) -> Told:
        event = self.event and Event(**{name: getattr(self.event, name) for name in EventLine.model_fields})
        return Told(event=event, picture=self.picture, made=self.made, thread=self.thread)


def line_of(run: str, told: Told) -> Line:
    event = told.event and EventLine(**{name: getattr(told.event, name) for name in EventLine.model_fields})
    return Line(run=run, event=event, picture=told.picture, made=told.made, thread=told.thread)


ToWorker = Order | Cancel | Ask
_ORDERS: TypeAdapter[ToWorker] = TypeAdapter(Union[ToWorker])  # noqa: UP007


def read_order(line: bytes) -> ToWorker:
    return _ORDERS.validate_json(line)


def written(said: BaseModel) -> bytes:
    return said.model_dump_json(exclude_defaults=True).encode() + b"\n"
