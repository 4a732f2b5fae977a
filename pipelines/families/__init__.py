"""The families of models: literal data, one module each. Importing this imports neither torch nor diffusers."""

from __future__ import annotations

import difflib
import importlib
from typing import cast

from . import flux, qwen_image, sd3, wan
from .family import Family, FamilyModule

FAMILIES: dict[str, Family] = {
    "flux": flux.FAMILY,
    "qwen_image": qwen_image.FAMILY,
    "sd3": sd3.FAMILY,
    "wan": wan.FAMILY,
}


def family_module(name: str) -> FamilyModule:
    """The module with a family's stage functions."""
    if name not in FAMILIES:
        near = difflib.get_close_matches(name, FAMILIES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"there is no family {name!r}; {hint}Families: {', '.join(FAMILIES)}")
    return cast(FamilyModule, importlib.import_module(f".{name}", __package__))
