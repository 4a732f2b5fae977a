"""Text and number steps: Join Text, Choose Text, Vary Text, Layout Prompt, Seed and Note."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any

from ..graph.spec import MAX_SEED, Socket
from .arguments import checked

Text = Annotated[str, Socket(widget="multiline")]
MOST_IN_EACH_OTHER = 16
GRID = 1000
"""Into so many parts FLUX.3 divides both sides of a picture."""
BOX = re.compile(r"([A-Za-z]\w*)" + r"[\s,]+(\d{1,9})" * 4 + r"[\s,:]+(\S.*)", re.ASCII)


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
def vary_text(
    text: Annotated[
        str,
        Socket(
            widget="multiline",
            help="In each {red|blue|dark {green|grey}} one of the ways is taken; \\{, \\| and \\} are the characters",
        ),
    ],
    *,
    seed: Annotated[int, Socket(widget="seed", min=0, max=MAX_SEED, help="Another seed, other choices")] = 0,
) -> Annotated[str, Socket(name="text")]:
    """A text with choices, made by the seed: the same seed makes the same text, on every machine."""
    return _Variation(text, seed).text


class _Variation:
    """One reading of a text with choices. Raises `ValueError` for a brace without its partner, and for too many choices
    in each other.
    """

    def __init__(self, text: str, seed: int) -> None:
        self._parts = re.findall(r"\\[{|}]|[{|}]|[^\\{|}]+|\\", text)
        self._at = self._num_choices = 0
        self._seed = seed
        self.text = self._read(depth=0)

    def _read(self, *, depth: int) -> str:
        """To the end, or to the brace that closes; then all ways are read, and one is taken."""
        if depth > MOST_IN_EACH_OTHER:
            raise ValueError(f"text has choices in choices more than {MOST_IN_EACH_OTHER} deep; make it plainer")
        number, self._num_choices = self._num_choices, self._num_choices + 1
        ways: list[list[str]] = [[]]
        while self._at < len(self._parts):
            part, self._at = self._parts[self._at], self._at + 1
            if part == "{":
                ways[-1].append(self._read(depth=depth + 1))
            elif part == "|" and depth:
                ways.append([])
            elif part == "}":
                if not depth:
                    raise ValueError("text has a } without a {; open the choice, or write \\} for the character")
                return "".join(ways[_drawn(self._seed, number, len(ways))])
            else:
                ways[-1].append(part[1:] if len(part) == 2 and part[0] == "\\" else part)
        if depth:
            raise ValueError("text has a { without a }; close the choice, or write \\{ for the character")
        return "".join(ways[0])


def _drawn(seed: int, number: int, count: int) -> int:
    """One of so many, by the seed and the choice's number in the text; alike on every machine and version."""
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:8]) % count


@checked
def layout_prompt(
    prompt: Annotated[
        str, Socket(widget="multiline", help="What the picture shows; <cup_1> is the element of that box")
    ],
    *,
    boxes: Annotated[
        str,
        Socket(
            widget="multiline",
            help="One a line, such as: cup_1 100 50 400 600 a red cup. Its left, top, right and bottom side in "
            "thousandths of the picture, and what is in it",
        ),
    ] = "",
) -> Annotated[str, Socket(name="text")]:
    """A prompt that says where in the picture each element goes, as FLUX.3 reads it; without boxes as it is."""
    lines = [line for line in boxes.splitlines() if line.strip()]
    rows = [_box(line) for line in lines]
    names = [row["id"] for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"boxes has {', '.join(twice)} more than once; give each box a name of its own")
    return f"{prompt.strip()} {json.dumps(rows, ensure_ascii=False)}" if rows else prompt


def _box(line: str) -> dict[str, Any]:
    """A row of the table that closes a prompt with a layout."""
    found = BOX.fullmatch(line.strip())
    if found is None:
        raise ValueError(
            f"boxes has the line {line.strip()[:60]!r}; write a name, four whole numbers and what is there, such as: "
            "cup_1 100 50 400 600 a red cup"
        )
    name, *sides, what = found.groups()
    left, top, right, bottom = map(int, sides)
    if not (left < right <= GRID and top < bottom <= GRID):
        raise ValueError(
            f"the box {name} goes from {left} {top} to {right} {bottom}; its left and top are below its right and "
            f"bottom, and all of them from 0 to {GRID}"
        )
    return {"id": name, "bbox": [top, left, bottom, right], "desc": what}


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
