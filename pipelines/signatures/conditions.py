"""Conditions: frames that a video is to show or to follow, which a pipeline takes as objects of a class of its own."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Any

PLACES = ("index", "frame_index")
"""What such classes call the frame at which the condition holds; one without holds for the whole video."""


def condition_class(annotation: Any) -> type | None:
    """The class of conditions that a parameter takes, or a list of; None where it takes none."""
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return annotation if "strength" in names_of(annotation) else None
    return next((found for each in typing.get_args(annotation) if (found := condition_class(each))), None)


def names_of(kind: Any) -> set[str]:
    """The fields of a class of conditions."""
    return {field.name for field in dataclasses.fields(kind)}


def conditioned(pipe: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call with the conditions among them, `frames` with a `strength` and an `index`, as objects.

    `frames` is a picture, or a list of them for a clip.
    """
    wanted = inspect.signature(type(pipe).__call__).parameters
    found = dict(arguments)
    for name in arguments.keys() & wanted.keys():
        kind = condition_class(wanted[name].annotation)
        if kind is not None and isinstance(arguments[name], list):
            found[name] = [_made(kind, each) if isinstance(each, dict) else each for each in arguments[name]]
    return found


def _made(kind: Any, told: Mapping[str, Any]) -> Any:
    names = names_of(kind)
    field = "frames" if "frames" in names else "video" if isinstance(told["frames"], list) else "image"
    place = next((name for name in PLACES if name in names), "")
    return kind(**{field: told["frames"]}, strength=told["strength"], **({place: told["index"]} if place else {}))
