"""Which file gives which transformer: of two experts (Wan 2.2) one is named, and the other lies beside it.

They are published in pairs whose names differ in one word: `high_noise` and `low_noise`, however it is written, in the
file's name and, where each has a folder of its own, in that as well.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from ...values import Model
from ..source import is_allowed, split_source
from .packing import read_checkpoint, read_packing

NOISE = re.compile(r"(high|low)(?=[_\- ]?noise)", re.IGNORECASE)
OPPOSITES = {"high": "low", "low": "high"}
EXPERTS = {"high": "transformer", "low": "transformer_2"}


def checkpoints_of(file: Path, components: Collection[str]) -> dict[str, Path]:
    """The file of each transformer that is read from one, in a model of these components.

    Raises `ValueError` for one of two experts whose name does not say which it is, or without the other.
    """
    if "transformer_2" not in components:
        if "transformer" not in components:
            raise ValueError(f"{file} is a transformer, and its base has none; use another base")
        return {"transformer": file}
    said = NOISE.search(file.name)
    if said is None:
        raise ValueError(
            f"{file} is one transformer, but its base has 2, and its name does not say which (high_noise or "
            "low_noise); name both so, or use a model folder"
        )
    folders = (file.parent, file.parent.parent / _opposite(file.parent.name))
    places = [folder / _opposite(file.name) for folder in folders]
    other = next((place for place in places if place.is_file()), None)
    if other is None:
        raise ValueError(f"{file} is one of two experts; put the other, {places[0].name}, beside it")
    which = said[1].lower()
    return {EXPERTS[which]: file, EXPERTS[OPPOSITES[which]]: other}


def single_files(model: Model, components: Collection[str]) -> dict[str, Path]:
    """The same for a model that was described; empty where all comes from its folder."""
    file, _ = split_source(model.source)
    return checkpoints_of(Path(file), components) if file else {}


def check_checkpoints(file: Path, components: Collection[str], *, roots: Sequence[Path] | None) -> dict[str, Path]:
    """The same, after a look at their headers. Raises `ValueError` for what is not allowed, not whole, or not known."""
    found = checkpoints_of(file, components)
    for path in found.values():
        if not is_allowed(path, roots):
            raise ValueError(f"{path} links to a place outside the allowed folders; copy it")
        header = read_checkpoint(path)
        if not header.tensors:
            raise ValueError(f"{path} holds no tensors; copy it again")
        read_packing(header)
    return found


def _opposite(name: str) -> str:
    def swapped(found: re.Match[str]) -> str:
        word = OPPOSITES[found[1].lower()]
        return word.upper() if found[1].isupper() else word.title() if found[1][0].isupper() else word

    return NOISE.sub(swapped, name)
