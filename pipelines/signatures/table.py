"""What each pipeline class of diffusers is called with and gives, from a table that `survey.py` makes of diffusers.

Importing this imports neither torch nor diffusers, so that files are checked and sockets are drawn without them.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...parallel.errors import did_you_mean

TABLE = Path(__file__).with_name("signatures.json")
# What somebody has read of the classes' own code: for each text, path and JSON among their parameters a verdict, with
# its reason. One that is not there is not given, so that no new diffusers brings a path, an address or a format string
# that nobody has looked at.
REVIEWED = Path(__file__).with_name("reviewed.json")

Plain = Literal["text", "number", "integer", "switch", "choice", "texts", "numbers", "integers", "json"]
Shown = Literal["picture", "pictures", "mask", "conditions", "references", "video", "audio"]
# `conditions` are pictures at places of a video, `references` a clip beside it, as `calls.py` finds them.
Kind = Plain | Shown
TEXTS: tuple[Kind, ...] = ("text", "texts", "json")  # what may hold any characters, and so needs a verdict
SCALES = ("true_cfg_scale", "guidance_scale")  # parameters that are scales of guidance; of two the first counts
Output = Literal["image", "video", "audio"]


class Parameter(NamedTuple):
    """One of what a pipeline is called with. What has no default is required; a default of None is the pipeline's own
    choice. There are two thousand: as tuples they are made in a quarter of the time."""

    name: str
    kind: Kind
    is_required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    is_advanced: bool = False


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One pipeline class."""

    name: str
    parameters: tuple[Parameter, ...]
    outputs: Mapping[Output, str]  # what it gives that can be shown, and what its output class calls that
    fps: str | float = 0.0  # frames a second of its videos, or the parameter that says so
    parts: tuple[str, ...] = ()  # the components that every call of a modular pipeline needs
    lacks: tuple[str, ...] = ()  # tensors that it must be given, which no socket has
    # Texts that it takes and is never given, each with the reason.
    left_out: Mapping[str, str] = field(default_factory=dict)
    # Components that it makes itself, of a package of their own, to check what it is asked for and what it made.
    guard: tuple[str, ...] = ()
    transformers: tuple[str, ...] = ()  # the classes that its transformers may have
    takes_loras: bool = False

    def why_not_of(self, index: Mapping[str, Any]) -> str:
        """Why the parts of a model with this index make no such pipeline, by its transformers; "" if they may."""
        own = index["_class_name"]
        named = [entry for part, entry in index.items() if part.startswith("transformer")]
        found = [entry[1] for entry in named if isinstance(entry, list) and len(entry) >= 2]
        other = next((kind for kind in found if isinstance(kind, str) and kind not in self.transformers), "")
        if own == self.name or not other:
            return ""
        wanted = " or ".join(self.transformers)
        remedy = f"choose {own}, or" if own in class_names() else "choose"
        return f"its transformer is a {other}, and {self.name} takes a {wanted}; {remedy} another model"

    def guidance(self, arguments: Mapping[str, Any]) -> float:
        """The scale of guidance where each step of this call is likely to ask the transformer for two branches, else 1.

        Where there are two scales, `guidance_scale` is of a distilled model, which has one branch. That of a modular
        pipeline is its guider's.
        """
        usual = {each.name: each.default for each in self.parameters}
        scale = next((name for name in SCALES if name in usual), "")
        value = arguments.get(scale, usual.get(scale))
        is_told = "negative_prompt" in usual or (self.parts and scale == "guidance_scale")
        if not is_told or not isinstance(value, int | float) or value <= 1:
            return 1.0
        is_on = scale == "guidance_scale" or arguments.get("negative_prompt") is not None
        return float(value) if is_on else 1.0


def signature_of(name: str) -> Signature:
    """Raises `ValueError` with the nearest class for one that is not in the table."""
    classes = _table()["classes"]
    if name not in classes:
        raise ValueError(
            f"{name[:100]!r} is none of the {len(classes)} pipeline classes that are known; "
            f"{did_you_mean(name[:100], classes)}write the _class_name of the folder's model_index.json"
        )
    return _signature(name)


def class_names() -> tuple[str, ...]:
    return tuple(_table()["classes"])


@functools.cache
def _signature(name: str) -> Signature:
    row = _table()["classes"][name]
    parameters = [_parameter(*each, is_advanced=key == "advanced") for key in MAIN for each in row[key].items()]
    required = [each for each in parameters if each.is_required]
    left_out = {each.name: why for each in parameters if (why := _why_not_given(name, each))}
    return Signature(
        name=name,
        parameters=tuple(each for each in parameters if each.name not in left_out),
        outputs=row["gives"],
        fps=row.get("fps", 0.0),
        parts=tuple(row.get("parts", ())),
        lacks=(*row.get("lacks", ()), *(each.name for each in required if each.name in left_out)),
        left_out=left_out,
        guard=tuple(row.get("guard", ())),
        transformers=tuple(row["of"]),
        takes_loras=row.get("loras", False),
    )


MAIN = ("takes", "advanced")


def _why_not_given(name: str, parameter: Parameter) -> str:
    """Why a class is never given a text that it takes; "" where somebody has found that it may be."""
    if parameter.kind not in TEXTS:
        return ""
    verdict = reviewed()["classes"].get(name, {}).get(parameter.name)
    if verdict is None:
        return "nobody has looked at what the class does with it"
    found = reviewed()["verdicts"][verdict]
    return "" if found["is_taken"] else found["reason"]


@functools.cache
def reviewed() -> dict[str, Any]:
    """{"verdicts": {name: {"is_taken", "reason"}}, "classes": {class: {parameter: verdict}}}"""
    return json.loads(REVIEWED.read_text())


def _parameter(name: str, row: list[Any], *, is_advanced: bool) -> Parameter:
    """[kind], which must be given, or [kind, default], or ["choice", default, choices]."""
    return Parameter(
        name=name,
        kind=row[0],
        is_required=len(row) == 1,
        default=row[1] if len(row) > 1 else None,
        choices=tuple(row[2]) if len(row) > 2 else (),
        is_advanced=is_advanced,
    )


@functools.cache
def _table() -> dict[str, Any]:
    return json.loads(TABLE.read_text())
