"""Rendered scenes as packed latents, each with what its cells show: what the transformer trains on, kept in pools."""

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .pools import Size
from .world.facts import CELL, cells
from .world.render import render_owned
from .world.scene import Scene, sample

# B batch, C channels, H W latent, S sequence

CHUNK = 256  # pictures encoded at once


@dataclass(frozen=True, kw_only=True)
class LatentPool:
    """Scenes and their latents, all of one size; `grid` is rows and columns of tokens."""

    tokens: Tensor  # B S C
    facts: Tensor  # B S questions, what each token's four cells show
    scenes: list[Scene]
    grid: tuple[int, int]

    def with_things(self, num: int) -> list[int]:
        """Which pictures show so many things."""
        return [i for i, scene in enumerate(self.scenes) if len(scene.things) == num]


def pack(z: Tensor) -> Tensor:
    """FLUX's order: every 2x2 of latents is one token."""
    b, c, h, w = z.shape
    return z.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, 4 * c)  # B S 4C


@torch.no_grad()
def encode_scenes(
    vae: Any, num: int, size: Size, rng: random.Random, *, counts: tuple[float, float, float]
) -> LatentPool:
    """`num` fresh scenes without held-out combinations, and their latents as the transformer wants them."""
    scenes = [sample(rng, counts=counts) for _ in range(num)]
    width, height = size
    parts, shown = [], []
    for start in range(0, num, CHUNK):
        some = scenes[start : start + CHUNK]
        stack, owner = render_owned(some, rng, width=width, height=height, device=str(vae.device))
        x = stack.permute(0, 3, 1, 2).to(memory_format=torch.channels_last).float() / 127.5 - 1  # B C H W
        with torch.autocast(x.device.type, torch.bfloat16):
            z = vae.encode(x).latent_dist.mode().float()
        parts.append(pack((z - vae.config["shift_factor"]) * vae.config["scaling_factor"]))
        shown.append(pack(cells(some, owner)).to(x.device))
    grid = (height // (2 * CELL), width // (2 * CELL))
    return LatentPool(tokens=torch.cat(parts), facts=torch.cat(shown), scenes=scenes, grid=grid)
