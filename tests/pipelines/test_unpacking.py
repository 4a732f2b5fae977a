"""Packed weights against their publishers' formulas, written out number by number."""

import math
import struct

import pytest
import torch
from torch import Tensor

from latentloom.pipelines.components.single_file import Deferred, DeferredMaker
from latentloom.pipelines.components.unpacking import FORMULAS, STEPS, from_blocks, from_fp8, from_scaled

E4M3 = torch.float8_e4m3fn


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_fp8_is_cast_and_multiplied_in_the_publishers_order(dtype: torch.dtype) -> None:
    numbers = torch.randn(6, 8, generator=dice()).to(E4M3)
    one, rows = torch.tensor(0.0371), torch.rand(6, generator=dice(1))
    assert torch.equal(from_fp8(numbers, None, dtype=dtype), numbers.to(dtype))
    comfy = numbers.to(dtype) * one.to(dtype)
    assert torch.equal(from_fp8(numbers, one, dtype=dtype), comfy)
    assert torch.equal(from_fp8(numbers, one.reshape(1), dtype=dtype), comfy)
    black_forest = (numbers.float() * rows[:, None]).to(dtype)
    assert torch.equal(from_fp8(numbers, rows, dtype=dtype), black_forest)
    assert torch.equal(from_fp8(numbers, rows[:, None], dtype=dtype), black_forest)


def test_fp8_of_e5m2_is_read_too() -> None:
    numbers = torch.randn(4, 4, generator=dice()).to(torch.float8_e5m2)
    assert torch.equal(from_fp8(numbers, torch.tensor([2.0]), dtype=torch.float32), 2 * numbers.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (1,), (6, 1), (6,)])
