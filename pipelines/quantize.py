"""Weight-only quantization of a transformer's linear layers, by torchao."""

from __future__ import annotations

import importlib.util
from typing import Any

from .loading import one_reason
from .values import Quantization


def check_quantization(quantization: Quantization) -> None:
    """Raises `ValueError` naming the extra to install when torchao is missing."""
    if importlib.util.find_spec("torchao") is None:
        raise ValueError(
            f"quantization {quantization} needs torchao, which is not installed; "
            "run `pip install 'latentloom[quant]'`, or choose quantization none"
        )


def quantize(transformer: Any, quantization: Quantization, *, device: str) -> None:
    """Replace the weights of large linear layers in place, on `device`. LoRA layers stay as they are."""
    check_quantization(quantization)
    import torch
    from torchao import quantization as torchao  # pyright: ignore[reportMissingImports]

    configs: dict[str, Any] = {
        "int8": torchao.Int8WeightOnlyConfig,
        "int4": torchao.Int4WeightOnlyConfig,
        "fp8": torchao.Float8WeightOnlyConfig,
    }

    def is_large(module: torch.nn.Module, name: str) -> bool:
        return isinstance(module, torch.nn.Linear) and ".lora_" not in name and module.in_features >= 32

    try:
        torchao.quantize_(transformer, configs[quantization](), filter_fn=is_large, device=torch.device(device))
    except Exception as error:  # torchao raises AssertionError, ImportError, RuntimeError for what a device lacks
        raise ValueError(
            f"quantization {quantization} does not work on {device} here: {one_reason(error)}; choose int8 or none"
        ) from error
