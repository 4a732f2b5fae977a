"""What a scalar socket accepts: the one place where types, ranges and choices of plain values are checked.

The checker, the command line, the page and a node called by hand all ask here, and so refuse alike.
"""

import dataclasses
import difflib
import json
import math
import re
from collections.abc import Sequence
from typing import Any

from ...parallel.wording import worded
from .problems import short
from .spec import SCALARS, InputSpec

MAX_STRING = 1_000_000
INT_RANGE = (-(2**63), 2**64 - 1)
# JavaScript rounds whole numbers beyond: a browser may send them as text of their digits, which means the number.
EXACT = 2**53 - 1

MAX_LISTED = 30  # choices that a sentence lists

_DIGITS = re.compile(r"-?[1-9]\d{15,19}")

SCALAR_TYPES = frozenset([*SCALARS.values(), "choice"])
LISTS = {f"list[{name}]": name for name in SCALARS.values()}  # types of lists of plain values: what they are lists of
PLAIN_TYPES = SCALAR_TYPES | LISTS.keys()  # what can be written into a file; everything else comes by a link
_KINDS: dict[str, tuple[type, ...]] = {
    **{"int": (int,), "float": (float, int), "bool": (bool,)},
    **dict.fromkeys(("string", "choice"), (str,)),
}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text", "choice": "text"}


def fault(socket: InputSpec, value: Any) -> tuple[str, str] | None:
    """(code, message) of what is wrong with a plain value at this socket; None when it fits."""
    name, kind = socket.name, socket.type
    if value is None and not socket.required and socket.default is None:
        return None
    if socket.widget == "json" and isinstance(value, list | dict):
        return None
    if kind in LISTS and isinstance(value, list | tuple):
        each = dataclasses.replace(socket, type=LISTS[kind], required=True)
        return next((found for item in value if (found := fault(each, item))), None)
    if kind in LISTS:
        return "wrong_type", worded("{} is {}; it takes a list; write one, such as [1, 2]", name, short(value))
    if kind not in _KINDS:
        wire = worded('wire a {} to it (in the file: {{"from": "node.socket"}})', kind)
        return "wrong_type", worded("{} is {}, but it takes what another node makes; {}", name, short(value), wire)
    if kind == "int":
        value = as_type(kind, value)
    if value is None or type(value) not in _KINDS[kind]:
        return "wrong_type", worded("{} is {}; it takes {}; write one", name, short(value), _WORDS[kind])
    if kind in ("string", "choice"):
        return _text_fault(socket, value)
    return _number_fault(socket, value)


def _number_fault(socket: InputSpec, value: int | float) -> tuple[str, str] | None:
    name = socket.name
    if isinstance(value, float) and not math.isfinite(value):
        return "not_a_number", worded("{} is {}; it takes a finite number; write one", name, value)
    is_whole = isinstance(value, int)
    low = INT_RANGE[0] if is_whole and socket.min is None else socket.min
    high = INT_RANGE[1] if is_whole and socket.max is None else socket.max
    if (low is not None and value < low) or (high is not None and value > high):
        return "out_of_range", worded(
            "{} is {}; it takes {}; choose a number there", name, short(value), _range(low, high)
        )
    return None


def as_type(kind: str, value: Any) -> Any:
    """A value as the node expects it: a whole number becomes a float at a float socket, and digits beyond what a
    browser counts exactly a whole number. What is of another type stays as it is."""
    if kind in LISTS and isinstance(value, list | tuple):
        return [as_type(LISTS[kind], item) for item in value]
    if kind == "float" and type(value) is int:
        return float(value)
    if kind == "int" and isinstance(value, str) and _DIGITS.fullmatch(value) and abs(int(value)) > EXACT:
        return int(value)
    return value


def can_feed(output: str, socket: str) -> bool:
    """Whether an output of one type may be linked to an input of another."""
    return output == socket or (output, socket) in (("int", "float"), ("choice", "string"))


def _text_fault(socket: InputSpec, value: str) -> tuple[str, str] | None:
    most = socket.longest or MAX_STRING
    if len(value) > most:
        return "too_long", worded(
            "{} has {:,} characters; at most {:,} are taken; shorten it", socket.name, len(value), most
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        return "not_text", worded("{} holds bytes that are no text; write it in UTF-8", socket.name)
    if socket.type == "choice" and value not in socket.choices:
        return "not_a_choice", worded("{} is {}; {}", socket.name, short(value), _offer(value, socket.choices))
    try:
        json.loads(value if socket.widget == "json" and value.strip() else "null")
    except (ValueError, RecursionError):
        return "not_json", worded("{} is {}; it takes JSON, such as [1, 2], or nothing", socket.name, short(value))
    return None


def _offer(value: str, choices: Sequence[str]) -> str:
    """All choices, or of very many the nearest."""
    if len(choices) <= MAX_LISTED:
        return worded("choose one of {}", ", ".join(choices))
    near = difflib.get_close_matches(value[:128], choices, n=3, cutoff=0.3)
    return worded("choose one of the {} that there are, such as {}", len(choices), ", ".join(near or choices[:3]))


def _range(low: float | None, high: float | None) -> str:
    def number(value: float) -> str:
        return str(int(value)) if float(value).is_integer() else str(value)

    if low is not None and high is not None:
        return worded("{} to {}", number(low), number(high))
    return worded("at least {}", number(low)) if low is not None else worded("at most {}", number(high or 0))
