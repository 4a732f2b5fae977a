"""What a class of transformers is built from: the config's or settings' keys that it knows, and no others.

diffusers drops the others itself. transformers hangs each on the config, where code that no check of ours knows of may
look for it: repositories of kernels, other weights, other code.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import IMPLEMENTATIONS
from .json_file import read_object

if TYPE_CHECKING:
    from types import CodeType

    from transformers import PreTrainedConfig

ROOM, SPARE = 2, 1 << 20
"""Weights that a class ties or leaves out of its files may make it larger than they are, by this factor and number."""
CONSTRUCTORS = ("__init__", "__post_init__", "convert_rope_params_to_dict")


def model_config(kind: Any, folder: Path, *, name: str) -> PreTrainedConfig:
    """The config of a transformers model of class `kind`, from config.json in its folder.

    Attention is SDPA where the class has it, else eager, in every part of it: what a config says of it is not heard.
    """
    wanted = kind.config_class
    plain = _own_part(wanted, read_object(folder / "config.json", what=f"config of {name}"))
    kinds = set(_kinds(wanted, plain))
    config = wanted.from_dict(_kept(plain, set().union(*map(_names, kinds)), _part_names(kinds)))
    config._attn_implementation = None  # the class's choice; set for its parts as well
    config._experts_implementation = None
    return config


def check_size(kind: Any, config: PreTrainedConfig, *, num_held: int) -> None:
    """Raise `ValueError` for a config of a far larger model than the files hold.

    transformers would fill what is missing with random numbers before it says that it is missing.
    """
    import torch

    with torch.device("meta"):
        num_asked = sum(weight.numel() for weight in kind(config).parameters())
    if num_asked > ROOM * num_held + SPARE:
        raise ValueError(
            f"its config.json asks for {num_asked:,} numbers, and its files hold {num_held:,}; copy the model again"
        )


def processor_settings(kind: Any, plain: Mapping[str, Any]) -> dict[str, Any]:
    """An image processor's settings without those that its class does not take."""
    known = {*kind.valid_kwargs.__annotations__, *_constructor_names(kind)}
    return {key: value for key, value in plain.items() if key in known}


def _own_part(kind: Any, plain: dict[str, Any]) -> dict[str, Any]:
    """The part of a whole model's config that is for this class, as transformers finds it."""
    if kind.base_config_key and isinstance(plain.get(kind.base_config_key), dict):
        plain = plain[kind.base_config_key]
    if plain.get("model_type", kind.model_type) == kind.model_type:
        return plain
    parts = [part for part in plain.values() if isinstance(part, dict) and part.get("model_type") == kind.model_type]
    return parts[-1] if parts else plain


def _kinds(kind: Any, plain: Any) -> Iterator[Any]:
    """The classes of a config and of all its parts; a part that may be of several says by its `model_type` of which."""
    from transformers import CONFIG_MAPPING, PreTrainedConfig

    plain = plain if isinstance(plain, dict) else {}
    named = plain.get("model_type")
    if not issubclass(kind, PreTrainedConfig):
        if not isinstance(named, str) or named not in CONFIG_MAPPING:
            return
        kind = CONFIG_MAPPING[named]
    yield kind
    for key, part in kind.sub_configs.items():
        yield from _kinds(part, plain.get(key))


def _names(kind: Any) -> set[str]:
    """The keys that a config class knows: its fields, their other names, and what its constructors read by name."""
    fields = {field.name for field in dataclasses.fields(kind)}
    return {"model_type", *fields, *kind.attribute_map, *_constructor_names(kind)} - IMPLEMENTATIONS.keys()


def _part_names(kinds: set[Any]) -> set[str]:
    return {key for kind in kinds for key in kind.sub_configs}


def _kept(plain: Mapping[str, Any], names: set[str], parts: set[str]) -> dict[str, Any]:
    """One set of names for all parts: files keep a part's keys beside it, and the whole's keys in a part."""
    return {
        key: _kept(value, names, parts) if key in parts and isinstance(value, dict) else value
        for key, value in plain.items()
        if key in names
    }


def _constructor_names(kind: Any) -> set[str]:
    """Keys of older files have no field: constructors take them out of their keyword arguments, or set them."""
    made = (vars(base).get(name) for base in kind.__mro__ for name in CONSTRUCTORS)
    codes = (getattr(inspect.unwrap(each), "__code__", None) for each in made if callable(each))
    return {name for code in codes if code is not None for name in _mentioned(code)}


def _mentioned(code: CodeType) -> Iterator[str]:
    yield from code.co_varnames
    yield from code.co_names
    for constant in code.co_consts:
        members = constant if isinstance(constant, tuple | frozenset) else (constant,)
        yield from (member for member in members if isinstance(member, str))
