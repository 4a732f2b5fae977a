"""The model card file, `latentloom.json` beside model_index.json: what a model's maker says its defaults are."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..families.card import Card
from ..families.family import Family
from .facts import family_card
from .json_file import read_object
from .regular_file import FromFile

FILE_NAME = "latentloom.json"
MAX_BYTES = 1 << 20
TEXTS = {"name": 200, "about": 2000, "licence": 200, "negative_prompt": 5000}
"""Longest text of each field."""
INTEGERS = {
    "width": (8, 16384),
    "height": (8, 16384),
    "most_side": (0, 16384),
    "frames": (1, 10_000),
    "steps": (1, 1000),
    "text_length": (1, 8192),
}
NUMBERS = {"fps": (0.0, 240.0), "guidance": (0.0, 100.0), "distilled_guidance": (0.0, 100.0)}
TOP_LEVEL = ("name", "about", "licence")


def read_card(folder: Path, family: Family) -> Card:
    """The family's defaults for this model, overridden by its card file. Raises `ValueError` for a bad card."""
    card = family_card(folder, family)
    if not os.path.lexists(f"{folder}{os.sep}{FILE_NAME}"):
        return card
    path = folder / FILE_NAME
    plain = _PLAIN(path)
    if plain.get("format", 1) != 1:
        raise ValueError(
            f"{path} has format {str(plain['format'])[:20]}; this version reads format 1: update latentloom"
        )
    if plain.get("family", family.name) != family.name:
        raise ValueError(
            f"{path} says family {str(plain['family'])[:50]!r}, but the model is {family.name!r}; fix the card"
        )
    defaults = plain.get("defaults", {})
    if not isinstance(defaults, dict):
        raise ValueError(f"{path}: defaults is {str(defaults)[:50]}, not an object; fix the card")
    overrides = {name: plain[name] for name in TOP_LEVEL if name in plain} | defaults
    return dataclasses.replace(card, **{name: _check(path, name, value) for name, value in overrides.items()})


def vocabulary_of(folder: Path) -> Mapping[str, Sequence[str]]:
    """What a toy model's card says that it can draw, by kind; nothing of any other model."""
    path = folder / FILE_NAME
    found = _PLAIN(path).get("vocabulary") if path.is_file() else None
    kinds = found if isinstance(found, dict) else {}
    return {kind: [str(name) for name in names] for kind, names in kinds.items() if isinstance(names, list)}


_PLAIN = FromFile(lambda path: read_object(path, what="model card", max_bytes=MAX_BYTES))


def _check(path: Path, name: str, value: Any) -> Any:
    if name in TEXTS:
        is_right = isinstance(value, str) and len(value) <= TEXTS[name]
        return value if is_right else _refuse(path, name, value, f"a text of at most {TEXTS[name]} characters")
    if name in INTEGERS:
        low, high = INTEGERS[name]
        is_right = type(value) is int and low <= value <= high
        return value if is_right else _refuse(path, name, value, f"a whole number from {low} to {high}")
    if name in NUMBERS:
        low, high = NUMBERS[name]
        is_right = type(value) in (int, float) and math.isfinite(value) and low <= value <= high
        return float(value) if is_right else _refuse(path, name, value, f"a number from {low:g} to {high:g}")
    known = _known()
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; it may hold {', '.join(known)}"
    raise ValueError(f"{path} sets {name[:64]!r}, which is no default of a model{hint}")


def _refuse(path: Path, name: str, value: Any, right: str) -> Any:
    raise ValueError(f"{path} sets {name} to {str(value)[:50]!r}; it must be {right}")


def _known() -> Mapping[str, Any]:
    return {**TEXTS, **INTEGERS, **NUMBERS}
