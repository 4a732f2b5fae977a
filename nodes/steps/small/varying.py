"""Vary Text: a text with choices and with lines of files, made by a seed, alike on every machine and version."""

import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from ....parallel.errors import BadInput
from ....pipelines.models.regular_file import read_bytes
from ....pipelines.models.source import exists
from ...files.workspace import HERE, Workspace
from ...graph.scalars import MAX_STRING
from ...graph.signature import read_spec
from ...graph.sketch import Given, Refusal
from ..arguments import checked, refused_by, sketch_by
from ..sockets import NewText, Seed, Text

MOST_IN_EACH_OTHER = 16
MOST_DRAWN = 1000  # lines that one text takes from files, those within lines included
MOST_CHOICES = 10_000  # of a text, or of a line of a file
MOST_BYTES = 1 << 20  # of a file
FOLDER = "wildcards"
PLAIN = re.compile(r"\\[{|}]|[{|}]|[^\\{|}]+|\\")
NAME = r"__[A-Za-z0-9]+(?:[/_-][A-Za-z0-9]+)*__"
WITH_FILES = re.compile(rf"\\[{{|}}_]|[{{|}}]|{NAME}|[^\\{{|}}_]+|[\\_]")

ReadLines = Callable[[str], Sequence[str]]


@checked
def vary_text(
    text: Annotated[
        Text, "In each {red|blue|dark {green|grey}} one of the ways is taken; \\{, \\| and \\} are the characters"
    ],
    *,
    seed: Annotated[Seed, "Another seed, other choices"] = 0,
    wildcards: Annotated[
        bool, "Each __colour__ takes a line of wildcards/colour.txt in a folder that the run may read"
    ] = False,
    workspace: Workspace = HERE,
) -> NewText:
    """A text with choices, made by the seed: the same seed makes the same text, on every machine."""
    read = functools.cache(lambda name: _lines(name, workspace))
    return _Variation(text, str(seed), read if wildcards else None, []).made()


vary_sketch = sketch_by(vary_text)


def vary_refusals(given: Given) -> dict[str, str | Refusal]:
    return {"text": refused_by("no_file" if given.value("wildcards") else "not_taken", lambda: vary_sketch(given))}


def vary_fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
    """The content of the files whose lines could be taken. Raises `KeyError` where the text comes by a wire."""
    if not inputs["wildcards"]:
        return ""
    read: dict[str, Sequence[str]] = {}
    waiting = [str(inputs["text"])]
    while waiting:
        for found in re.findall(NAME, waiting.pop()):
            name = found.strip("_")
            if name not in read:
                read[name] = _lines(name, workspace)
                waiting += ["\n".join(read[name])]
    return hashlib.sha256(repr(sorted(read.items())).encode()).hexdigest()


class _Variation:
    """One reading of a text with choices. Raises `ValueError` for a brace without its partner, for too many choices in
    each other, and for a file that is not there."""

    def __init__(self, text: str, seed: str, read_lines: ReadLines | None, drawn: list[int], *, depth: int = 0) -> None:
        """`drawn` are the lengths of the lines that were taken from files so far; without `read_lines` none is."""
        self._parts: list[str] = (WITH_FILES if read_lines else PLAIN).findall(text)
        self._at = self._num_choices = 0
        self._seed, self._read_lines, self._drawn, self._depth = seed, read_lines, drawn, depth

    def made(self) -> str:
        text = self._read(depth=self._depth)
        if len(text) > MAX_STRING:
            raise BadInput("the text would have more than {:,} characters; take less from files", MAX_STRING)
        return text

    def _read(self, *, depth: int) -> str:
        """To the end, or to the brace that closes; then all ways are read, and one is taken."""
        if depth > MOST_IN_EACH_OTHER:
            raise BadInput("text has choices in choices more than {} deep; make it plainer", MOST_IN_EACH_OTHER)
        number, is_inside = self._next(), depth > self._depth
        ways: list[list[str]] = [[]]
        while self._at < len(self._parts):
            part, self._at = self._parts[self._at], self._at + 1
            if part == "{":
                ways[-1].append(self._read(depth=depth + 1))
            elif part == "|" and is_inside:
                ways.append([])
            elif part == "}":
                if not is_inside:
                    raise ValueError("text has a } without a {; open the choice, or write \\} for the character")
                return "".join(ways[_drawn(self._seed, number, len(ways))])
            elif self._read_lines and re.fullmatch(NAME, part):
                ways[-1].append(self._line(part.strip("_"), self._read_lines, depth=depth))
            else:
                ways[-1].append(part[1:] if len(part) == 2 and part[0] == "\\" else part)
        if is_inside:
            raise ValueError("text has a { without a }; close the choice, or write \\{ for the character")
        return "".join(ways[0])

    def _line(self, name: str, read_lines: ReadLines, *, depth: int) -> str:
        """One of a file, in which the choices are made as well."""
        number, lines = self._next(), read_lines(name)
        line = lines[_drawn(self._seed, number, len(lines))]
        self._drawn.append(len(line))
        if len(self._drawn) > MOST_DRAWN:
            raise BadInput("text takes more than {} lines from files, which name each other; take less", MOST_DRAWN)
        if sum(self._drawn) > MAX_STRING:
            raise BadInput("text takes more than {:,} characters from files; take less", MAX_STRING)
        return _Variation(line, f"{self._seed} {number}", read_lines, self._drawn, depth=depth + 1).made()

    def _next(self) -> int:
        number, self._num_choices = self._num_choices, self._num_choices + 1
        if number > MOST_CHOICES:
            raise BadInput("text has more than {:,} choices; make it plainer", MOST_CHOICES)
        return number


def _drawn(seed: str, number: int, count: int) -> int:
    """One of so many, by the seed and the choice's number in the text; alike on every machine and version."""
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:8]) % count


def _lines(name: str, workspace: Workspace) -> tuple[str, ...]:
    """The texts of wildcards/name.txt; empty lines and those that begin with # do not count. Raises `ValueError`."""
    said = f"{FOLDER}/{name}.txt"
    roots = (Path.cwd(),) if workspace.roots is None else workspace.roots
    places = [(root if root.name == FOLDER else root / FOLDER) / f"{name}.txt" for root in roots]
    found = next((place for place in places if exists(place)), None)
    if found is None:
        raise BadInput(
            "text takes a line of {}, which no folder of this run has; write the file, one text a "
            "line, or switch wildcards off",
            said,
        )
    content = read_bytes(workspace.input_path(str(found), socket="text"), what=said, max_bytes=MOST_BYTES)
    try:
        lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise BadInput("{} is no text in UTF-8; save it as one", said) from None
    if texts := tuple(line for line in lines if line and not line.startswith("#")):
        return texts
    raise BadInput("{} holds no text; write one a line", said)


NODES = {
    "LoomVaryText": read_spec(
        vary_text,
        title="Vary Text",
        category="text",
        fingerprint=vary_fingerprint,
        sketch=vary_sketch,
        refuses=vary_refusals,
    )
}
