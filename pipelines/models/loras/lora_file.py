"""What a LoRA file may say, checked from its header, before a library builds from it what no tensor of it bears out."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....parallel.errors import BadInput
from ....parallel.wording import worded
from ...values import Model
from ..component_files import inspect_components
from ..config import foreign_entry
from ..folder import read_index
from ..regular_file import parse_object
from ..source import single_files
from ..tensor_file import TensorEntry, TensorFile

# The key under which diffusers keeps a LoRA's settings, which go to peft as they are, such as `transformer.r`.
METADATA = "lora_adapter_metadata"
# Parts of the names of a layer's two tensors: (rank, in) and (out, rank).
PAIRS = (
    ("lora_A", "lora_B"),
    ("lora_down", "lora_up"),
    (".down.weight", ".up.weight"),
    ("lokr_w1_b", "lokr_w1_a"),
    ("lokr_w2_b", "lokr_w2_a"),
)
FOREIGN_SETTINGS = {
    "auto_mapping": "names code of its own",
    "megatron_config": "names a package to import",
    "corda_config": "names files of its own",
    "lora_ga_config": "names files of its own",
    "eva_config": "asks for weights made from data",
    "loftq_config": "asks for quantized weights",
    "layer_replication": "changes the model's layers",
}
INITIAL = ("gaussian",)  # `init_lora_weights` by name: its weights are then overwritten. Others change the model's own.
# Settings whose texts peft runs as regular expressions, which can take for ever; `rank_pattern` is also made of the
# names of tensors.
PATTERNS = (
    *("target_modules", "target_parameters", "exclude_modules", "modules_to_save"),
    *("layers_pattern", "rank_pattern", "alpha_pattern"),
)
LAYER = re.compile(r"\^?[\w.-]+\$?")  # a name as a pattern: nothing in it repeats


# How diffusers names what changes a transformer; the names of other projects are converted when it is loaded.
PREFIX, DOWN, UP = "transformer.", ".lora_A.weight", ".lora_B.weight"
# Families of which diffusers fills a LoRA that takes fewer numbers with zeros, as for those that see a drawing too.
PADDED = ("flux",)


def is_lora(file: TensorFile) -> bool:
    """Whether its tensors are called as those of a LoRA; `check_lora` says whether it is a sound one."""
    return any("lora" in name or "lokr" in name for name in file.tensors)


def check_lora(file: TensorFile) -> None:
    """Refuse a file whose tensor names are not those of a LoRA (diffusers, PEFT or kohya names), or that asks for other
    ranks than its tensors have, for code, or for other files.
    """
    if not is_lora(file):
        some = ", ".join(sorted(file.tensors)[:2]) or "nothing"
        raise BadInput(
            "{} is no LoRA: it holds {}; use it as a model source, or give a LoRA file", file.path, some[:200]
        )
    if bad := next((name for name in file.tensors if not LAYER.fullmatch(name)), ""):
        raise BadInput("LoRA {}: {!r} is no name of a layer; get the file again", file.path, bad[:100])
    ranks = ranks_in(file)
    whole = [max(entry.shape, default=0) for name, entry in file.tensors.items() if name.endswith(".lokr_w2")]
    _check_settings(file, max_rank=max(ranks + whole) if ranks else 0)


def why_of_another(file: TensorFile, model: Model) -> str:
    """Why a LoRA in diffusers' names cannot be the model's, as a sentence; empty where it can, or nobody knows."""
    if not (why := what_differs(file, model, layers_of(model))):
        return ""
    return worded("LoRA {} is not for this model: {}; choose a LoRA made for {}", file.path, why, model.source)


def layers_of(model: Model) -> Mapping[str, tuple[int, ...]]:
    """The shapes of the transformer's tensors by their names in its files; nothing where these are packed, or none."""
    folder = Path(model.folder)
    components = inspect_components(folder, read_index(folder))
    transformer = components.get("transformer")
    if transformer is None or single_files(model, components):
        return {}
    return {name: entry.shape for weights in transformer.weights for name, entry in weights.tensors.items()}


