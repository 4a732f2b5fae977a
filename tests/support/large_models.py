"""A FLUX with two large components, for tests and benchmarks of what loading costs: big enough to see in a process."""

from pathlib import Path

import torch
from diffusers import FluxTransformer2DModel
from transformers import T5Config, T5EncoderModel

from support.tiny_models import write_tiny

NUM_HEADS = 8


def write_large(folder: Path, *, width: int) -> None:
    """A tiny FLUX, but a transformer and a T5 in fp32 of about 290 x `width` squared bytes each: 256 MiB for 960."""
    write_tiny("flux", folder)
    torch.manual_seed(0)
    _transformer(width).save_pretrained(folder / "transformer")
    _text_encoder(width).save_pretrained(folder / "text_encoder_2")


def _transformer(width: int) -> FluxTransformer2DModel:
    head = width // NUM_HEADS
    return FluxTransformer2DModel(
        num_layers=1,
        num_single_layers=2,
        num_attention_heads=NUM_HEADS,
        attention_head_dim=head,
        axes_dims_rope=(head // 4, head // 4, head // 2),
        joint_attention_dim=width,
        pooled_projection_dim=256,
    )


def _text_encoder(width: int) -> T5EncoderModel:
    return T5EncoderModel(
        T5Config(vocab_size=2 * width, d_model=width, d_kv=width // 16, d_ff=3 * width, num_layers=7, num_heads=16)
    )
