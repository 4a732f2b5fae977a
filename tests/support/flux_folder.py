"""A folder of FLUX.1-dev's true size that takes no room: real configs, headers of the weights, and holes for data."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from support.hollow_models import write_header

BLOCKS = {
    **{f"transformer_blocks.{i}.all": 339_800_000 for i in range(19)},
    **{f"single_transformer_blocks.{i}.all": 141_600_000 for i in range(38)},
}
OUTSIDE = {"x_embedder.weight": 60_000_000}
TEXT = {f"encoder.block.{i}.all": 198_000_000 for i in range(24)}
CONFIG = {"num_attention_heads": 24, "attention_head_dim": 128, "num_layers": 19, "num_single_layers": 38}
TRANSFORMER_BYTES = 2 * sum((BLOCKS | OUTSIDE).values())


def write_flux(folder: Path, tiny_flux: Path) -> Path:
    """From the tiny model of the family, which gives what is small in FLUX too."""
    shutil.copytree(tiny_flux, folder)
    config = folder / "transformer" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **CONFIG}))
    write_holes(folder / "transformer" / "diffusion_pytorch_model.safetensors", BLOCKS | OUTSIDE)
    write_holes(folder / "text_encoder_2" / "model.safetensors", TEXT)
    return folder


def write_holes(path: Path, tensors: Mapping[str, int]) -> None:
    """A safetensors file of bf16 tensors with so many numbers, all of them a hole in the file."""
    write_header(path, {name: (numel,) for name, numel in tensors.items()})
