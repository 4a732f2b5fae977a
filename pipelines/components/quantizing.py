"""Quantization by torchao: of the weights of wide linear layers, each as soon as it has been read.

Only `fp8_dynamic` computes in fewer bits: it scales each row of a layer's input as it comes, and multiplies in fp8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..out_of_memory import refused_as
from ..values import Quantization

if TYPE_CHECKING:
    from torch import nn

    from ...parallel.sharding.weights import Settle

INT4_PACKING: Any = "tile_packed_to_4d"
"""For the tensor cores of CUDA."""
GROUP_SIZE = 128
"""Weights that share a scale in int4."""
FP8_TILE = 16
"""What both widths of a layer are multiples of, for a product in fp8."""
MIN_WIDTH = 32
"""Narrower layers gain nothing."""


def settler(quantization: Quantization, *, device: str) -> Settle:
    """What quantizes a wide linear layer in place, where it is, once its weight is there. The float copy is gone then.

    Raises `ValueError` for what torchao cannot do on `device`.
    """
    from torchao.quantization import quantize_

    from . import by_rows

    with _one_sentence(quantization, device):
        config = _config(quantization)

    def settle(layer: nn.Module, name: str) -> None:
        if name == "weight" and _is_wide(layer, quantization):
            with _one_sentence(quantization, device):
                quantize_(layer, config, filter_fn=lambda *_: True)
            if quantization == "fp8_dynamic" and device.startswith("cuda"):
                by_rows.add_bias_apart_where_it_must(layer, FP8_TILE)

    return settle


def quantize_loaded(component: nn.Module, quantization: Quantization, *, device: str) -> None:
    """The same for a component that a library has loaded on the host: layer by layer, as it goes to `device`."""
    settle = settler(quantization, device=device)
    for layer in component.modules():
        if _is_wide(layer, quantization):
            layer.to(device)
            settle(layer, "weight")


def transformers_config(quantization: Quantization) -> Any:
    """By which transformers does it while it loads: tensor by tensor too, in the linear layers, never an embedding.

    Text encoders run once for a prompt and have outliers in their activations: these stay in bf16.
    """
    from transformers import TorchAoConfig

    return TorchAoConfig(quant_type=_config("fp8" if quantization == "fp8_dynamic" else quantization))


def _config(quantization: Quantization) -> Any:
    from torchao import quantization as torchao

    kinds = {
        "int8": lambda: torchao.Int8WeightOnlyConfig(),
        "int4": lambda: torchao.Int4WeightOnlyConfig(group_size=GROUP_SIZE, int4_packing_format=INT4_PACKING),
        "fp8": lambda: torchao.Float8WeightOnlyConfig(),
        "fp8_dynamic": lambda: torchao.Float8DynamicActivationFloat8WeightConfig(granularity=torchao.PerRow()),
    }
    return _by_rows()(kinds[quantization]())


@functools.cache
def _by_rows() -> Callable[[Any], Any]:
    """A kind of torchao's configs: by it `quantize_`, and transformers, pack as another says, some rows at a time."""
    from torchao.core.config import AOBaseConfig
    from torchao.quantization.transform_module import (
        register_quantize_module_handler,
    )

    from . import by_rows

    @dataclass
    class RowsConfig(AOBaseConfig):
        config: AOBaseConfig

    @register_quantize_module_handler(RowsConfig)
    def quantized(layer: nn.Module, asked: RowsConfig) -> nn.Module:
        return by_rows.pack(layer, asked.config)

    return RowsConfig


def _is_wide(layer: nn.Module, quantization: Quantization) -> bool:
    import torch

    if not isinstance(layer, torch.nn.Linear) or layer.in_features < MIN_WIDTH:
        return False
    if quantization == "fp8_dynamic":
        is_even = layer.in_features % FP8_TILE == layer.out_features % FP8_TILE == 0
        return is_even and layer.weight.dtype == torch.bfloat16  # those that a class keeps in fp32 stay
    return quantization != "int4" or layer.in_features % GROUP_SIZE == 0


def _one_sentence(quantization: Quantization, device: str) -> AbstractContextManager[None]:
    """torchao raises AssertionError, ImportError and RuntimeError for what a device lacks."""
    return refused_as(
        lambda error: f"quantization {quantization} does not work on {device} here: {error}; choose int8 or none"
    )