def what_differs(file: TensorFile, model: Model, held: Mapping[str, tuple[int, ...]]) -> str | None:
    """What of a LoRA the model has not, which has the layers `held`; "" where all is there, None where nobody knows."""
    layers = [
        name[len(PREFIX) : -len(DOWN)] for name in file.tensors if name.startswith(PREFIX) and name.endswith(DOWN)
    ]
    if not layers or not held:
        return None
    known = [layer for layer in layers if f"{layer}.weight" in held]
    if not known:
        return worded("it changes {!r} and the like, which the model has not", layers[0][:200])
    for layer in known:
        down, up = file.tensors[f"{PREFIX}{layer}{DOWN}"], file.tensors.get(f"{PREFIX}{layer}{UP}")
        shape = held[f"{layer}.weight"]
        if up is None or not len(down.shape) == len(shape) == 2:
            continue
        is_padded = model.family in PADDED and down.shape[1] < shape[1]
        if (up.shape[0], shape[1] if is_padded else down.shape[1]) != shape:
            got, right = (" x ".join(map(str, each)) for each in ((up.shape[0], down.shape[1]), shape))
            return worded("it changes {!r} as one of {}, and the model's is {}", layer[:200], got, right)
    return ""


def ranks_in(file: TensorFile) -> list[int]:
    """The rank of each of its layers' tensors. Raises `ValueError` where two of a layer do not fit together."""
    return [rank for name, entry in file.tensors.items() if (rank := _rank(file, name, entry))]


def _rank(file: TensorFile, name: str, entry: TensorEntry) -> int:
    """The rank of the layer whose tensor this is, which its other tensor must have, too; 0 of any other tensor."""
    if entry.numel == 0:
        raise ValueError(f"LoRA {file.path}: tensor {name[:200]!r} is empty; get the file again")
    if len(entry.shape) < 2 or f"{name.partition('.lokr_w2')[0]}.lokr_t2" in file.tensors:  # of a convolution
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
    settings = parse_object(text, what=f"LoRA {file.path}: its {METADATA}", remedy="get the file again")
    is_whole = not max_rank and any("lokr" in name for name in file.tensors)  # as large as its layers, of any rank
    for key, value in settings.items():
        name = key.rpartition(".")[2]
        reason = f"{FOREIGN_SETTINGS[name]} ({name})" if name in FOREIGN_SETTINGS and value else ""
        if name == "init_lora_weights" and isinstance(value, str) and value not in INITIAL:
            reason = f"changes the model's own weights ({name})"
        if reason := reason or foreign_entry({name: value}):
            raise ValueError(f"LoRA {file.path} {reason}, which is refused")
        if name in PATTERNS and (bad := next((text for text in _texts(value) if not LAYER.fullmatch(text)), None)):
            raise ValueError(
                f"LoRA {file.path} gives {name} a pattern, {bad[:100]!r}, which could take for ever and is refused; "
                f"list the names of its layers, or remove {METADATA} from the file"
            )
        if not is_whole and any(not 1 <= rank <= max_rank for rank in _asked_ranks(name, value)):
            raise ValueError(
                f"LoRA {file.path} asks for {key[:200]} = {str(value)[:100]}, but its tensors have ranks "
                f"up to {max_rank}; get the file again"
            )


def _texts(value: Any) -> Iterator[str]:
    """All texts in it, the keys of objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value:
            yield from _texts(item)
        if isinstance(value, Mapping):
            yield from _texts(list(value.values()))


def _asked_ranks(name: str, value: Any) -> Iterator[int]:
    """The ranks that a setting asks for; 0 stands for what is no number."""
    if name == "r":
        yield value if type(value) is int else 0
    elif name == "rank_pattern" and isinstance(value, Mapping):
        yield from (rank if type(rank) is int else 0 for rank in value.values())
