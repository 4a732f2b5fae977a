"""Number steps: Integer, Float, Boolean and Calculate."""

from __future__ import annotations

from typing import Annotated

from ...graph.scalars import INT_RANGE
from ...graph.spec import Socket, read_spec
from ..arguments import checked, sketch_by
from .expression import reckon


@checked
def integer(value: int = 0) -> Annotated[int, Socket(name="int")]:
    """One whole number for several nodes."""
    return value


@checked
def decimal(value: float = 0.0) -> Annotated[float, Socket(name="float")]:
    """One number for several nodes."""
    return value


@checked
def boolean(value: bool = True) -> Annotated[bool, Socket(name="bool")]:
    """Yes or no for several nodes."""
    return value


@checked
def calculate(
    formula: Annotated[
        str,
        Socket(
            help="Of the numbers a, b, c and d: + - * / // % **, < <= == and the like, and or not, x if y else z, "
            "abs, ceil, floor, max, min, round, sqrt"
        ),
    ] = "a + b",
    *,
    a: float = 0.0,
    b: float = 0.0,
    c: float = 0.0,
    d: float = 0.0,
) -> tuple[
    Annotated[float, Socket(name="number")],
    Annotated[int, Socket(name="whole", help="The number, rounded")],
    Annotated[bool, Socket(name="truth", help="Whether the number is not 0")],
]:
    """What a formula gives, as a number, a whole number, and as yes or no."""
    found = reckon(formula, {"a": a, "b": b, "c": c, "d": d})
    low, high = INT_RANGE
    return float(found), min(max(round(found), low), high), bool(found)


NODES = {
    "LoomInteger": read_spec(integer, title="Integer", category="number", sketch=sketch_by(integer)),
    "LoomFloat": read_spec(decimal, title="Float", category="number", sketch=sketch_by(decimal)),
    "LoomBoolean": read_spec(boolean, title="Boolean", category="number", sketch=sketch_by(boolean)),
    "LoomCalculate": read_spec(calculate, title="Calculate", category="number", sketch=sketch_by(calculate)),
}
