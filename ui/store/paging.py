"""Long lists, sent a page at a time: `limit` rows, those behind the row that `before` names, the last one seen."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import Field

from ...parallel.wording import worded
from ..errors import NotHere

MAX_ROWS = 1000
FIRST_ROWS = 100
MAX_TEXT = 500  # characters of a text that a user wrote, in a row of a list
MAX_PROMPT = 2000  # and of one among what made a result

Limit = Annotated[int, Field(ge=1, le=MAX_ROWS, description="Rows at most.")]
Before = Annotated[str, Field(max_length=128, description="The last row of the page before.")]

Row = TypeVar("Row")


def page_of(rows: Sequence[Row], key: Callable[[Row], str], *, limit: int = FIRST_ROWS, before: str = "") -> list[Row]:
    """Raises `NotHere` where the last row of the page before is gone: from the start it would be sent for ever."""
    start = 0
    if before:
        start = next((number for number, row in enumerate(rows, start=1) if key(row) == before), 0)
        if not start:
            raise NotHere(worded("the list has no {!r} any more; read it again from its start", before[:40]))
    return list(rows[start : start + max(1, min(limit, MAX_ROWS))])


def shortened(text: str, length: int = MAX_TEXT) -> str:
    """The beginning of a long text, with a mark that there is more."""
    return text if len(text) <= length else f"{text[:length]}\u2026"


def short_values(values: Mapping[str, Any], length: int = MAX_TEXT) -> dict[str, Any]:
    """A workflow's values by name, with the beginnings of long texts."""
    return {name: shortened(value, length) if isinstance(value, str) else value for name, value in values.items()}
