"""What the config of somebody else's component may not say.

A component's config is data of a stranger that libraries act upon: they would load code, kernels or other models that
it names. Whatever could is refused or dropped here, before a library sees it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .json_file import read_object

FOREIGN_KEYS = {
    "auto_map": "names code of its own",
    "custom_pipelines": "names code of its own",
    "trust_remote_code": "asks that code of its own be run",
    # transformers fetches kernels by repository and runs them
    "use_kernels": "asks for kernels, which are code from elsewhere",
    "kernel_config": "names kernels, which are code from elsewhere",
    "allow_all_kernels": "asks for kernels, which are code from elsewhere",
    "quantization_config": "is already quantized; use the plain weights and choose quantization when loading",
    # other files than those that were checked
    "configuration_files": "names another config",
    "fast_tokenizer_files": "names another vocabulary",
    "transformers_weights": "names weights elsewhere",
    "gguf_file": "names weights elsewhere",
    "model_file": "names a vocabulary elsewhere",
    "model_proto": "brings a vocabulary of its own",
    "init_inputs": "gives arguments without their names, such as paths",
    # other models, which their classes fetch for themselves
    "backbone": "names a model elsewhere",
    "audio_tokenizer": "names a model elsewhere",
}
"""Key -> what a config says with it, at any depth, unless its value is empty. None of a supported model has one."""
FILE_KEYS = ("vocab_file", "merges_file", "tokenizer_file", "spm_file")
DATA_KEYS = ("vocab", "merges")
"""A tokenizer opens these where they are text."""
ATTENTION = ("eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3", "flash_attention_4")
EXPERTS = ("eager", "batched_mm", "grouped_mm")
IMPLEMENTATIONS = {
    "attn_implementation": ATTENTION,
    "_attn_implementation": ATTENTION,
    "_attn_implementation_internal": ATTENTION,
    "experts_implementation": EXPERTS,
    "_experts_implementation": EXPERTS,
    "_experts_implementation_internal": EXPERTS,
}
"""Key -> transformers' own names; any other is a repository of kernels. Whatever a config says, `model_config` has the
last word."""


FEW = 16
"""Layers that any config may speak of: MiniMax Music 3's condition encoder, of four tensors, names the eight of another
model that it reads."""


@dataclass(frozen=True, kw_only=True)
class ConfigLimits:
    """Bounds that no real model meets; they keep a damaged number from filling the memory before weights are read."""

    max_layers: int = 1000
    """How many layers a model may have: as many as it has tensors, since each layer has at least one."""
    max_items: int = 4096
    """The longest list."""


def check_config(path: Path, name: str, *, limits: ConfigLimits | None, allowed: Collection[str] = ()) -> None:
    """Refuse what would run code, read elsewhere, or build something absurdly large.

    `limits` is for the configs that say how many layers of which size there are. Keys that are `allowed` at the top
    were looked at by the caller.
    """
    plain = read_object(path, what=f"config of {name}")
    plain = {key: value for key, value in plain.items() if key not in allowed}
    if reason := foreign_entry(plain):
        raise ValueError(f"component {name}: {path} {reason}, which is refused")
    for key, value in _entries(plain):
        if limits is not None and not _is_sane(key, value, limits):
            raise ValueError(
                f"component {name}: {path} has {key[:64]} = {str(value)[:40]}, which is out of range; "
                "copy the model again"
            )


def foreign_entry(plain: dict[str, Any]) -> str:
    """What settings say that is refused, as a verb, its object and the key; "" where they say nothing of the kind."""
    found = (f"{reason} ({key})" for key, value in _entries(plain) if (reason := _foreign(key, value)))
    return next(found, "")


def _entries(plain: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """All keys with their values, at any depth; the members of a list stand under its key."""
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


def _is_sane(key: str, value: Any, limits: ConfigLimits) -> bool:
    if isinstance(value, list):
        return len(value) <= limits.max_items
    if key.startswith("num_") and isinstance(value, str):
        return False
    if not isinstance(value, int | float) or isinstance(value, bool):
        return True
    if _counts_layers(key):
        return -1 <= value <= max(limits.max_layers, FEW)
    if "num_" in key:
        return -1 <= value <= (1_000_000 if "timesteps" in key or "embeddings" in key else 100_000)
    return isinstance(value, float) or abs(value) < 1 << 31


def _counts_layers(key: str) -> bool:
    return ("layers" in key or "depth" in key) and not key.startswith("max_")  # max_window_layers builds none
