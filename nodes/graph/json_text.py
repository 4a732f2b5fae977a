"""Reading JSON from strangers: bounded size and nesting, no duplicate keys, no NaN, and one sentence when refused."""

from pathlib import Path
from typing import Any

from ...parallel.wording import worded
from ...pipelines.models.regular_file import JsonFault, open_regular, parse_strict
from .problems import refuse, short

MAX_BYTES = 4 * 2**20

REMEDIES = {
    "not_text": "is it a workflow?",
    "too_deep": "a workflow needs 6 levels, is it one?",
    "not_json": "correct it there",
    "duplicate_key": "keep one of them",
    "not_a_number": "write a finite number of at most 64 bits",
}


def read_bytes(path: Path) -> bytes:
    """The content of a workflow file; `GraphError` when it is missing, no plain file, or too large."""
    try:
        with open_regular(path) as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise refuse(
            "file", worded("{} cannot be read: {}; give a workflow's .json file", short(str(path)), reason)
        ) from None


def parse_json(source: str | bytes, *, takes_nan: bool = False) -> Any:
    """Plain data from JSON text. Raises `GraphError`, and nothing else, whatever the text is."""
    if len(source) > MAX_BYTES:
        raise refuse("too_large", worded("the file is larger than {} bytes, the limit; is it a workflow?", MAX_BYTES))
    try:
        return parse_strict(source, takes_nan=takes_nan)
    except JsonFault as error:
        remedy = REMEDIES[error.fault]
        raise refuse(error.fault, worded("the file is not JSON that we read: {}; {}", error.reason, remedy)) from None
