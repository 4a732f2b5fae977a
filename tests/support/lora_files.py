"""LoRAs of random numbers, or of none, as files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from support.hollow_models import write_header


def write_lora(path: Path, module: torch.nn.Module, *, prefix: str, layers: tuple[str, ...], seed: int = 0) -> Path:
    """A LoRA of rank 2 for the linear layers whose names hold one of `layers`."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.Linear) and any(layer in name for layer in layers):
            weights[f"{prefix}.{name}.lora_A.weight"] = torch.randn(2, part.in_features, generator=generator) * 0.3
            weights[f"{prefix}.{name}.lora_B.weight"] = torch.randn(part.out_features, 2, generator=generator) * 0.3
    assert weights
    save_file(weights, path)
    return path


def write_pair(
    path: Path,
    layer: str = "transformer.transformer_blocks.0.attn.to_q",
    *,
    shape: tuple[int, int] = (192, 192),
    rank: int = 4,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """A LoRA for one layer, of (out, in), which by its own name is one of bobbin's."""
    pair = {f"{layer}.lora_A.weight": (rank, shape[1]), f"{layer}.lora_B.weight": (shape[0], rank)}
    return write_header(path, pair, metadata=metadata)
