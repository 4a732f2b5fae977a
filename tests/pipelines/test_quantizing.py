"""Weights that are quantized while they are read: which, when, and by which of torchao's configs."""

import dataclasses
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from latentloom.pipelines.components import building, quantizing
from latentloom.pipelines.components.loading import load_component
from latentloom.pipelines.components.memory import PACKED_ON_GPU, expected_bytes, loading_bytes
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.component_files import ComponentFiles, inspect_model
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.models.packing import PACKED
from latentloom.pipelines.models.tensor_file import TensorEntry, TensorFile
from latentloom.pipelines.values import Model


@pytest.fixture
def flux(tiny: Callable[[str], Path]) -> Model:
    return describe_model(str(tiny("flux")), device="cpu")


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many weights were in whole precision each time that one was about to be quantized."""
    pytest.importorskip("torchao", reason="torchao is not installed: pip install '.[dev]'")
    found: list[int] = []
    seen: list[weakref.ref[torch.Tensor]] = []

    def pack(layer: nn.Module, config: Any) -> nn.Module:
        seen.append(weakref.ref(layer.weight))
        found.append(sum(each() is not None for each in seen))
        layer.weight = nn.Parameter(layer.weight.data.to(torch.int8), requires_grad=False)
        return layer

    monkeypatch.setattr(quantizing, "pack", pack)
    return found


def test_no_second_weight_is_whole_while_one_is_quantized(flux: Model, alive: list[int]) -> None:
    files = inspect_model(Path(flux.folder)).components["transformer"]
    transformer = load_component(files, dtype="bf16", quantization="int8")
    wide = [each for each in transformer.modules() if isinstance(each, nn.Linear) and each.in_features >= 32]
    assert alive == [1] * len(wide) and len(wide) > 20
    assert {each.weight.dtype for each in wide} == {torch.int8}
    assert transformer.norm_out.linear.bias.dtype == torch.bfloat16


def test_what_has_been_loaded_by_a_library_goes_to_its_device_layer_by_layer(alive: list[int]) -> None:
    block = nn.ModuleDict({"wide": nn.Linear(64, 4), "narrow": nn.Linear(8, 4), "norm": nn.LayerNorm(64)})
    quantizing.quantize_loaded(block, "int8", device="cpu")
    assert {name: each.dtype for name, each in block.named_parameters() if "weight" in name} == {
        "wide.weight": torch.int8,
        "narrow.weight": torch.float32,
        "norm.weight": torch.float32,
    }


def test_a_layer_that_no_group_divides_is_left_alone_in_int4(alive: list[int]) -> None:
    block = nn.ModuleList([nn.Linear(quantizing.GROUP_SIZE + 32, 4), nn.Linear(2 * quantizing.GROUP_SIZE, 4)])
    quantizing.quantize_loaded(block, "int4", device="cpu")
    assert len(alive) == 1


def test_fp8_is_computed_in_where_a_product_in_fp8_can_be(alive: list[int]) -> None:
    """By the one of torchao's configs that quantizes inputs too."""
    layers = [nn.Linear(64, 32), nn.Linear(72, 32), nn.Linear(64, 24)]
    block = nn.ModuleList([*(each.bfloat16() for each in layers), nn.Linear(64, 32)])
    quantizing.quantize_loaded(block, "fp8_dynamic", device="cpu")
    kept = [torch.bfloat16, torch.bfloat16, torch.float32]
    assert [each.weight.dtype for each in block] == [torch.int8, *kept]
    assert type(quantizing._config("fp8_dynamic").config).__name__ == "Float8DynamicActivationFloat8WeightConfig"


