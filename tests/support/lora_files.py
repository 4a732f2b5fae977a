"""LoRAs of random numbers, as files."""

from pathlib import Path

import torch
from safetensors.torch import save_file


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
