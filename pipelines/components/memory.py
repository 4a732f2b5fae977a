"""What a component takes of a memory, before it is loaded and afterwards, and what all may take of it together.

Each memory (the host's, each accelerator's) has a budget for components, and the rest of it is for what is computed.
"""

import functools
import os
import re
from dataclasses import dataclass
from typing import Any

from ...parallel.machine.now import host_bytes
from ...parallel.pool.spare import LARGE_BYTES
from ..models.component_files import ComponentFiles
from ..models.tensor_file import TensorEntry
from ..values import Model

# Which part of the machine's or container's memory components on the CPU may take, of all ranks there together.
HOST_SHARE = 0.6
DEVICE_SHARE = 0.85  # which part of an accelerator's memory components may take; the rest is for activations
USABLE_SHARE = 0.94  # which part of a device's memory can be used; free memory lies in pieces, and drivers keep some
CONTEXT_BYTES = 1_200_000_000  # what an accelerator's context and libraries take
# What a spare rank takes of an accelerator: a context and the libraries that it has loaded. An estimate, not yet
# measured on a GPU.
SPARE_BYTES = 600_000_000
DTYPE_BITS = {"fp32": 32, "bf16": 16, "fp16": 16}
# Bits of one quantized weight; scales, and a transformer's layers that are left alone, add a little.
QUANTIZED_BITS = {"int8": 8, "fp8": 8, "fp8_dynamic": 8, "int4": 4}
QUANTIZED = ("transformer", "text_encoder")
# Parts of the names of a text encoder's weights that transformers does not quantize.
LEFT_WHOLE = ("embed", "shared", "lm_head", ".wo.")
# Numbers of a weight that torchao is given at a time. Of fewer, fp32 copies would leave holes in a CPU's heap, which
# keeps what is below 2 MiB, and a GPU would wait for the host.
PACKED_AT_A_TIME, PACKED_ON_GPU = 3 * 2**18, 2**22
PACKING_BYTES = 20  # what torchao takes beside each of them: fp32 copies, and whole numbers
SPARES = {"": None, "0": False, "1": True}
BYTES = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(kB|MB|MiB|GB|GiB)", re.IGNORECASE)
UNITS = {"kb": 1000, "mb": 10**6, "mib": 1 << 20, "gb": 10**9, "gib": 1 << 30}
MEMORY = "LATENTLOOM_MEMORY"  # the environment variable that ranks inherit
SMALL_BYTES = 1 << 20  # what a tokenizer or a scheduler is counted as


@dataclass(frozen=True, kw_only=True)
class Held:
    """One component that a process has loaded; `folder` is the model's."""

    folder: str
    component: str
    device: str
    num_bytes: int


def read_bytes(text: str, *, what: str = "--memory") -> int:
    """An amount of memory as people write it, `10GB` or `700 MiB`, in bytes. Raises `ValueError`."""
    found = BYTES.fullmatch(text.strip())
    num_bytes = int(float(found[1]) * UNITS[found[2].lower()]) if found else 0
    if not num_bytes:
        raise ValueError(f"{what} is {text[:50]!r}; write an amount of memory above 0, like 10GB or 700MB")
    return num_bytes


def memory_limit() -> int:
    """What this process may take of each device, in bytes, by LATENTLOOM_MEMORY, which `--memory` sets; 0 where nobody
    has said so. On a CPU it bounds what a rank holds beside what all processes share. Raises `ValueError`."""
    told = os.environ.get(MEMORY, "")
    return read_bytes(told, what=MEMORY) if told else 0


def limit_memory(told: str) -> None:
    """What `--memory` says holds for this process and for all that it starts; "" leaves what was said before. Raises
    `ValueError`.
    """
    if told:
        read_bytes(told)
        os.environ[MEMORY] = told
    memory_limit()


def wanted_spares() -> bool | None:
    """Whether each device keeps a spare rank, by LATENTLOOM_SPARE_RANKS; None, unset: each large GPU does."""
    told = os.environ.get("LATENTLOOM_SPARE_RANKS", "")
    if told not in SPARES:
        raise ValueError(
            f"LATENTLOOM_SPARE_RANKS is {told!r}; set it to 1 or 0, or unset it: large GPUs have some then"
        )
    return SPARES[told]


