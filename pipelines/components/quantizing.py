"""Quantization by torchao: of the weights of wide linear layers, each as soon as it has been read.

Only `fp8_dynamic` computes in fewer bits: it scales each row of a layer's input as it comes, and multiplies in fp8.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from ..out_of_memory import refused_as
from ..values import Quantization

if TYPE_CHECKING:
    from torch import nn

    from ...parallel.sharding.weights import Settle

GROUP_SIZE = 128
"""Weights that share a scale in int4."""
FP8_TILE = 16
"""What both widths of a layer are multiples of, for a product in fp8."""
MIN_WIDTH = 32
"""Narrower layers gain nothing."""
MAPPED_BYTES = 1 << 20
"""From this size on what is allocated on the host goes back to the system as soon as it is freed."""
USUAL_BYTES = 32 << 20
"""Where glibc ends up by itself, which raises it to the largest block that it has seen freed."""
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""The names of glibc's mallopt."""


def settler(quantization: Quantization, *, device: str) -> Settle:
    """What quantizes a wide linear layer in place, where it is, once its weight is there. The float copy is gone then.

    Raises `ValueError` for what torchao cannot do on `device`.
    """
    from torchao.quantization import quantize_  # pyright: ignore[reportMissingImports]

    with _one_sentence(quantization, device):
        config = _config(quantization)

    def settle(layer: nn.Module, name: str) -> None:
        if name == "weight" and _is_wide(layer, quantization):
            with _one_sentence(quantization, device):
                quantize_(layer, config, filter_fn=lambda *_: True)

    return settle


@contextmanager
def nothing_left_behind(device: str) -> Iterator[None]:
    """Within it the host's memory holds no holes where float copies were: quantized weights that lie between these
    would keep them, twice as much as is kept. For the whole process, and for glibc; elsewhere nothing is done."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if device == "cpu" and sys.platform == "linux" else None
    if set_option is None:
        yield
        return
    set_option(MMAP_THRESHOLD, MAPPED_BYTES)
    try:
        yield
    finally:
        set_option(MMAP_THRESHOLD, USUAL_BYTES)
        set_option(TRIM_THRESHOLD, 2 * USUAL_BYTES)


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
    from torchao import quantization as torchao  # pyright: ignore[reportMissingImports]

    return {
        "int8": lambda: torchao.Int8WeightOnlyConfig(),
        "int4": lambda: torchao.Int4WeightOnlyConfig(group_size=GROUP_SIZE, int4_packing_format="tile_packed_to_4d"),
        "fp8": lambda: torchao.Float8WeightOnlyConfig(),
        "fp8_dynamic": lambda: torchao.Float8DynamicActivationFloat8WeightConfig(granularity=torchao.PerRow()),
    }[quantization]()


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