def test_a_product_in_fp8_is_looked_at_on_cuda_alone(alive: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(quantizing, "add_bias_apart_where_it_must", lambda layer, tile: asked.append(tile))
    for quantization, device in (("fp8_dynamic", "cpu"), ("fp8", "cuda:1"), ("fp8_dynamic", "cuda:1")):
        quantizing.settler(quantization, device=device)(nn.Linear(64, 32).bfloat16(), "weight")
    assert (len(alive), asked) == (3, [quantizing.FP8_TILE])


def test_what_cannot_be_made_empty_first_is_quantized_once_it_is_loaded(
    flux: Model, alive: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "load", lambda *_, **__: None)
    files = inspect_model(Path(flux.folder)).components["transformer"]
    transformer = load_component(files, dtype="bf16", quantization="int8")
    assert transformer.proj_out.weight.dtype == torch.int8 and len(alive) > 20
    packed = dataclasses.replace(files.weights[0], tensors={"w": TensorEntry(f"{PACKED}Int8Tensor", (1, 1))})
    with pytest.raises(ValueError, match="which torchao has quantized, are not those of FluxTransformer2DModel"):
        load_component(dataclasses.replace(files, weights=(packed,)), dtype="bf16")


def test_what_torchao_lacks_is_one_sentence(alive: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("needs compute capability 8.9")

    monkeypatch.setattr("torchao.quantization.Float8WeightOnlyConfig", fail)
    with pytest.raises(ValueError, match=r"quantization fp8 does not work on cuda here: needs .* choose int8 or none"):
        quantizing.settler("fp8", device="cuda")


def test_transformers_quantizes_the_text_encoders_and_nothing_else(
    flux: Model, alive: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    read = transformers.PreTrainedModel.from_pretrained.__func__  # type: ignore[attr-defined]

    def from_pretrained(cls: Any, *args: Any, quantization_config: Any = None, **options: Any) -> Any:
        given[cls.__name__] = quantization_config
        return read(cls, *args, **options)

    monkeypatch.setattr(transformers.PreTrainedModel, "from_pretrained", classmethod(from_pretrained))
    monkeypatch.setattr(quantizing, "transformers_config", lambda quantization: quantization)
    store, int8 = ComponentStore(), dataclasses.replace(flux, quantization="int8")
    parts = store.load(int8, ("text_encoder", "text_encoder_2", "vae"))
    assert given == {"CLIPTextModel": "int8", "T5EncoderModel": "int8"} and alive == []
    assert store.load(flux, ("text_encoder",))["text_encoder"] is not parts["text_encoder"]
    assert store.load(flux, ("vae",))["vae"].decoder is parts["vae"].decoder


@pytest.mark.parametrize(("quantization", "share"), [("none", 1), ("int8", 4), ("fp8_dynamic", 4), ("int4", 8)])
def test_room_is_made_for_quantized_weights(flux: Model, quantization: Any, share: int) -> None:
    model, files = dataclasses.replace(flux, quantization=quantization), inspect_model(Path(flux.folder)).components
    transformer, vae = files["transformer"], files["vae"]
    assert expected_bytes(transformer, model) == 4 * transformer.num_parameters // share
    assert expected_bytes(vae, model) == 4 * vae.num_parameters
    shapes = {"shared.weight": (100, 8), "block.0.q.weight": (8, 8), "norm.weight": (8,)}
    held = {name: TensorEntry("F32", shape) for name, shape in shapes.items()}
    encoder = ComponentFiles(
        name="text_encoder",
        library="transformers",
        class_name="T5EncoderModel",
        kind="model",
        folder=Path(),
        weights=(TensorFile(Path(), b"", 0, (0, 0, 0), held, {}),),
    )
    assert expected_bytes(encoder, model) == 4 * 808 + 4 * 64 // share


def test_room_is_made_for_the_largest_weight_and_for_the_part_of_it_that_is_quantized(flux: Model) -> None:
    held = {"weight": TensorEntry("BF16", (10_000, 1000))}
    files = dataclasses.replace(
        inspect_model(Path(flux.folder)).components["transformer"],
        weights=(TensorFile(Path(), b"", 0, (0, 0, 0), held, {}),),
    )
    model = dataclasses.replace(flux, dtype="bf16", quantization="int8")
    assert loading_bytes(files, flux) == 0
    assert 20_000_000 < loading_bytes(files, model) <= 20_000_000 + 16_000_000
    assert loading_bytes(files, dataclasses.replace(model, device="cuda")) == 20_000_000 + 20 * PACKED_ON_GPU


@pytest.mark.parametrize("quantization", ["int4", "fp8_dynamic"])
def test_what_has_kernels_for_cuda_alone_needs_it(quantization: Any) -> None:
    with pytest.raises(ValueError, match=f"quantization {quantization} needs CUDA and bf16, not cpu and fp32"):
        describe_model("builtin:bobbin", device="cpu", quantization=quantization)


@pytest.mark.parametrize(
    ("has_bias", "says", "is_apart"),
    [(True, quantizing.NO_KERNEL, True), (False, quantizing.NO_KERNEL, False), (True, "", False)],
)
def test_a_bias_is_added_apart_where_no_kernel_adds_it(
    has_bias: bool, says: str, is_apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = nn.Linear(32, 16, bias=has_bias)
    x = torch.randn(3, 32)
    wanted, linear = layer(x), torch.nn.functional.linear

    def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        assert {x.device, weight.device, *(() if bias is None else (bias.device,))} == {weight.device}
        if says and bias is not None:
            raise RuntimeError(f"CUDA error: {says} when calling `cublasLtMatmulAlgoGetHeuristic`")
        return linear(x, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", product)
    bias = layer.bias
    if has_bias:  # as it is while a component is filled: the weight is read first
        layer.bias = nn.Parameter(bias.detach().to("meta"))
    quantizing.add_bias_apart_where_it_must(layer, 16)
    layer.bias = bias
    assert isinstance(layer, quantizing.BiasApart) == is_apart
    assert torch.allclose(layer(x), wanted, atol=1e-6)


def test_what_else_fails_in_a_product_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(torch.nn.functional, "linear", fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        quantizing.add_bias_apart_where_it_must(nn.Linear(32, 16), 16)
