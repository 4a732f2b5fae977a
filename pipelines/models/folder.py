"""What a model folder says of itself, read without torch: its pipeline and family, its components and their configs.

It has an index, `model_index.json`, and one folder for each component that the index names.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ...parallel.errors import BadInput
from ..families import FAMILIES
from ..families.family import Family
from .config import foreign_entry
from .regular_file import FromFile, read_object
from .source import is_allowed

Kind = Literal["model", "scheduler", "tokenizer", "processor", "guider"]

LIBRARIES = ("diffusers", "transformers")
INDEX, MODULAR_INDEX = "model_index.json", "modular_model_index.json"
TOP_FILES = (INDEX, MODULAR_INDEX, "latentloom.json")
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
CLASS = re.compile(r"[A-Z][A-Za-z0-9_]{0,99}")
CONFIGS: Mapping[Kind, tuple[str, ...]] = {
    "model": ("config.json",),
    "scheduler": ("scheduler_config.json",),
    "tokenizer": ("tokenizer_config.json",),
    "processor": ("preprocessor_config.json", "processor_config.json"),
    "guider": ("guider_config.json",),
}


def read_allowed_index(folder: Path, *, roots: Sequence[Path] | None = None) -> dict[str, Any]:
    """What `read_index` gives, of a file that does not lie outside the folder and the roots by a link."""
    allowed = None if roots is None else (*roots, repository_of(folder))
    for file in TOP_FILES:
        if not is_allowed(folder / file, allowed):
            raise ValueError(f"{folder / file} links to a place outside the allowed folders; copy the file there")
    return read_index(folder)


def find_family(pipeline: str) -> Family:
    """The family that reads pipelines of this class. Raises `ValueError` with the list for an unknown one."""
    known = {name: family for family in FAMILIES.values() for name in family.pipelines}
    if pipeline not in known:
        near = difflib.get_close_matches(pipeline, known, n=1)
        hint = f"; the nearest is {near[0]}" if near else ""
        from ..signatures.table import class_names

        offer = ". The node Run Pipeline runs it as it is" if pipeline in class_names() else ""
        named = ", ".join(sorted(known))
        raise BadInput("pipeline {!r} is not supported{}. Supported: {}{}", pipeline[:100], hint, named, offer)
    return known[pipeline]


def read_index(folder: Path, *, home: str = "") -> dict[str, Any]:
    """`model_index.json`: the pipeline's own values, and components as [library, class] of diffusers or transformers.

    A list of anything else is a value of the pipeline, as diffusers takes it (Krea 2: `text_encoder_select_layers`).
    `home` is the hub id of a folder that is not yet pulled whole.
    """
    path = index_path(folder)
    if path is None:
        raise BadInput("{} is no model: it has no {}; give a folder in diffusers format", folder, INDEX)
    # whether a modular index is right depends on the folder as well, so that only what its file says is kept
    named = _read_named(path)
    if path.name != INDEX:
        return _checked(path, _of_modular(path, named, home))
    # What the makers of its family publish beside the parts that an index names.
    beside = next((family.beside for family in FAMILIES.values() if named["_class_name"] in family.pipelines), {})
    return {**{name: [*part] for name, part in beside.items() if home or (folder / name).is_dir()}, **named}


@FromFile
def _read_named(path: Path) -> dict[str, Any]:
    """An index that names its pipeline."""
    index = read_object(path, what="model index")
    pipeline = index.get("_class_name")
    if isinstance(pipeline, list):
        raise BadInput("{}: pipeline {} is code of the model's own, which is refused", path, str(pipeline)[:100])
    if not isinstance(pipeline, str):
        raise ValueError(f"{path} does not name its pipeline (_class_name); copy the model again")
    return _checked(path, index) if path.name == INDEX else index


def _checked(path: Path, index: dict[str, Any]) -> dict[str, Any]:
    for name, entry in index.items():
        if _is_component(entry):
            _check_entry(path, name, entry)
    return index


def index_path(folder: Path) -> Path | None:
    """The model's index: that of a classic pipeline, else that of a modular one."""
    return next((folder / name for name in (INDEX, MODULAR_INDEX) if os.path.lexists(folder / name)), None)


