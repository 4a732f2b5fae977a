"""What an image-to-video Wan is told of the first frame: its latents and, in 2.1, what CLIP sees in it."""

# B videos, F latent frames, C channels, H W latent height and width

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
from diffusers.modular_pipelines.wan.modular_blocks_wan_i2v import WanImage2VideoVaeEncoderStep
from PIL import Image
from torch import Tensor

from ..denoising.blocks import assembled, run
from .checks import check_latents
from .family import Parts

if TYPE_CHECKING:
    from ..values import Latents

LATENTS, CLIP = "image_condition_latents", "image_embeds"


def encode(parts: Parts, *, pixels: Tensor, frames: int) -> dict[str, Tensor]:
    """From pictures B H W C in 0..1, already of the video's size."""
    height, width = pixels.shape[1:3]
    inputs = {"resized_image": pixels.movedim(-1, 1), "width": width, "height": height, "num_frames": frames}
    found = run(assembled(_encoder), parts, inputs=inputs, outputs=(LATENTS,))  # B C F H W
    return {**found, CLIP: _clip(parts, pixels)} if "image_encoder" in parts else found


def _encoder() -> ModularPipelineBlocks:
    block = WanImage2VideoVaeEncoderStep()
    del block.sub_blocks["image_resize"]  # wants a PIL image, and may change the size that was asked for
    return block


def _clip(parts: Parts, pixels: Tensor) -> Tensor:
    pictures = [Image.fromarray(each) for each in (pixels * 255).round().to("cpu", torch.uint8).numpy()]
    encoder = parts["image_encoder"]
    inputs = parts["image_processor"](images=pictures, return_tensors="pt").to(encoder.device, encoder.dtype)
    with torch.no_grad():
        return encoder(**inputs, output_hidden_states=True).hidden_states[-2]  # B tokens C


def given(parts: Parts, latents: Latents) -> Mapping[str, Tensor]:
    """What `encode` found, after checking that this model, of this size, takes it; empty for text to video."""
    config, extras = parts["transformer"].config, latents.extras
    needed = [LATENTS] if config.in_channels > config.out_channels else []
    needed += [CLIP] if config.image_dim else []
    if latents.tensor is not None:
        raise ValueError(
            "Wan starts from noise, but got finished latents; "
            "give it an empty canvas, or encode a picture as the first frame"
        )
    if extras and not needed:
        raise ValueError("this Wan model makes videos from text only, but got a first frame; give it an empty canvas")
    if missing := [name for name in needed if name not in extras]:
        raise ValueError(
            f"this Wan model continues a picture, but got none ({', '.join(missing)}); "
            "encode the first frame with this model and connect it"
        )
    if needed:
        check_latents(extras[LATENTS], _shape(parts, latents), title="Wan")
    return {name: extras[name] for name in needed}


def _shape(parts: Parts, latents: Latents) -> tuple[int, int, int, int]:
    config, downsampled = parts["transformer"].config, parts["vae.config"]["temperal_downsample"]
    factor = 2 ** len(downsampled)
    return (
        config.in_channels - config.out_channels,  # which frames are given, and those frames
        (latents.frames - 1) // 2 ** sum(downsampled) + 1,
        latents.height // factor,
        latents.width // factor,
    )
