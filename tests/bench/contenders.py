"""A Flux-like model that is large enough for each of its parameters to matter, and what it is given."""

import functools
import math

import torch
from torch import Tensor, nn

from support.cells import fill


@functools.cache
def model(layers: int = 3) -> nn.Module:
    """53 million parameters, every one of them of a size that matters."""
    from diffusers import FluxTransformer2DModel

    torch.manual_seed(0)
    made = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=layers,
        num_single_layers=2 * layers,
        attention_head_dim=64,
        num_attention_heads=8,
        joint_attention_dim=512,
        pooled_projection_dim=256,
        axes_dims_rope=(16, 24, 24),
    ).eval()
    fill(made)
    return made


@functools.lru_cache(maxsize=1)
def inputs(image: int, text: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    side = math.isqrt(image)
    ids = torch.zeros(side, image // side, 3)
    ids[..., 1] = torch.arange(side)[:, None]
    ids[..., 2] = torch.arange(image // side)
    return {
        "hidden_states": torch.randn(1, image, 16, generator=generator),
        "encoder_hidden_states": torch.randn(1, text, 512, generator=generator),
        "pooled_projections": torch.randn(1, 256, generator=generator),
        "timestep": torch.tensor([0.7]),
        "img_ids": ids.reshape(-1, 3),
        "txt_ids": torch.zeros(text, 3),
    }
