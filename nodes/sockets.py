"""What a node's signature says about its sockets beyond the Python type: ranges, help, how to show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..pipelines.request import NUM_SEEDS

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
    """Of an output: its socket name; the value's type in lower case where empty."""