def spare_rank_bytes(device: str, total_bytes: int) -> int:
    """What a spare rank takes of an accelerator with so much memory; 0 where none is kept, and on a CPU, where it
    shares what it has loaded.
    """
    wanted = wanted_spares()
    has_one = device.startswith("cuda") and (total_bytes >= LARGE_BYTES if wanted is None else wanted)
    return SPARE_BYTES if has_one else 0


def expected_bytes(files: ComponentFiles, model: Model, *, weights: int = 1) -> int:
    """Bytes that a component will take once it is loaded; of a transformer whose weights so many ranks share, a
    share.
    """
    whole_bits = DTYPE_BITS[model.dtype]
    if model.quantization == "none" or not is_quantized(files.name):
        return files.num_parameters * whole_bits // 8 // (weights if files.name.startswith("transformer") else 1)
    num_bits = QUANTIZED_BITS[model.quantization]
    if files.name.startswith("transformer"):
        return files.num_parameters * num_bits // 8 // weights
    num_bytes = 0
    for name, entry in (item for file in files.weights for item in file.tensors.items()):
        num_bytes += entry.numel * (whole_bits if is_left_whole(files.name, name, entry) else num_bits) // 8
    return num_bytes


def is_left_whole(component: str, name: str, entry: TensorEntry) -> bool:
    """Whether this tensor of a component that is quantized stays as it is; of transformers all count as quantized."""
    if component.startswith("transformer"):
        return False
    return len(entry.shape) != 2 or any(part in name for part in LEFT_WHOLE)


def loading_bytes(files: ComponentFiles, model: Model) -> int:
    """Bytes that loading a component takes beside what is kept: its largest weight as it was read, and what quantizes
    it.
    """
    if model.quantization == "none" or not is_quantized(files.name):
        return 0
    largest = max((entry.numel for file in files.weights for entry in file.tensors.values()), default=0)
    at_a_time = min(largest, packed_at_a_time(model.device))
    return largest * DTYPE_BITS[model.dtype] // 8 + at_a_time * PACKING_BYTES


def packed_at_a_time(device: str) -> int:
    """How many numbers of a weight are quantized at a time."""
    return PACKED_AT_A_TIME if device.startswith("cpu") else PACKED_ON_GPU


def is_quantized(name: str) -> bool:
    """Whether a component of this name is, where the model says how."""
    return name.startswith(QUANTIZED)


def bytes_of(component: Any, *, is_share: bool = False) -> int:
    """Of a share, what this rank has of it: the meta device stands for the others."""
    tensors = (*component.parameters(), *component.buffers())
    return sum(tensor_bytes(each) for each in tensors if not (is_share and each.is_meta))


def tensor_bytes(tensor: Any) -> int:
    """Bytes of a tensor; of a quantized weight, or one that ranks share, of what it is made of here, not of what it
    stands for."""
    if hasattr(tensor, "__tensor_flatten__"):
        parts = (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
        return sum(tensor_bytes(each) for each in parts if hasattr(each, "numel"))
    return tensor.numel() * tensor.element_size()


def default_budget(place: str) -> float:
    """Bytes of an accelerator, or of the host, that components may take."""
    is_gpu = place.startswith("cuda")
    budget = (DEVICE_SHARE if is_gpu else HOST_SHARE) * _total_bytes(place)
    if not (limit := memory_limit()):
        return budget
    return min(budget, USABLE_SHARE * limit - (CONTEXT_BYTES if is_gpu else 0))


def spare_bytes(place: str) -> float:
    """Bytes of an accelerator that its budget leaves for what is computed; of others, and under a limit that somebody
    has set, none are reckoned."""
    if memory_limit() or not place.startswith("cuda"):
        return 0
    return (USABLE_SHARE - DEVICE_SHARE) * _total_bytes(place) - CONTEXT_BYTES


@functools.cache
def _total_bytes(place: str) -> int:
    if not place.startswith("cuda"):
        return host_bytes()
    import torch

    return torch.cuda.get_device_properties(place).total_memory
