"""Tables of which the check runs some cells, and `pytest -m by_hand` the others."""

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cells(*axes: Iterable[Any], here: Collection[tuple[Any, ...]]) -> list[Any]:
    """All that the axes make with each other, as parameters of a test; those `here` are in the check."""
    table = list(itertools.product(*axes))
    assert set(here) <= set(table), f"no cells of the table: {set(here) - set(table)}"
    return [pytest.param(*cell, marks=() if cell in here else pytest.mark.by_hand) for cell in table]
