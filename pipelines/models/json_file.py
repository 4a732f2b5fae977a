"""Small JSON files: what somebody else wrote is read with limits, so that a bad one is one clear sentence; ours are
there whole or not at all.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput
from ...parallel.machine.folders import private, private_folder
from .regular_file import open_regular

MAX_BYTES = 4 << 20
MAX_DEPTH = 32
MAX_DIGITS = 40

# Possessive, and the closing quote is optional, so that neither goes back.
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^"\[\]{}]++', re.DOTALL)
_RUNS = re.compile(r"[\[{]++|[\]}]++")


class JsonFault(BadInput):
    """Why JSON is refused: `fault` is one word for programs, `reason` a clause for the reader's sentence."""

    code = "bad-json"

    def __init__(self, fault: str, reason: str) -> None:
        self.fault = fault
        self.reason = reason
        super().__init__(reason)


def read_bytes(path: Path, *, what: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a regular file. Raises `ValueError` for anything else: folders, pipes, devices, too large."""
    try:
        with open_regular(path) as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ValueError(f"{what} {path} cannot be read ({error.strerror}); copy the model again") from None
    if len(data) > max_bytes:
        raise ValueError(f"{what} {path} has more than the {max_bytes} bytes that are allowed; check the file")
    return data


def read_object(path: Path, *, what: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """A JSON object; `what` names the file in errors. Raises `ValueError` for what `parse_strict` refuses."""
    return parse_object(read_bytes(path, what=what, max_bytes=max_bytes), what=f"{what} {path}")


def write_object(path: Path, plain: Mapping[str, Any], *, indent: int | None = None) -> None:
    """For this user alone. Who reads or writes it meanwhile finds it whole. It may be lost with the power. Raises
    `OSError`."""
    private_folder(path.parent)
    part = path.with_name(f".{path.stem}-{secrets.token_hex(16)}.part")
    try:
        with open(part, "w", opener=private) as file:
            file.write(json.dumps(plain, indent=indent))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def parse_object(data: bytes, *, what: str) -> dict[str, Any]:
    try:
        value = parse_strict(data)
    except JsonFault as fault:
        raise ValueError(f"{what} is not valid JSON ({fault.reason}); copy the model again") from None
    if not isinstance(value, dict):
        raise ValueError(f"{what} holds a {type(value).__name__} instead of an object; copy the model again")
    return value


def parse_strict(source: str | bytes, *, max_depth: int = MAX_DEPTH, takes_nan: bool = False) -> Any:
    """Plain data from JSON, with one meaning only: no duplicate keys, no NaN or infinity, no halves of characters.

    `takes_nan` is for writers that put NaN and infinity where they do not matter.

    Raises `JsonFault`, and nothing else, whatever the text is; its size is the caller's to bound.
    """
    try:
        text = source if isinstance(source, str) else source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JsonFault("not_text", f"byte {error.start} is not UTF-8") from None
    _check_depth(text, max_depth)
    try:
        data = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=float if takes_nan else _no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise JsonFault("not_json", f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    if "\\u" in text:
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise JsonFault("not_text", "a string holds half of a \\ud800 pair") from None
    return data


def without_texts(data: bytes, *, max_texts: int) -> bytes:
    """What of JSON lies between its strings, to count before parsing. Raises `JsonFault` beyond `max_texts` strings."""
    # A string has two quotes without a backslash before them, or one where it ends in a backslash of its own.
    if data.count(b'"') - data.count(b'\\"') > 2 * max_texts:
        raise JsonFault("too_many", f"it holds more than {max_texts:,} texts")
    between, num_texts = _TEXTS.subn(b"", data)
    if num_texts > max_texts:
        raise JsonFault("too_many", f"it holds more than {max_texts:,} texts")
    return between


def _check_depth(text: str, max_depth: int) -> None:
    brackets = _NO_BRACKETS.sub("", text)
    for _ in range(max_depth):  # each turn takes away the innermost: much faster than to walk through a large text
        # a space in between, or one turn would take away "{}" and what it left of "[{}]"
        brackets = brackets.replace("[]", " ").replace("{}", " ").replace(" ", "")
    depth = max_depth if "[]" in brackets or "{}" in brackets else 0
    for match in _RUNS.finditer(brackets):  # empty now, but for what is too deep or no JSON
        run = match.group()
        depth += len(run) if run[0] in "[{" else -len(run)
        if depth > max_depth:
            raise JsonFault("too_deep", f"it nests more than {max_depth} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise JsonFault("duplicate_key", f"the key {twice[:60]!r} is there twice in one object")
    return data


def _no_constant(name: str) -> Any:
    raise JsonFault("not_a_number", f"{name} is not a number that JSON has")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise JsonFault("not_a_number", f"{text[:60]} is too large for a number")
    return value


def _integer(text: str) -> int:
    # int() of a long text is slow and refused beyond 4,300 digits; nothing takes more than 64 bits
    if len(text) > MAX_DIGITS:
        raise JsonFault("not_a_number", f"{text[:60]} is too large for a whole number")
    return int(text)
