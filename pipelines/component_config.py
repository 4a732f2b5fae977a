"""What the config of somebody else's component may not say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .json_file import read_object

FILE_KEYS = ("vocab_file", "merges_file", "tokenizer_file", "spm_file")
FOREIGN_KEYS = {
    "auto_map": "names code of its own",
    "quantization_config": "is already quantized; use the plain weights and choose quantization when loading",
    "transformers_weights": "names weights elsewhere",
    "custom_pipelines": "names code of its own",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds that no real model meets; they keep a damaged number from filling the memory before weights are read."""

    max_layers: int = 1000
    """Of a model: the number of its tensors, since every layer has at least one."""
    max_items: int = 4096
    """The longest list."""


def check_config(path: Path, name: str, *, limits: Limits | None) -> None:
    """Refuse what would run code, read elsewhere, or build something absurdly large.

    `limits` is for the configs that say how many layers of which size there are.
    """
    pending: list[tuple[str, Any]] = list(read_object(path, what=f"config of {name}").items())
    while pending:
        key, value = pending.pop()
        if key in FOREIGN_KEYS and value:
            raise ValueError(f"component {name}: {path} {FOREIGN_KEYS[key]} ({key}), which is refused")
        if key in FILE_KEYS and isinstance(value, str) and Path(value).name != value:
            raise ValueError(f"component {name}: {path} points at a file elsewhere ({key}), which is refused")
        if limits is not None and not _is_sane(key, value, limits):
            raise ValueError(
                f"component {name}: {path} has {key[:64]} = {str(value)[:40]}, which is out of range; "
                "copy the model again"
            )
        if isinstance(value, dict):
            pending.extend(value.items())
        elif isinstance(value, list):
            pending.extend((key, item) for item in value)


def _is_sane(key: str, value: Any, limits: Limits) -> bool:
    if isinstance(value, list):
        return len(value) <= limits.max_items
    if key.startswith("num_") and isinstance(value, str):
        return False
    if not isinstance(value, int | float) or isinstance(value, bool):
        return True
    if _counts_layers(key):
        return -1 <= value <= limits.max_layers
    if "num_" in key:
        return -1 <= value <= (1_000_000 if "timesteps" in key or "embeddings" in key else 100_000)
    return isinstance(value, float) or abs(value) < 1 << 31


def _counts_layers(key: str) -> bool:
    return ("layers" in key or "depth" in key) and not key.startswith("max_")  # max_window_layers builds none
