"""Switch: one of two inputs, of which the other is not made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from ...files.workspace import Workspace
from ...graph.choosing import Chooser
from ...graph.sketch import Given
from ...graph.spec import InputSpec, NodeSpec, OutputSpec, Socket, read_spec
from ..arguments import checked

Kind = Literal[
    "Image",
    "Mask",
    "Video",
    "Audio",
    "Latents",
    "Conditioning",
    "Model",
    "References",
    "Sampling",
    "string",
    "int",
    "float",
    "bool",
]
SIDES = {True: "if_true", False: "if_false"}
OUTPUT = "chosen"
ID = "LoomSwitch"
ANY = "any"
"""What a socket takes in a host whose nodes always have the same ones."""


@checked
def switch(
    on: Annotated[bool, Socket(help="Whether the first is taken; where it stands here, the other is not made")],
    *,
    kind: Annotated[Kind, Socket(help="What is chosen from")] = "Image",
    **inputs: Any,
) -> bool:
    """One of two, by yes or no. What is not chosen is not run, unless the choice itself is made while running."""
    side = SIDES[on]
    if inputs.get(side) is None:
        raise ValueError(f"{side} is chosen and has nothing; give a {kind}")
    return inputs[side]


def switch_sketch(given: Given) -> Any:
    return given.value(SIDES[bool(given.value("on"))])


def switch_spec() -> NodeSpec:
    """Without the sockets that its kind decides; in the workflow the side that is not chosen has none."""
    base = read_spec(switch, title="Switch", category="number", sketch=switch_sketch, takes_more=True, id=ID)
    fixed = tuple(InputSpec(name=side, type=ANY, required=False) for side in SIDES.values())
    chooser = Chooser(by=("on", "kind"), choose=_chosen, find=_nothing, may_link=("on",), fixed=fixed)
    return dataclasses.replace(base, chooser=chooser, outputs=(OutputSpec(name=OUTPUT, type=ANY),))


def _chosen(values: Mapping[str, Any]) -> NodeSpec:
    """A truth value is the workflow's own, by which one side is left out; a page asks with texts, and shows both."""
    spec, on = switch_spec(), values.get("on")
    named = spec.input("kind")
    kind = values.get("kind") or (named.default if named else "")
    if named is None or kind not in named.choices:
        raise ValueError(f"kind is {str(kind)[:40]!r}; choose one of {', '.join(named.choices if named else ())}")
    sides = [SIDES[on]] if isinstance(on, bool) else [*SIDES.values()]
    sockets = tuple(InputSpec(name=side, type=str(kind), required=True) for side in sides)
    outputs = (OutputSpec(name=OUTPUT, type=str(kind)),)
    return dataclasses.replace(spec, inputs=(*spec.inputs, *sockets), outputs=outputs, chosen=f"Switch of {kind}")


def _nothing(values: Mapping[str, Any], workspace: Workspace) -> Mapping[str, Any]:
    return {}


NODES = {
    "LoomSwitch": switch_spec(),
}
