"""What a LoRA file may say, checked from its header, before a library builds from it what no tensor of it bears out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .component_config import foreign_entry
from .json_file import JsonFault, parse_strict
from .tensor_file import TensorEntry, TensorFile

METADATA = "lora_adapter_metadata"
"""Where diffusers keeps a LoRA's settings, which go to peft as they are, such as `transformer.r`."""
PAIRS = (("lora_A", "lora_B"), ("lora_down", "lora_up"), (".down.weight", ".up.weight"))
"""Parts of the names of a layer's two tensors: (rank, in) and (out, rank)."""
FOREIGN_SETTINGS = {
    "auto_mapping": "names code of its own",
    "megatron_config": "names a package to import",
    "corda_config": "names files of its own",
    "lora_ga_config": "names files of its own",
    "eva_config": "asks for weights made from data",
    "loftq_config": "asks for quantized weights",
    "layer_replication": "changes the model's layers",
}
INITIAL = ("gaussian",)
"""`init_lora_weights` by name: its weights are then overwritten. Others change the model's own."""


def check_lora(file: TensorFile) -> None:
    """Refuse a file whose tensor names are not those of a LoRA (diffusers, PEFT or kohya names), or that asks for other
    ranks than its tensors have, for code, or for other files."""
    if not any("lora" in name or "lokr" in name for name in file.tensors):
        some = ", ".join(sorted(file.tensors)[:2]) or "nothing"
        raise ValueError(
            f"{file.path} is no LoRA: it holds {some[:200]}; use it as a model source, or give a LoRA file"
        )
    ranks = [rank for name, entry in file.tensors.items() if (rank := _rank(file, name, entry))]
    _check_settings(file, max_rank=max(ranks, default=0))


def _rank(file: TensorFile, name: str, entry: TensorEntry) -> int:
    """The rank of the layer whose tensor this is, which its other tensor must have, too; 0 of any other tensor."""
    if entry.numel == 0:
        raise ValueError(f"LoRA {file.path}: tensor {name[:200]!r} is empty; get the file again")
    if len(entry.shape) < 2:
        return 0
    for down, up in PAIRS:
        if down in name:
            other = file.tensors.get(name.replace(down, up))
            ranks = entry.shape[0], other and other.shape[1:2]
        elif up in name:
            other = file.tensors.get(name.replace(up, down))
            ranks = entry.shape[1], other and other.shape[:1]
        else:
            continue
        if ranks[1] != (ranks[0],):
            raise ValueError(
                f"LoRA {file.path}: {name[:200]!r} has shape {entry.shape} and its other half "
                f"{'is missing' if other is None else f'has {other.shape}'}; get the file again"
            )
        return ranks[0]
    return 0


def _check_settings(file: TensorFile, *, max_rank: int) -> None:
    text = file.metadata.get(METADATA)
    if not text:
        return
    try:
        settings = parse_strict(text)
    except JsonFault as fault:
        raise ValueError(f"LoRA {file.path}: its {METADATA} is not valid JSON ({fault.reason}); get it again") from None
    if not isinstance(settings, dict):
        raise ValueError(f"LoRA {file.path}: its {METADATA} is no object; get the file again")
    is_lokr = not max_rank and any("lokr" in name for name in file.tensors)  # beyond a layer's size it has no rank
    for key, value in settings.items():
        name = key.rpartition(".")[2]
        if reason := _foreign(name, value) or foreign_entry({name: value}):
            raise ValueError(f"LoRA {file.path} {reason}, which is refused")
        if not is_lokr and any(not 1 <= rank <= max_rank for rank in _asked_ranks(name, value)):
            raise ValueError(
                f"LoRA {file.path} asks for {key[:200]} = {str(value)[:100]}, but its tensors have ranks "
                f"up to {max_rank}; get the file again"
            )


def _foreign(name: str, value: Any) -> str:
    if name == "init_lora_weights" and isinstance(value, str) and value not in INITIAL:
        return f"changes the model's own weights ({name})"
    return f"{FOREIGN_SETTINGS[name]} ({name})" if name in FOREIGN_SETTINGS and value else ""


def _asked_ranks(name: str, value: Any) -> Iterator[int]:
    """The ranks that a setting asks for; 0 stands for what is no number."""
    if name == "r":
        yield value if type(value) is int else 0
    elif name == "rank_pattern" and isinstance(value, Mapping):
        yield from (rank if type(rank) is int else 0 for rank in value.values())