def test_int8_is_multiplied_in_fp32(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    numbers = torch.randint(-127, 128, (6, 8), generator=dice(), dtype=torch.int8)
    scale = torch.rand(shape, generator=dice(1))
    wanted = numbers.float() * (scale if scale.numel() == 1 else scale.reshape(6, 1))
    assert torch.equal(from_scaled(numbers, scale, rotation=0, dtype=dtype), wanted.to(dtype))


def test_a_zero_point_is_taken_away_before_the_scale_is_put_on() -> None:
    """As torchao does, in the model's number format, where small whole numbers are exact."""
    numbers, zero = torch.tensor([[1, -100], [127, 3]], dtype=torch.int8), torch.tensor([[0], [-28]], dtype=torch.int8)
    scale = torch.tensor([[0.013], [0.4]])
    wanted = ((numbers.to(torch.bfloat16) - zero.to(torch.bfloat16)) * scale).to(torch.bfloat16)
    assert torch.equal(from_scaled(numbers, scale, zero_point=zero, dtype=torch.bfloat16), wanted)


def hadamard(row: int, column: int, size: int) -> int:
    """An entry of the regular Hadamard matrix, by the digits of its place in base 4: -1 where they add up to 3."""
    sign = 1
    while size > 1:
        sign *= -1 if row % 4 + column % 4 == 3 else 1
        row, column, size = row // 4, column // 4, size // 4
    return sign


@pytest.mark.parametrize("size", [4, 16, 64])
def test_a_rotated_weight_is_rotated_back(size: int) -> None:
    """By a matrix of +-1 over a power of two: with whole numbers and such scales no order of sums changes a bit."""
    numbers = torch.randint(-127, 128, (3, 128), generator=dice(), dtype=torch.int8)
    scale = torch.tensor([[0.5], [0.25], [2.0]])
    rotated = numbers.double() * scale
    wanted = torch.zeros(3, 128, dtype=torch.float64)
    for column in range(128):
        first = column // size * size
        for other in range(size):
            sign = hadamard(column - first, other, size)
            wanted[:, column] += sign * rotated[:, first + other] / math.sqrt(size)
    assert torch.equal(from_scaled(numbers, scale, rotation=size, dtype=torch.float32), wanted.float())


def test_what_a_rotation_stands_for_is_what_was_rotated() -> None:
    """As ComfyUI writes such files: rotated, then rounded with a scale for each row."""
    weight = torch.randn(5, 512, generator=dice())
    matrix = torch.tensor([[hadamard(r, c, 256) for c in range(256)] for r in range(256)]) / 16
    rotated = (weight.reshape(5, 2, 256) @ matrix.T).reshape(5, 512)
    scale = rotated.abs().amax(1, keepdim=True) / 127
    numbers = (rotated / scale).round().clamp(-128, 127).to(torch.int8)
    found = from_scaled(numbers, scale, rotation=256, dtype=torch.float32)
    assert (found - weight).abs().max() < 0.05 and (numbers.float() * scale - weight).abs().max() > 1


def nibble(data: bytes, place: int, count: int) -> int:
    """Number `place` of 4 bits, of which a byte has the one `count` places later in its high half."""
    return data[place % count] >> (4 if place >= count else 0) & 15


def six_bits(scales: bytes, place: int) -> tuple[int, int]:
    """ggml's `get_scale_min_k4`."""
    if place < 4:
        return scales[place] & 63, scales[place + 4] & 63
    low = scales[place + 4]
    return (low & 15) | (scales[place - 4] >> 6) << 4, (low >> 4) | (scales[place] >> 6) << 4


def half(data: bytes) -> float:
    return struct.unpack("<e", data)[0]


def q4_0(block: bytes) -> list[float]:
    return [half(block[:2]) * (nibble(block[2:], i, 16) - 8) for i in range(32)]


def q4_1(block: bytes) -> list[float]:
    return [half(block[:2]) * nibble(block[4:], i, 16) + half(block[2:4]) for i in range(32)]


def q5_0(block: bytes) -> list[float]:
    high = int.from_bytes(block[2:6], "little")
    return [half(block[:2]) * ((nibble(block[6:], i, 16) | (high >> i & 1) << 4) - 16) for i in range(32)]


def q5_1(block: bytes) -> list[float]:
    high = int.from_bytes(block[4:8], "little")
    return [half(block[:2]) * (nibble(block[8:], i, 16) | (high >> i & 1) << 4) + half(block[2:4]) for i in range(32)]


def q8_0(block: bytes) -> list[float]:
    return [half(block[:2]) * number for number in struct.unpack("32b", block[2:])]


def q2_k(block: bytes) -> list[float]:
    scales, low, scale, least = block[:16], block[16:80], half(block[80:82]), half(block[82:])
    found = []
    for i in range(256):
        number = low[i // 128 * 32 + i % 32] >> 2 * (i // 32 % 4) & 3
        found.append(scale * (scales[i // 16] & 15) * number - least * (scales[i // 16] >> 4))
    return found


def q3_k(block: bytes) -> list[float]:
    mask, low, scales, scale = block[:32], block[32:96], block[96:108], half(block[108:])
    found = []
    for i in range(256):
        number = (low[i // 128 * 32 + i % 32] >> 2 * (i // 32 % 4) & 3) - (0 if mask[i % 32] >> i // 32 & 1 else 4)
        place = i // 16
        six = nibble(scales, place, 8) | (scales[8 + place % 4] >> 2 * (place // 4) & 3) << 4
        found.append(scale * (six - 32) * number)
    return found


def q4_k(block: bytes) -> list[float]:
    found = []
    for i in range(256):
        step, bottom = six_bits(block[4:16], i // 32)
        number = nibble(block[16 + i // 64 * 32 :], i % 64, 32)
        found.append(half(block[:2]) * step * number - half(block[2:4]) * bottom)
    return found


def q5_k(block: bytes) -> list[float]:
    found = []
    for i in range(256):
        step, bottom = six_bits(block[4:16], i // 32)
        number = nibble(block[48 + i // 64 * 32 :], i % 64, 32) | (block[16 + i % 32] >> i // 32 & 1) << 4
        found.append(half(block[:2]) * step * number - half(block[2:4]) * bottom)
    return found


def q6_k(block: bytes) -> list[float]:
    scales = struct.unpack("16b", block[192:208])
    found = []
    for i in range(256):
        low = nibble(block[i // 128 * 64 :], i % 128, 64)
        high = block[128 + i // 128 * 32 + i % 32] >> 2 * (i // 32 % 4) & 3
        found.append(half(block[208:]) * scales[i // 16] * ((low | high << 4) - 32))
    return found


def iq4_nl(block: bytes) -> list[float]:
    return [half(block[:2]) * STEPS[nibble(block[2:], i, 16)] for i in range(32)]


def iq4_xs(block: bytes) -> list[float]:
    high, found = int.from_bytes(block[2:4], "little"), []
    for i in range(256):
        place = i // 32
        six = (block[4 + place // 2] >> 4 * (place % 2) & 15) | (high >> 2 * place & 3) << 4
        found.append(half(block[:2]) * (six - 32) * STEPS[nibble(block[8 + 16 * place :], i % 32, 16)])
    return found


BY_HAND = {each.__name__.upper(): each for each in (q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k)}
BY_HAND |= {"IQ4_NL": iq4_nl, "IQ4_XS": iq4_xs}


@pytest.mark.parametrize("kind", FORMULAS)
def test_a_block_of_ggml_stands_for_what_its_formula_says(kind: str) -> None:
    """Scales are powers of two here, of 11 bits or less with what they are multiplied by, so that fp32 is exact."""
    block_bytes, per_block, _ = FORMULAS[kind]
    content = bytearray(torch.randint(0, 256, (3 * block_bytes,), generator=dice(), dtype=torch.uint8).tolist())
    places = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}.get(kind, (0,) if kind in PLAIN_SCALE else (0, 2))
    for block in range(3):
        for which, place in enumerate(places):
            start = block * block_bytes + place
            content[start : start + 2] = struct.pack("<e", 2.0 ** (block - 3 + which))
    wanted = [
        number
        for start in range(0, len(content), block_bytes)
        for number in BY_HAND[kind](content[start : start + block_bytes])
    ]
    found = from_blocks(torch.frombuffer(content, dtype=torch.uint8), kind, dtype=torch.float32)
    assert found.tolist() == wanted and len(wanted) == 3 * per_block
    half_width = from_blocks(torch.frombuffer(content, dtype=torch.uint8), kind, dtype=torch.bfloat16)
    assert torch.equal(half_width, found.to(torch.bfloat16))


PLAIN_SCALE = ("Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "IQ4_XS")


def test_many_blocks_are_unpacked_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    content = torch.randint(0, 127, (34 * 10,), generator=dice(), dtype=torch.uint8)
    whole = from_blocks(content, "Q8_0", dtype=torch.float32)
    monkeypatch.setattr("latentloom.pipelines.components.unpacking.WEIGHTS_AT_A_TIME", 3 * 32)
    assert torch.equal(from_blocks(content, "Q8_0", dtype=torch.float32), whole)


def test_deferred_tensors_do_what_was_done_to_them_when_they_are_asked_for() -> None:
    files = {"qkv": torch.arange(24.0).reshape(6, 4), "bias": torch.arange(6.0), "table": torch.arange(12.0)}
    read: list[str] = []

    def make(name: str) -> Tensor:
        read.append(name)
        return files[name]

    def converted(held: dict[str, Tensor]) -> dict[str, Tensor]:
        q, k, v = held["qkv"].chunk(3, dim=0)
        shift, scale = torch.chunk(held["bias"], 2)
        return {
            **{"q": q, "k": torch.cat([k]), "v": v[:1]},
            "swapped": torch.cat([scale, shift]),
            "table": held["table"].reshape(3, -1)[None, :, 0],
        }

    deferred = converted({name: Deferred(each.shape, each.dtype, [name]) for name, each in files.items()})
    maker = DeferredMaker(deferred)
    assert read == []
    for name, wanted in converted(files).items():
        assert deferred[name].shape == wanted.shape
        assert torch.equal(maker.make(name, make), wanted)
    assert read == ["qkv", "bias", "table"], "what is cut is read once"
    assert not maker._kept


def test_a_deferred_tensor_is_not_written_into() -> None:
    with pytest.raises(NotImplementedError, match="writes into a tensor that is not read yet"):
        Deferred((2,), torch.float32, ["x"]).mul_(2)
