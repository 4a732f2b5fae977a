"""What the config of somebody else's component may say, and what of it a library is given.

A component's config is data of a stranger that libraries act upon: they would load code, kernels or other models that
it names. Whatever could is refused or dropped here, before a library sees it. Of the rest a class of transformers is
given the keys that it knows and no others: diffusers drops the others itself, transformers hangs each on the config,
where code that no check of ours knows of may look for it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from .regular_file import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

# Key -> what a config says with it, at any depth, unless its value is empty. None of a supported model has one.
FOREIGN_KEYS = {
    **dict.fromkeys(("auto_map", "custom_pipelines"), "names code of its own"),
    "trust_remote_code": "asks that code of its own be run",
    # transformers fetches kernels by repository and runs them
    **dict.fromkeys(("use_kernels", "allow_all_kernels"), "asks for kernels, which are code from elsewhere"),
    "kernel_config": "names kernels, which are code from elsewhere",
    "quantization_config": "is already quantized; use the plain weights and choose quantization when loading",
    # other files than those that were checked
    "configuration_files": "names another config",
    "fast_tokenizer_files": "names another vocabulary",
    **dict.fromkeys(("transformers_weights", "gguf_file"), "names weights elsewhere"),
    "model_file": "names a vocabulary elsewhere",
    "model_proto": "brings a vocabulary of its own",
    "init_inputs": "gives arguments without their names, such as paths",
    # other models, which their classes fetch for themselves
    **dict.fromkeys(("backbone", "audio_tokenizer"), "names a model elsewhere"),
}
FILE_KEYS = ("vocab_file", "merges_file", "tokenizer_file", "spm_file")
DATA_KEYS = ("vocab", "merges")  # a tokenizer opens these where they are text
ATTENTION = ("eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3", "flash_attention_4")
EXPERTS = ("eager", "batched_mm", "grouped_mm")
# Key -> transformers' own names; any other is a repository of kernels. Whatever a config says, `model_config` has the
# last word.
IMPLEMENTATIONS = {
    **dict.fromkeys(("attn_implementation", "_attn_implementation", "_attn_implementation_internal"), ATTENTION),
    **dict.fromkeys(("experts_implementation", "_experts_implementation", "_experts_implementation_internal"), EXPERTS),
}
MAX_ITEMS = 4096  # the longest list
# Layers that any config may speak of: MiniMax Music 3's condition encoder, of four tensors, names the eight of another
# model that it reads.
FEW = 16
# Weights that a class ties or leaves out of its files may make it larger than they are, by this factor and number.
ROOM, SPARE = 2, 1 << 20
CONSTRUCTORS = ("__init__", "__post_init__", "convert_rope_params_to_dict")


def check_config(path: Path, name: str, *, max_layers: int | None, allowed: Collection[str] = ()) -> None:
    """Refuse what would run code, read elsewhere, or build something absurdly large.

    `max_layers` is for the configs that say how many layers of which size there are; None asks for no bounds. Keys that
    are `allowed` at the top were looked at by the caller.
    """
    plain = read_object(path, what=f"config of {name}")
    plain = {key: value for key, value in plain.items() if key not in allowed}
    if reason := foreign_entry(plain):
        raise ValueError(f"component {name}: {path} {reason}, which is refused")
    for key, value in _entries(plain):
        if max_layers is not None and not _is_sane(key, value, max_layers):
            found = f"{key[:64]} = {str(value)[:40]}"
            raise ValueError(f"component {name}: {path} has {found}, which is out of range; copy the model again")


def foreign_entry(plain: dict[str, Any]) -> str:
    """What settings say that is refused, as a verb, its object and the key; "" where they say nothing of the kind."""
    found = (f"{reason} ({key})" for key, value in _entries(plain) if (reason := _foreign(key, value)))
    return next(found, "")


def _entries(plain: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """All keys with their values, at any depth; the members of a list stand under its key."""
    # not by recursion: how deep it goes is a stranger's to say
    pending: list[tuple[str, Any]] = list(plain.items())
    while pending:
        key, value = pending.pop()
        yield key, value
        if isinstance(value, dict):
            inside = value.items()  # of implementations the keys are parts of the model
            pending.extend((key, item) for _, item in inside) if key in IMPLEMENTATIONS else pending.extend(inside)
        elif isinstance(value, list):
            pending.extend((key, item) for item in value)


def _foreign(key: str, value: Any) -> str:
    """What is wrong with an entry, as a verb and its object; "" where nothing is."""
    if key in FOREIGN_KEYS and value:
        return FOREIGN_KEYS[key]
    if not isinstance(value, str):
        return ""
    if key in DATA_KEYS or (key in FILE_KEYS and Path(value).name != value):
        return "points at a file elsewhere"
    if value not in IMPLEMENTATIONS.get(key, (value,)):
        return f"names kernels, {value[:100]!r}, which are code from elsewhere"
    return ""


def _is_sane(key: str, value: Any, max_layers: int) -> bool:
    """Bounds that no real model meets; they keep a damaged number from filling the memory before weights are read."""
    if isinstance(value, list):
        return len(value) <= MAX_ITEMS
    if key.startswith("num_") and isinstance(value, str):
        return False
    if not isinstance(value, int | float) or isinstance(value, bool):
        return True
    if ("layers" in key or "depth" in key) and not key.startswith("max_"):  # max_window_layers builds none
        return -1 <= value <= max(max_layers, FEW)
    if "num_" in key:
        return -1 <= value <= (1_000_000 if "timesteps" in key or "embeddings" in key else 100_000)
    return isinstance(value, float) or abs(value) < 1 << 31


def model_config(kind: Any, folder: Path, *, name: str) -> PreTrainedConfig:
    """The config of a transformers model of class `kind`, from config.json in its folder.

    Attention is SDPA where the class has it, else eager, in every part of it: what a config says of it is not heard.
    """
    wanted = kind.config_class
    plain = _own_part(wanted, read_object(folder / "config.json", what=f"config of {name}"))
    kinds = set(_kinds(wanted, plain))
    # One set of names for all parts: files keep a part's keys beside it, and the whole's keys in a part.
    parts = {key for each in kinds for key in each.sub_configs}
    config = wanted.from_dict(_kept(plain, set().union(*map(_names, kinds)), parts))
    config._attn_implementation = None  # the class's choice; set for its parts as well
    config._experts_implementation = None
    return config


def check_size(kind: Any, config: PreTrainedConfig, *, num_held: int) -> None:
    """Raise `ValueError` for a config of a far larger model than the files hold.

    transformers would fill what is missing with random numbers before it says that it is missing.
    """
    import torch

    with torch.device("meta"):  # where a number of any size takes no memory
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


def _kept(plain: Mapping[str, Any], names: set[str], parts: set[str]) -> dict[str, Any]:
    return {
        key: _kept(value, names, parts) if key in parts and isinstance(value, dict) else value
        for key, value in plain.items()
        if key in names
    }


def _constructor_names(kind: Any) -> set[str]:
    """Keys of older files have no field: constructors take them out of their keyword arguments, or set them."""
    made = (vars(base).get(name) for base in kind.__mro__ for name in CONSTRUCTORS)
    codes = (getattr(inspect.unwrap(each), "__code__", None) for each in made if callable(each))
    found: set[str] = set()
    for code in codes:
        if isinstance(code, CodeType):
            members = [each if isinstance(each, tuple | frozenset) else (each,) for each in code.co_consts]
            texts = (text for each in members for text in each if isinstance(text, str))
            found.update(code.co_varnames, code.co_names, texts)
    return found
