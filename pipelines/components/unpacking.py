"""From packed weights to those that they stand for, by their publishers' own formulas, one tensor at a time.

ComfyUI's are those of its package https://github.com/Comfy-Org/comfy-kitchen (`dequantize_per_tensor_fp8`,
`dequantize_int8_simple`, `dequantize_int8_convrot_weight`), and fp8 with a scale for each row is read as diffusers
reads Black Forest Labs' files (`quantizers/bfl`); torchao's are its `dequantize`. The blocks of GGUF files are read by
ggml's formulas in fp32 (`ggml-quants.c`; the `gguf` package has them in numpy). The order of roundings is part of each
formula.
"""

# N rows, K columns, G numbers that are rotated together; B blocks

import functools
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ..models.packing import Packing
from ..models.tensor_file import TensorEntry

# What is made between blocks and weights then takes some 16 MiB each, whatever the size of the tensor.
WEIGHTS_AT_A_TIME = 1 << 22
# What the sixteen numbers of IQ4 stand for.
STEPS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


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
    rows = [[1.0, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]
    found = four = torch.tensor(rows, dtype=torch.float32, device=device)
    while found.shape[0] < size:
        found = torch.kron(found, four)
    return found / size**0.5


# ggml: a block is a few bytes for 32 or 256 weights: scales in fp16, themselves packed in the K types, and small whole
# numbers whose bits lie in bytes, low bits first.


def from_blocks(packed: Tensor, kind: str, *, dtype: torch.dtype) -> Tensor:
    """All weights of `packed`, bytes in blocks of `kind` one after the other, flat."""
    block_bytes, per_block, formula = FORMULAS[kind]
    blocks = packed.reshape(-1, block_bytes)
    found = torch.empty(len(blocks), per_block, dtype=dtype, device=packed.device)
    num_blocks = WEIGHTS_AT_A_TIME // per_block
    for start in range(0, len(blocks), num_blocks):
        part = blocks[start : start + num_blocks]
        found[start : start + len(part)] = formula(part).reshape(len(part), per_block)
    return found.reshape(-1)


def _half(pair: Tensor) -> Tensor:
    """B 2 bytes -> B 1 in fp32."""
    return pair.contiguous().view(torch.float16).float()


def _fields(packed: Tensor, num_bits: int) -> Tensor:
    """... n bytes -> ... 8/bits n: their lowest fields first, then the next, and so on."""
    shifts = torch.arange(0, 8, num_bits, dtype=torch.uint8, device=packed.device)
    return (packed.unsqueeze(-2) >> shifts.unsqueeze(-1)) & ((1 << num_bits) - 1)


def _in_order(packed: Tensor, num_bits: int) -> Tensor:
    """B n bytes -> B 8n/bits: all fields of a byte before those of the next."""
    return _fields(packed, num_bits).transpose(-1, -2).flatten(-2)


def _signed(numbers: Tensor, offset: int) -> Tensor:
    return numbers.to(torch.int16).sub(offset).float()


def _simple(block: Tensor, *, high_bytes: int = 0, offset: int = 0) -> Tensor:
    """Q4 and Q5: numbers around zero with an `offset`, or from a least value on; the fifth bits lie by themselves."""
    scale, least, high, low = block.split((2, 0 if offset else 2, high_bytes, 16), 1)
    numbers = _fields(low, 4).flatten(1)
    if high_bytes:
        numbers = numbers | _in_order(high, 1) << 4
    found = _half(scale) * _signed(numbers, offset)
    return found if offset else found + _half(least)  # nothing is added to others: -0.0 stays what it is


def _q8_0(block: Tensor) -> Tensor:
    scale, numbers = block.split((2, 32), 1)
    return _half(scale) * numbers.view(torch.int8).float()


def _q2_k(block: Tensor) -> Tensor:
    scales, low, scale, least = block.split((16, 64, 2, 2), 1)
    steps, bottoms = _half(scale) * (scales & 15).float(), _half(least) * (scales >> 4).float()
    numbers = _fields(low.unflatten(1, (2, 32)), 2).reshape(-1, 16, 16).float()
    return steps.unsqueeze(2) * numbers - bottoms.unsqueeze(2)


def _q3_k(block: Tensor) -> Tensor:
    mask, low, scales, scale = block.split((32, 64, 12, 2), 1)
    six = _fields(scales[:, :8], 4).flatten(1) | _fields(scales[:, 8:], 2).flatten(1) << 4
    high = _fields(mask, 1).reshape(-1, 16, 16)
    numbers = _fields(low.unflatten(1, (2, 32)), 2).reshape(-1, 16, 16) | high << 2
    return (_half(scale) * _signed(six, 32)).unsqueeze(2) * _signed(numbers, 4)


def _six_bit_scales(packed: Tensor) -> tuple[Tensor, Tensor]:
    """B 12 bytes -> the scales and the least values, B 8 each: four whole in a byte, four with two bits elsewhere."""
    first, second, both = packed.split((4, 4, 4), 1)
    scales = torch.cat([first & 63, (both & 15) | first >> 6 << 4], 1)
    return scales.float(), torch.cat([second & 63, both >> 4 | second >> 6 << 4], 1).float()


def _stepped(block: Tensor, *, high_bytes: int = 0) -> Tensor:
    """Q4_K and Q5_K."""
    scale, least, scales, high, low = block.split((2, 2, 12, high_bytes, 128), 1)
    numbers = _fields(low.unflatten(1, (4, 32)), 4).reshape(-1, 8, 32)
    if high_bytes:
        numbers = numbers | _fields(high, 1) << 4
    steps, bottoms = _six_bit_scales(scales)
    steps, bottoms = (_half(scale) * steps).unsqueeze(2), (_half(least) * bottoms).unsqueeze(2)
    return steps * numbers.float() - bottoms


def _q6_k(block: Tensor) -> Tensor:
    low, high, scales, scale = block.split((128, 64, 16, 2), 1)
    numbers = _fields(low.unflatten(1, (2, 64)), 4).reshape(-1, 8, 32)
    numbers = numbers | _fields(high.unflatten(1, (2, 32)), 2).reshape(-1, 8, 32) << 4
    steps = _half(scale) * scales.view(torch.int8).float()
    return steps.unsqueeze(2) * _signed(numbers, 32).reshape(-1, 16, 16)


def _iq4(numbers: Tensor) -> Tensor:
    return torch.tensor(STEPS, dtype=torch.float32, device=numbers.device)[numbers.int()]


def _iq4_nl(block: Tensor) -> Tensor:
    scale, low = block.split((2, 16), 1)
    return _half(scale) * _iq4(_fields(low, 4).flatten(1))


def _iq4_xs(block: Tensor) -> Tensor:
    scale, high, low_scales, low = block.split((2, 2, 4, 128), 1)
    six = _in_order(low_scales, 4) | _in_order(high, 2) << 4
    numbers = _fields(low.unflatten(1, (8, 16)), 4).reshape(-1, 8, 32)
    return (_half(scale) * _signed(six, 32)).unsqueeze(2) * _iq4(numbers)


# By ggml's name: bytes of a block, weights of a block, and what makes the ones of the other.
FORMULAS: dict[str, tuple[int, int, Callable[[Tensor], Tensor]]] = {
    "Q4_0": (18, 32, partial(_simple, offset=8)),
    "Q4_1": (20, 32, _simple),
    "Q5_0": (22, 32, partial(_simple, high_bytes=4, offset=16)),
    "Q5_1": (24, 32, partial(_simple, high_bytes=4)),
    "Q8_0": (34, 32, _q8_0),
    "Q2_K": (84, 256, _q2_k),
    "Q3_K": (110, 256, _q3_k),
    "Q4_K": (144, 256, _stepped),
    "Q5_K": (176, 256, partial(_stepped, high_bytes=32)),
    "Q6_K": (210, 256, _q6_k),
    "IQ4_NL": (18, 32, _iq4_nl),
    "IQ4_XS": (136, 256, _iq4_xs),
}
