"""Reading JSON from strangers: bounded size and nesting, no duplicate keys, no NaN, and one sentence when refused."""

from __future__ import annotations

import json
import math
import re
import stat
from collections import Counter
from pathlib import Path
from typing import Any

from .problems import GraphError, refuse, short

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 32

# A string, or a run of brackets. Possessive, and the closing quote is optional, so that it never goes back.
_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]++|[\]}]++', re.DOTALL)


def read_bytes(path: Path) -> bytes:
    """The content of a workflow file; `GraphError` when it is missing, no plain file, or too large."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise refuse("file", f"{path} is not a file; give a workflow's .json file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, GraphError):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise refuse("file", f"{short(str(path))} cannot be read: {reason}; check the path") from None
    return data


def parse_json(source: str | bytes) -> Any:
    """Plain data from JSON text. Raises `GraphError`, and nothing else, whatever the text is."""
    size = len(source)
    if size > MAX_BYTES:
        raise refuse("too_large", f"the file is larger than {MAX_BYTES} bytes, the limit; is it a workflow?")
    try:
        text = source if isinstance(source, str) else source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse("not_text", f"the file is not UTF-8 text (byte {error.start}); is it a workflow?") from None
    _check_depth(text)
    try:
        data = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise refuse("not_json", f"the file is not JSON: {error.msg} at {where}; correct it there") from None
    except RecursionError:
        raise _too_deep() from None
    if "\\u" in text:
        _check_surrogates(data)
    return data


def _check_depth(text: str) -> None:
    depth = 0
    for match in _BRACKETS.finditer(text):
        run = match.group()
        if run[0] in "[{":
            depth += len(run)
            if depth > MAX_DEPTH:
                raise _too_deep()
        elif run[0] in "]}":
            depth -= len(run)


def _too_deep() -> GraphError:
    return refuse("too_deep", f"the file nests more than {MAX_DEPTH} levels, a workflow needs 6; is it a workflow?")


def _check_surrogates(data: Any) -> None:
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise refuse("not_text", "a string holds half of a \\ud800 pair; write the whole character") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise refuse("duplicate_key", f"the key {short(twice)} is there twice in one object; keep one of them")
    return data


def _no_constant(name: str) -> Any:
    raise refuse("not_a_number", f"{name} is not a number that JSON has; write a finite number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise refuse("not_a_number", f"{short(text)} is too large for a number; write a finite number")
    return value


def _integer(text: str) -> int:
    # int() of a long text is slow and refused beyond 4,300 digits; no socket takes more than 64 bits
    if len(text) > 40:
        raise refuse("not_a_number", f"{short(text)} is too large for a whole number; write one of at most 64 bits")
    return int(text)
