"""What LTX-2 has that no other row does: a first frame like a film's, noise for a decoder that denoises, and a second
pass: latents made larger by its upsampler, noised again in part, and denoised.
"""

from __future__ import annotations

import copy
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..values import as_bytes
from .row import picture

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from ..values import Latents, Sampling
    from .family import Parts

TILE = 8  # tokens a side

# B videos, F frames, H W height and width, C channels, S tokens, D head width


def filmed(parts: Parts, pixels: Tensor) -> tuple[Parts, list[Any]]:
    """First frames B H W C for a block that compresses each as a film's, and parts that have of the text encoder, whose
    kind tells how much, the config alone."""
    text_encoder = SimpleNamespace(config=SimpleNamespace(**parts["config"]("text_encoder")))
    return {**parts, "text_encoder": text_encoder}, [picture(each) for each in as_bytes(pixels)]


def drawn(parts: Parts, latents: Latents) -> list[Generator] | None:
    """What a decoder that denoises draws from, for each video anew of its seed; from now on it attends by windows.
    None where another decodes."""
    from ..denoising.noise import generators

    if "diffusion_decoder" not in parts:
        return None
    parts["diffusion_decoder"].set_attn_processor(Windows())
    return generators(latents.seeds)


class Windows:
    """Neighbourhood attention: each token looks at the window around it, which at a border is moved inward (Hassani et
    al., arXiv:2204.07143). Tile by tile over the keys that its windows reach: a mask of all tokens, as diffusers makes
    without its kernel from the hub, is larger than any device.
    """

    def __call__(self, attn: Any, hidden_states: Tensor, block_mask: Any = None) -> Tensor:
        from torch import empty_like
        from torch.nn.functional import scaled_dot_product_attention

        query, key, value = attn.project_qkv(hidden_states)  # B F H W heads D
        made = empty_like(query)
        sides = (_tiles(*each, key.device) for each in zip(query.shape[1:4], attn.kernel_size, strict=True))
        for (f, frames, seen), (h, rows, above), (w, columns, beside) in itertools.product(*sides):
            mask = seen[:, None, None, :, None, None] & above[:, None, None, :, None] & beside[:, None, None, :]
            flat = (
                each.flatten(1, 3).transpose(1, 2)
                for each in (query[:, f, h, w], *(each[:, frames, rows, columns] for each in (key, value)))
            )  # B heads S D
            part = scaled_dot_product_attention(*flat, attn_mask=mask.flatten(0, 2).flatten(1), scale=1.0)
            made[:, f, h, w] = part.transpose(1, 2).reshape(made[:, f, h, w].shape)
        return attn.to_out[0](made.flatten(4))


def _tiles(size: int, kernel: int, device: Any) -> list[tuple[slice, slice, Tensor]]:
    """Along one side: the queries of a tile, the keys that they reach, and which of these each sees."""
    from torch import arange

    found = []
    for start in range(0, size, TILE):
        first = (arange(start, min(start + TILE, size), device=device) - kernel // 2).clamp(0, size - kernel)[:, None]
        lowest = max(0, min(start - kernel // 2, size - kernel))
        highest = max(0, min(start + len(first) - 1 - kernel // 2, size - kernel)) + kernel
        keys = arange(lowest, highest, device=device)
        seen = (keys >= first) & (keys < first + kernel)
        found.append((slice(start, start + len(first)), slice(lowest, highest), seen))
    return found


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
