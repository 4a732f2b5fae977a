"""Rendered scenes as packed latents: what the transformer trains on."""

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .scene import Scene, render, sample

# B batch, C channels, H W latent, S sequence


def pack(z: Tensor) -> Tensor:
    """FLUX's order: every 2x2 of latents is one token."""
    b, c, h, w = z.shape
    return z.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, 4 * c)  # B S 4C


@torch.no_grad()
def encode_scenes(vae: Any, num: int, rng: random.Random) -> tuple[Tensor, list[Scene]]:
    """`num` fresh scenes without held-out pairs, and their latents as the transformer wants them."""
    scenes = [sample(rng) for _ in range(num)]
    tokens = []
    for start in range(0, num, 64):
        stack = np.stack([render(scene, rng) for scene in scenes[start : start + 64]])
        x = torch.from_numpy(stack).permute(0, 3, 1, 2).to(vae.device, torch.float32) / 127.5 - 1  # B C H W
        z = vae.encode(x).latent_dist.mode()
        tokens.append(pack((z - vae.config["shift_factor"]) * vae.config["scaling_factor"]))
    return torch.cat(tokens), scenes
