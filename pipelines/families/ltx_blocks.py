"""What LTX-2 has that no other row does: a first frame like a film's, noise for a decoder that denoises, and a second
pass: latents made larger by its upsampler, noised again in part, and denoised.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..values import as_bytes
from .row import picture

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from ..values import Latents, Sampling
    from .family import Parts

# B videos, F frames, H W height and width, C channels, S tokens


def filmed(parts: Parts, pixels: Tensor) -> tuple[Parts, list[Any]]:
    """First frames B H W C for a block that compresses each as a film's, and parts that have of the text encoder, whose
    kind tells how much, the config alone."""
    text_encoder = SimpleNamespace(config=SimpleNamespace(**parts["config"]("text_encoder")))
    return {**parts, "text_encoder": text_encoder}, [picture(each) for each in as_bytes(pixels)]


def drawn(latents: Latents) -> list[Generator]:
    """What a decoder that denoises draws from: for each video anew of its seed."""
    from ..denoising.noise import generators

    return generators(latents.seeds)


def upscaled(parts: Parts, tensor: Tensor) -> Tensor:
    """Latents B C F H W, and of twice the height and width, both as a denoise has them."""
    from diffusers.pipelines.ltx2.pipeline_ltx2_latent_upsample import LTX2LatentUpsamplePipeline

    vae = parts["vae"]
    whole = LTX2LatentUpsamplePipeline(vae=vae, latent_upsampler=parts["latent_upsampler"])
    made = whole(latents=tensor.float(), latents_normalized=True, output_type="latent").frames.float()
    mean, deviation = (each.float().view(1, -1, 1, 1, 1) for each in (vae.latents_mean, vae.latents_std))
    return (made - mean) * vae.config.scaling_factor / deviation


def second_pass(latents: Latents, sampling: Sampling) -> dict[str, Any]:
    """What the denoise block begins with: tokens of finished latents, and how much noise is to be mixed in."""
    assert latents.tensor is not None and latents.sound is not None
    tokens = latents.tensor.float().flatten(2).mT  # B S C
    sound = latents.sound.to(tokens.device, tokens.dtype)
    return {"latents": tokens, "audio_latents": sound, "noise_scale": sampling.sigmas[0]}


def as_it_is(parts: Parts, latents: Latents) -> Parts:
    """An audio VAE by whose numbers the finished latents of a sound, which are normal already, stay as they are."""
    import torch

    if latents.sound is None:
        return {}
    vae = copy.copy(parts["shells"]["audio_vae"])
    vars(vae).update(latents_mean=torch.zeros(1), latents_std=torch.ones(1))
    return {"audio_vae": vae}
