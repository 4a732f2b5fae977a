"""Integer, Float, Boolean and Calculate; and Switch: one of two inputs, of which the other is not made."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from ...graph.scalars import INT_RANGE
from ...graph.signature import read_spec
from ...graph.spec import Chooser, InputSpec, NodeSpec, OutputSpec, Socket
from ..arguments import checked, reckoning
from .expression import reckon

Value = Literal["Image", "Mask", "Video", "Audio", "Latents", "Conditioning", "Model", "References", "Sampling"]
Kind = Literal[Value, "string", "int", "float", "bool"]
KINDS = get_args(Kind)
SIDES = {True: "if_true", False: "if_false"}
OUTPUT = "chosen"
ID = "LoomSwitch"
ANY = "any"  # what a socket takes in a host whose nodes always have the same ones


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
        "Of the numbers a, b, c and d: + - * / // % **, < <= == and the like, and or not, x if y else z, "
        "abs, ceil, floor, max, min, round, sqrt",
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


@checked
def switch(
    on: Annotated[bool, "Whether the first is taken; where it stands here, the other is not made"],
    *,
    kind: Annotated[Kind, "What is chosen from"] = "Image",
    **inputs: Any,
) -> bool:
    """One of two, by yes or no. What is not chosen is not run, unless the choice itself is made while running."""
    side = SIDES[on]
    if inputs.get(side) is None:
        raise ValueError(f"{side} is chosen and has nothing; give a {kind}")
    return inputs[side]


def switch_spec() -> NodeSpec:
    """Without the sockets that its kind decides; in the workflow the side that is not chosen has none."""
    base = read_spec(
        switch,
        title="Switch",
        category="number",
        sketch=lambda given: given.value(SIDES[bool(given.value("on"))]),
        takes_more=True,
        id=ID,
    )
    fixed = tuple(InputSpec(name=side, type=ANY, required=False) for side in SIDES.values())
    chooser = Chooser(by=("on", "kind"), choose=_chosen, may_link=("on",), fixed=fixed)
    return dataclasses.replace(base, chooser=chooser, outputs=(OutputSpec(name=OUTPUT, type=ANY),))


def _chosen(values: Mapping[str, Any]) -> NodeSpec:
    """A truth value is the workflow's own, by which one side is left out; a page asks with texts, and shows both."""
    on, kind = values.get("on"), values.get("kind") or KINDS[0]
    if kind not in KINDS:
        raise ValueError(f"kind is {str(kind)[:40]!r}; choose one of {', '.join(KINDS)}")
    spec = switch_spec()
    sides = [SIDES[on]] if isinstance(on, bool) else [*SIDES.values()]
    sockets = tuple(InputSpec(name=side, type=str(kind), required=True) for side in sides)
    outputs = (OutputSpec(name=OUTPUT, type=str(kind)),)
    return dataclasses.replace(spec, inputs=(*spec.inputs, *sockets), outputs=outputs, chosen=f"Switch of {kind}")


NODES = {
    "LoomInteger": reckoning(integer, title="Integer", category="number"),
    "LoomFloat": reckoning(decimal, title="Float", category="number"),
    "LoomBoolean": reckoning(boolean, title="Boolean", category="number"),
    "LoomCalculate": reckoning(calculate, title="Calculate", category="number"),
    ID: switch_spec(),
}
