"""How large a model's weights are, from the headers of its files: what a device will hold, and what it may share."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..components.memory import DTYPE_BITS, expected_bytes, is_quantized, loading_bytes
from ..models.component_files import ComponentFiles, inspect_components, inspect_model
from ..models.folder import read_index
from ..models.packing import FLOATS, read_checkpoint, transformer_tensors
from ..models.source import single_files
from ..models.tensor_file import read_tensor_file
from ..split_plans import SPLIT_PLANS
from ..values import Model, Place

UNPACKED_COPIES = 2  # in fp32: a weight times its scale, and what is rotated back
FILE_DTYPES = {"fp32": "F32", "bf16": "BF16", "fp16": "F16"}


@dataclass(frozen=True, kw_only=True)
class Weights:
    """How large one component's weights are, in the model's number format."""

    num_bytes: int
    mapped_bytes: int = 0  # the part that a CPU reads as it lies in the files: ranks hold it between them, once
    loading_bytes: int = 0  # what is there beside them while they are unpacked or quantized, one after the other
    largest_block_bytes: int = 0  # the largest block of a transformer: what ranks that share weights gather at a time
    # What of a transformer is in no block: ranks that share weights gather it for all of a forward.
    outside_bytes: int = 0


def weights_of(model: Model) -> Mapping[str, Weights]:
    """The weights of every component that has some, by its name. Reads headers; raises `ValueError` for a damaged
    model.
    """
    return _weights(dataclasses.replace(model, place=Place()))


def components_of(model: Model) -> Mapping[str, ComponentFiles]:
    """All of a model's components, from the headers of its files; read once while they stay as they are."""
    return _components(model.folder, model.fingerprint, bool(model.family))


@lru_cache(maxsize=8)
def _components(folder: str, fingerprint: str, has_family: bool) -> Mapping[str, ComponentFiles]:
    where = Path(folder)
    return inspect_model(where).components if has_family else inspect_components(where, read_index(where))


@lru_cache(maxsize=32)
def _weights(model: Model) -> Mapping[str, Weights]:
    components = components_of(model)
    single = single_files(model, components)
    return {name: _component(each, model, single.get(name)) for name, each in components.items() if each.weights}


def _component(component: ComponentFiles, model: Model, checkpoint: Path | None) -> Weights:
    num_bytes, loading = expected_bytes(component, model), loading_bytes(component, model)
    loading += _unpacking_bytes(checkpoint) if checkpoint else 0
    mapped = min(num_bytes, _mapped(component, model, checkpoint))
    if not component.name.startswith("transformer"):
        return Weights(num_bytes=num_bytes, mapped_bytes=mapped, loading_bytes=loading)
    blocks, outside = _blocks(component, model)
    added = sum(_lora_bytes(lora.path, model) for lora in model.loras)
    return Weights(
        num_bytes=num_bytes + added,
        mapped_bytes=0 if model.loras else mapped,
        loading_bytes=loading,
        largest_block_bytes=blocks,
        outside_bytes=outside,
    )


def _mapped(component: ComponentFiles, model: Model, checkpoint: Path | None) -> int:
    """On a CPU, tensors that lie in the files as they are used."""
    if not model.device.startswith("cpu") or (model.quantization != "none" and is_quantized(component.name)):
        return 0
    held = [transformer_tensors(read_checkpoint(checkpoint))] if checkpoint else [f.tensors for f in component.weights]
    kept = (entry for tensors in held for entry in tensors.values())
    wanted = FILE_DTYPES[model.dtype]
    return sum(entry.numel for entry in kept if entry.dtype == wanted) * DTYPE_BITS[model.dtype] // 8


def _unpacking_bytes(checkpoint: Path) -> int:
    """What is there beside a single file's largest packed weight, maybe several of ours, while it is unpacked."""
    entries = transformer_tensors(read_checkpoint(checkpoint)).values()
    largest = max((entry.numel for entry in entries if entry.dtype not in FLOATS), default=0)
    return largest * UNPACKED_COPIES * 32 // 8


def _blocks(component: ComponentFiles, model: Model) -> tuple[int, int]:
    """(the largest block's bytes, the bytes outside of blocks) of a transformer whose class has a split plan."""
    split = SPLIT_PLANS.get(component.class_name)
    sizes: dict[str, int] = defaultdict(int)
    for file in component.weights:
        for name, entry in file.tensors.items():
            sizes[_block_of(name, split.blocks if split else ())] += entry.numel * DTYPE_BITS[model.dtype] // 8
    outside = sizes.pop("", 0)
    return max(sizes.values(), default=0), outside


def _block_of(tensor: str, lists: tuple[str, ...]) -> str:
    """`transformer_blocks.3` of a tensor in it, the list's name where its members have names; "" outside."""
    for path in lists:
        if tensor.startswith(f"{path}."):
            member = tensor[len(path) + 1 :].partition(".")[0]
            return f"{path}.{member}" if member.isdecimal() else path
    return ""


def _lora_bytes(path: str, model: Model) -> int:
    entries = read_tensor_file(Path(path)).tensors.values()
    return sum(entry.numel for entry in entries) * DTYPE_BITS[model.dtype] // 8
