"""Text and number steps: Join Text, Choose Text, Seed and Note."""

from __future__ import annotations

from typing import Annotated

from ..graph.spec import MAX_SEED, Socket
from .arguments import checked

Text = Annotated[str, Socket(widget="multiline")]


@checked
def join_text(
    first: Text,
    second: Text = "",
    third: Text = "",
    fourth: Text = "",
    *,
    separator: Annotated[str, Socket(help="Between the parts; empty parts are left out")] = ", ",
) -> Annotated[str, Socket(name="text")]:
    """One text of several."""
    return separator.join(part for part in (first, second, third, fourth) if part)


@checked
def choose_text(
    lines: Annotated[str, Socket(widget="multiline", help="One text a line; empty lines do not count")],
    *,
    index: Annotated[int, Socket(min=0, help="Which line, from 0; counts on from the start after the last")] = 0,
) -> Annotated[str, Socket(name="text")]:
    """One line of several, by number: wire a seed to it, or sweep the number."""
    texts = [line.strip() for line in lines.splitlines() if line.strip()]
    if not texts:
        raise ValueError("lines holds no text; write one text a line")
    return texts[index % len(texts)]


@checked
def seed(
    value: Annotated[int, Socket(widget="seed", min=0, max=MAX_SEED)] = 0,
    *,
    offset: Annotated[int, Socket(min=-MAX_SEED, max=MAX_SEED, help="Added to the value", advanced=True)] = 0,
) -> Annotated[int, Socket(name="seed")]:
    """One seed for several nodes."""
    return (value + offset) % (MAX_SEED + 1)


@checked
def note(text: Text = "") -> None:
    """Words for whoever opens the workflow; it does nothing."""
