"""Weights that torchao packs some rows at a time: in little memory, and to the bits of the whole weight."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from latentloom.pipelines.components import quantizing
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.describe import describe_model
from support.alive import Alive

torchao = pytest.importorskip("torchao.quantization", reason="torchao is not installed: pip install '.[dev]'")
BF16, FP32 = torch.bfloat16, torch.float32
WAYS = [("int8", BF16), ("int8", FP32), ("fp8", BF16), ("fp8", FP32), ("fp8_dynamic", BF16), ("int4", BF16)]


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only CUDA has: leave to compute in fp8, and int4's packing, whose tiles of 8 rows are laid out as there."""

    def packed(pairs: Tensor, inner: int) -> Tensor:
        """[N/8][K/(16 x inner)][32][inner/2] whole numbers, from two numbers to a byte."""
        assert inner == 8 and pairs.dtype == torch.uint8 and pairs.is_contiguous()
        rows, width = pairs.shape[0] // 8, pairs.shape[1] // 64
        tiles = pairs.view(rows, 8, width, 64).transpose(1, 2).contiguous()
        return tiles.view(torch.int32).view(rows, width, 32, 4)

    monkeypatch.setattr("torchao.quantization.quant_api._check_hardware_support", lambda granularity: None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.ops.aten, "_convert_weight_to_int4pack", packed, raising=False)


def layer_of(rows: int, width: int, *, dtype: torch.dtype, bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(width, rows, bias=bias).to(dtype).requires_grad_(False)


def equal(packed: Any, wanted: Any) -> bool:
    """In everything that torchao's tensor is made of."""
    (names, facts), (same_names, same_facts) = packed.__tensor_flatten__(), wanted.__tensor_flatten__()
    pairs = [(getattr(packed, name), getattr(wanted, name)) for name in names]
    return (
        (type(packed), packed.shape, packed.dtype, packed.stride(), names, facts)
        == (type(wanted), wanted.shape, wanted.dtype, wanted.stride(), same_names, same_facts)
    ) and all(x.stride() == y.stride() and torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in pairs)


@pytest.mark.parametrize(("way", "dtype"), WAYS)
def test_at_most_16_mb_are_alive_beside_a_weight_and_what_is_made_of_it(way: Any, dtype: torch.dtype) -> None:
    layer = layer_of(6144, 3072, dtype=dtype)
    settle = quantizing.settler(way, device="cpu")
    with Alive(but=layer.parameters()) as alive:
        settle(layer, "weight")
    kept = sum(getattr(layer.weight, name).nbytes for name in layer.weight.__tensor_flatten__()[0])
    assert 0 < alive.now <= kept + 1000
    assert alive.most - kept <= 16_000_000


@pytest.mark.parametrize(
    ("way", "rows", "width", "dtype"),
    [
        ("int8", 1537, 1041, BF16),
        ("int8", 1537, 1041, FP32),
        ("fp8", 1537, 1041, BF16),
        ("fp8", 1537, 1041, FP32),
        ("fp8_dynamic", 1552, 1040, BF16),
        ("int4", 1537, 1152, BF16),  # padded in both dims
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_the_bits_are_those_of_the_whole_weight(
    way: Any, rows: int, width: int, dtype: torch.dtype, bias: bool, caplog: pytest.LogCaptureFixture
) -> None:
    by_parts, whole = (layer_of(rows, width, dtype=dtype, bias=bias) for _ in range(2))
    config = quantizing._config(way)
    torchao.quantize_(whole, config.config)
    torchao.quantize_(by_parts, config)
    assert equal(by_parts.weight, whole.weight) and caplog.text == ""
    if way in ("int8", "fp8"):
        x = torch.randn(3, width).to(dtype)
        assert torch.equal(by_parts(x), whole(x))


def test_what_has_one_scale_for_a_whole_weight_is_packed_as_a_whole(caplog: pytest.LogCaptureFixture) -> None:
    config = torchao.Float8WeightOnlyConfig(granularity=torchao.PerTensor())
    by_parts, whole = (layer_of(1040, 1024, dtype=BF16) for _ in range(2))
    torchao.quantize_(whole, config)
    quantizing.pack(by_parts, config)
    assert equal(by_parts.weight, whole.weight)
    assert "Float8WeightOnlyConfig does not pack rows apart" in caplog.text


def test_a_text_encoder_is_packed_by_rows_as_transformers_loads_it(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(at_a_time: int) -> nn.Module:
        monkeypatch.setattr(quantizing, "packed_at_a_time", lambda device: at_a_time)
        return ComponentStore().load(int8, ("text_encoder_2",))["text_encoder_2"]

    flux = describe_model(str(tiny("flux")), device="cpu")
    int8 = dataclasses.replace(flux, quantization="int8")
    real, pieces = quantizing._packed, list[int]()
    monkeypatch.setattr(quantizing, "_packed", lambda rows, config: pieces.append(len(rows)) or real(rows, config))
    parts, whole = (dict(loaded(at_a_time).named_parameters()) for at_a_time in (1, 10**6))
    packed = [name for name, each in whole.items() if hasattr(each, "__tensor_flatten__")]
    assert packed and all(equal(parts[name], whole[name]) for name in packed)
    assert pieces.count(quantizing.TILE) > len(packed)
