"""Text and number steps: Join Text, Choose Text, Layout Prompt, Seed and Note."""

import json
import re
from collections import Counter
from typing import Annotated, Any

from ...parallel.errors import BadInput
from ..graph.scalars import MAX_LISTED
from ..graph.signature import read_spec
from ..graph.spec import MAX_SEED, Socket
from .arguments import checked, reckoning
from .sockets import NewText, Seed, Text

GRID = 1000  # into so many parts FLUX.3 divides both sides of a picture
BOX = re.compile(r"([A-Za-z]\w*)" + r"[\s,]+(\d{1,9})" * 4 + r"[\s,:]+(\S.*)", re.ASCII)


@checked
def join_text(
    first: Text,
    second: Text = "",
    third: Text = "",
    fourth: Text = "",
    *,
    separator: Annotated[str, "Between the parts; empty parts are left out"] = ", ",
) -> NewText:
    """One text of several."""
    return separator.join(part for part in (first, second, third, fourth) if part)


@checked
def choose_text(
    lines: Annotated[Text, "One text a line; empty lines do not count"],
    *,
    index: Annotated[int, Socket(min=0), "Which line, from 0; counts on from the start after the last"] = 0,
) -> NewText:
    """One line of several, by number: wire a seed to it, or sweep the number."""
    texts = [line.strip() for line in lines.splitlines() if line.strip()]
    if not texts:
        raise ValueError("lines holds no text; write one text a line")
    return texts[index % len(texts)]


@checked
def layout_prompt(
    prompt: Annotated[Text, "What the picture shows; <cup_1> is the element of that box"],
    *,
    boxes: Annotated[
        Text,
        "One a line, such as: cup_1 100 50 400 600 a red cup. Its left, top, right and bottom side in thousandths of "
        "the picture, and what is in it",
    ] = "",
) -> NewText:
    """A prompt that says where in the picture each element goes, as FLUX.3 reads it; without boxes as it is."""
    lines = [line for line in boxes.splitlines() if line.strip()]
    rows = [_box(line) for line in lines]
    if twice := sorted(name for name, count in Counter(row["id"] for row in rows).items() if count > 1)[:MAX_LISTED]:
        raise BadInput("boxes has {} more than once; give each box a name of its own", ", ".join(twice))
    return f"{prompt.strip()} {json.dumps(rows, ensure_ascii=False)}" if rows else prompt


def _box(line: str) -> dict[str, Any]:
    """A row of the table that closes a prompt with a layout."""
    found = BOX.fullmatch(line.strip())
    if found is None:
        raise BadInput(
            "boxes has the line {!r}; write a name, four whole numbers and what is there, such as: "
            "cup_1 100 50 400 600 a red cup",
            line.strip()[:60],
        )
    name, *sides, what = found.groups()
    left, top, right, bottom = map(int, sides)
    if not (left < right <= GRID and top < bottom <= GRID):
        raise BadInput(
            "the box {} goes from {} {} to {} {}; its left and top are below its right and bottom, "
            "and all of them from 0 to {}",
            name,
            left,
            top,
            right,
            bottom,
            GRID,
        )
    return {"id": name, "bbox": [top, left, bottom, right], "desc": what}


@checked
def seed(
    value: Seed = 0,
    *,
    offset: Annotated[int, Socket(min=-MAX_SEED, max=MAX_SEED, advanced=True), "Added to the value"] = 0,
) -> Annotated[int, Socket(name="seed")]:
    """One seed for several nodes."""
    return (value + offset) % (MAX_SEED + 1)


@checked
def note(text: Text = "") -> None:
    """Words for whoever opens the workflow; it does nothing."""


NODES = {
    "LoomJoinText": reckoning(join_text, title="Join Text", category="text"),
    "LoomChooseText": reckoning(choose_text, title="Choose Text", category="text"),
    "LoomLayoutPrompt": reckoning(layout_prompt, title="Layout Prompt", category="text"),
    "LoomSeed": reckoning(seed, title="Seed", category="text"),
    "LoomNote": read_spec(note, title="Note", category="text"),
}
