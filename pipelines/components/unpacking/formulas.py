"""fp8 and int8 with their scales and rotations, by the formulas of those who publish them.

ComfyUI's are those of its package https://github.com/Comfy-Org/comfy-kitchen (`dequantize_per_tensor_fp8`,
`dequantize_int8_simple`, `dequantize_int8_convrot_weight`), and fp8 with a scale for each row is read as diffusers
reads Black Forest Labs' files (`quantizers/bfl`); torchao's are its `dequantize`. The order of roundings is part of
each formula.
"""

# N rows, K columns, G numbers that are rotated together

from __future__ import annotations

import functools

import torch
from torch import Tensor

from ...models.packed.packing import Packing
from ...models.tensor_file import TensorEntry
from .ggml import from_blocks


def unpack(part: Tensor, scale: Tensor | None, *, packing: Packing, entry: TensorEntry, dtype: torch.dtype) -> Tensor:
    """What a tensor of a file stands for, in `dtype`; `part` is what lies there, blocks as their bytes."""
    if packing.kind == "ggml":
        return from_blocks(part, entry.dtype, dtype=dtype).reshape(entry.shape)
    if packing.kind == "fp8":
        return from_fp8(part, scale, dtype=dtype)
    if packing.kind == "int8":
        assert scale is not None, "int8 has one, as read_packing has seen to"
        return from_scaled(part, scale, rotation=packing.rotation, dtype=dtype)
    return part.to(dtype) if part.is_floating_point() else part


def from_fp8(numbers: Tensor, scale: Tensor | None, *, dtype: torch.dtype) -> Tensor:
    """A cast; times one scale, which is rounded to `dtype` before; or times one for each row, in fp32."""
    if scale is None:
        return numbers.to(dtype)
    if scale.numel() == 1:
        return numbers.to(dtype) * scale.reshape(()).to(dtype)
    return (numbers.float() * _for_rows(scale, numbers)).to(dtype)


def from_scaled(
    numbers: Tensor, scale: Tensor, *, zero_point: Tensor | None = None, rotation: int = 0, dtype: torch.dtype
) -> Tensor:
    """int8, and torchao's fp8: times the scale in fp32, one or one for each row, and rotated back if it was rotated."""
    found = numbers.float()
    if zero_point is not None:
        found = found - _for_rows(zero_point, numbers)
    found = found * _for_rows(scale, numbers)
    if rotation:
        groups = found.reshape(found.shape[0], -1, rotation)  # N K/G G
        found = torch.matmul(groups, _hadamard(rotation, numbers.device).T).reshape(found.shape)
    return found.to(dtype)


def _for_rows(scale: Tensor, numbers: Tensor) -> Tensor:
    return scale.float().reshape(-1, *(1,) * (numbers.ndim - 1))


@functools.lru_cache(maxsize=8)
def _hadamard(size: int, device: torch.device) -> Tensor:
    """The regular Hadamard matrix of a power of 4, G G, normalized: its own inverse, for it is symmetric."""
    four = torch.tensor(
        [[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]], dtype=torch.float32, device=device
    )
    found = four
    while found.shape[0] < size:
        found = torch.kron(found, four)
    return found / size**0.5
