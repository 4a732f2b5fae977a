"""What the autoencoder alone loses: true pictures through it and back, read by the oracle.

It bounds what any transformer can reach: an object that the autoencoder blurs is lost however well it is drawn.
"""

import random
from pathlib import Path
from typing import Any

import torch

from .oracle import compare, share_right
from .reading.reading import read
from .world.render import render
from .world.scene import sample

# B C H W


@torch.no_grad()
def round_trip(vae_folder: Path, *, num: int, seed: int = 9) -> dict[str, float]:
    """Per attribute, the share of `num` scenes that is still right."""
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    vae: Any = AutoencoderKL.from_pretrained(vae_folder).eval()
    rng = random.Random(seed)
    scenes = [sample(rng, counts=(0.4, 0.4, 0.2)) for _ in range(num)]
    verdicts = []
    for picture, scene in zip(render(scenes, rng), scenes, strict=True):
        x = picture.permute(2, 0, 1)[None].float() / 127.5 - 1  # 1 C H W
        y = vae.decode(vae.encode(x).latent_dist.mode()).sample[0]
        seen = ((y.clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 0)  # H W C
        verdicts.append(compare(read(seen), scene))
    return share_right(verdicts)
