"""Weight-only quantization of a transformer's linear layers, by torchao."""

from __future__ import annotations

from typing import Any

from ..values import Quantization
from .loading import one_reason

GROUP_SIZE = 128
"""Weights that share a scale in int4."""
MIN_WIDTH = 32
"""Narrower layers gain nothing."""


def quantize(transformer: Any, quantization: Quantization, *, device: str) -> None:
    """Replace the weights of wide linear layers in place, layer by layer on `device`. LoRA layers stay as they are."""
    import torch
    from torchao import quantization as torchao  # pyright: ignore[reportMissingImports]

    multiple = GROUP_SIZE if quantization == "int4" else 1

    def is_wide(module: torch.nn.Module, name: str) -> bool:
        if not isinstance(module, torch.nn.Linear) or ".lora_" in name:
            return False
        return module.in_features >= MIN_WIDTH and module.in_features % multiple == 0

    try:
        config = {
            "int8": lambda: torchao.Int8WeightOnlyConfig(),
            "int4": lambda: torchao.Int4WeightOnlyConfig(
                group_size=GROUP_SIZE, int4_packing_format="tile_packed_to_4d"
            ),
            "fp8": lambda: torchao.Float8WeightOnlyConfig(),
        }[quantization]()
        torchao.quantize_(transformer, config, filter_fn=is_wide, device=torch.device(device))
    except Exception as error:  # torchao raises AssertionError, ImportError, RuntimeError for what a device lacks
        raise ValueError(
            f"quantization {quantization} does not work on {device} here: {one_reason(error)}; choose int8 or none"
        ) from error