def _of_modular(path: Path, index: Mapping[str, Any], home: str) -> dict[str, Any]:
    """The index of a modular pipeline as that of a classic one: [library, class] of components beside it.

    It says of each where it is loaded from, which may be another repository: only what lies here is read, or is yet to
    be pulled from the repository that this one is. What no stage of the family loads, or what not every call of the
    pipeline needs, such as a language model that rewrites prompts, may lie anywhere and is left out.
    """
    if reason := foreign_entry(dict(index)):
        raise ValueError(f"{path} {reason}, which is refused")
    found, loaded = dict(index), _loaded(str(index["_class_name"]))
    for name, entry in index.items():
        match entry:
            case [library, class_name, {**place}]:
                hint = place.get("type_hint")
                if None in (library, class_name) and isinstance(hint, list) and len(hint) == 2:
                    library, class_name = hint
                found[name] = [library, class_name]
                lies_at = (place.get("pretrained_model_name_or_path"), place.get("subfolder"))
                is_own = bool(home) and lies_at == (home, name) and (not loaded or {name, f"{name}?"} & loaded)
                if not NAME.fullmatch(name) or not (is_own or (path.parent / name).is_dir()):
                    if loaded and name not in loaded:
                        found[name] = [None, None]
                        continue
                    elsewhere = str(place.get("pretrained_model_name_or_path") or "no place that it names")[:100]
                    raise ValueError(
                        f"{path}: component {name[:64]!r} comes from {elsewhere}, and a modular model is read from one "
                        f"folder only; copy it to {name[:64]} beside the index"
                    )
    return found


def _loaded(pipeline: str) -> set[str]:
    """The components that the stages of this pipeline's family load, those with `?` that may be absent, or else that
    every call of the pipeline needs; none where neither is known."""
    from ..signatures.table import class_names, signature_of

    known = [family for family in FAMILIES.values() if pipeline in family.pipelines]
    if not known and pipeline in class_names():
        return {*signature_of(pipeline).parts}
    return {name for family in known for names in family.components.values() for name in names}


def components_of(index: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """(library, class) of the components that the model has, by name, from what `read_index` gave."""
    return {name: found for name in index if (found := component_in(index, name)) is not None}


def component_in(index: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """(library, class) of one component; None where the model has none of that name."""
    entry: Any = index.get(name)
    return (entry[0], entry[1]) if _is_component(entry) and None not in entry else None


def _is_component(entry: Any) -> bool:
    """Whether it is meant as [library, class]: it names one of the libraries, or a pair that ends like a class."""
    match entry:
        case [str(library), *_] if library in LIBRARIES:
            return True
        case [str() | None, None] | [None, str()]:
            return True
        case [str(), str(class_name)]:
            return CLASS.fullmatch(class_name) is not None
        case _:
            return False


def _check_entry(path: Path, name: str, entry: list[Any]) -> None:
    if not NAME.fullmatch(name) or len(entry) != 2:
        raise ValueError(no_component(path, name, entry))
    library, class_name = entry
    if library is None or class_name is None:
        return
    if library not in LIBRARIES and not is_part_of_diffusers(library):
        raise ValueError(
            f"{path}: component {name} comes from {library[:64]!r}, which would run code of the model's own; "
            f"only {' and '.join(LIBRARIES)} are accepted"
        )
    if not isinstance(class_name, str) or not CLASS.fullmatch(class_name):
        raise ValueError(f"{path}: component {name} names no class ({str(class_name)[:64]!r}); copy the model again")


@functools.lru_cache(maxsize=64)
def is_part_of_diffusers(library: str) -> bool:
    """Whether a component comes with one of diffusers' own pipelines, as LTX-2's connectors do. Imports nothing."""
    if not NAME.fullmatch(library) or (found := importlib.util.find_spec("diffusers")) is None:
        return False
    return any((Path(root) / "pipelines" / library).is_dir() for root in found.submodule_search_locations or ())


def no_component(path: Path, name: str, entry: Any) -> str:
    return f"{path}: component {name[:64]!r} is {str(entry)[:100]}, not [library, class]; copy it again"


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """The config of one component, by its name; {} when the model has no such component."""
    found = component_in(read_index(folder), name)
    if found is None:
        return {}
    return dict(_CONFIG(config_path(folder / name, kind_of(found[1]), name)))


_CONFIG = FromFile(lambda path: read_object(path, what=f"config of {path.parent.name}"))


def kind_of(class_name: str) -> Kind:
    """What a component of this class is."""
    if class_name.endswith("Scheduler"):
        return "scheduler"
    if "Tokenizer" in class_name and not class_name.endswith("AudioTokenizer"):  # that is Cosmos 3's VAE of sounds
        return "tokenizer"
    if "Processor" in class_name or class_name.endswith("FeatureExtractor"):
        return "processor"
    if class_name.endswith("Guidance"):
        return "guider"
    return "model"


def config_path(folder: Path, kind: Kind, name: str) -> Path:
    found = next((folder / config for config in CONFIGS[kind] if os.path.lexists(folder / config)), None)
    if found is None:
        raise BadInput("component {}: {} has no {}; copy or pull the model again", name, folder, CONFIGS[kind][0])
    return found


def repository_of(folder: Path) -> Path:
    """The folder that may hold what a model's links point at: a hub snapshot's repository, else the model itself."""
    real = Path(os.path.realpath(folder))
    return real.parent.parent if real.parent.name == "snapshots" else real
