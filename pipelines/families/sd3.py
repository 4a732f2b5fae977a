"""Stable Diffusion 3 and 3.5 (medium, large): pictures from text or from a picture, with true guidance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .card import Card
from .family import Family
from .pictures import Blocks, Pictures
from .row import Configs, latent_width

LICENCE = "Stability AI Community License"


def _card(index: Mapping[str, Any], config: Configs) -> Card:
    transformer = config("transformer")
    name, steps, guidance = "Stable Diffusion 3 medium", 28, 7.0
    if transformer.get("dual_attention_layers"):
        name, steps, guidance = "Stable Diffusion 3.5 medium", 40, 4.5
    elif transformer.get("num_layers", 0) >= 38:
        name, steps, guidance = "Stable Diffusion 3.5 large", 28, 3.5
    return Card(name=name, licence=LICENCE, steps=steps, guidance=guidance, text_length=256)


FAMILY = Family(
    name="sd3",
    title="Stable Diffusion 3",
    pipelines=("StableDiffusion3Pipeline", "StableDiffusion3Img2ImgPipeline"),
    output="image",
    components={
        "encode_text": (
            *("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2"),
            *("tokenizer_3?", "text_encoder_3?"),
        ),
        "encode_image": ("vae",),
        "denoise": ("transformer", "scheduler"),
        "decode": ("vae",),
    },
    card=_card,
    size_multiple=lambda config: latent_width(config("vae")) * int(config("transformer").get("patch_size", 2)),
    takes_mask=True,
)


def _blocks() -> Blocks:
    from diffusers.modular_pipelines.stable_diffusion_3.decoders import StableDiffusion3DecodeStep
    from diffusers.modular_pipelines.stable_diffusion_3.encoders import (
        StableDiffusion3TextEncoderStep,
        StableDiffusion3VaeEncoderStep,
    )
    from diffusers.modular_pipelines.stable_diffusion_3.modular_blocks_stable_diffusion_3 import (
        StableDiffusion3AutoCoreDenoiseStep as Core,
    )

    return Blocks(
        StableDiffusion3TextEncoderStep, StableDiffusion3VaeEncoderStep, Core, Core, StableDiffusion3DecodeStep
    )


PICTURES = Pictures(
    title=FAMILY.title,
    blocks=_blocks,
    longest_text=512,
    tokenizer="tokenizer_3",  # T5's, which a model may come without; two CLIPs read the first 77 tokens
    text_outputs=("prompt_embeds", "pooled_prompt_embeds"),  # 1 77+S C (CLIP's rows first, then T5's), 1 C
    packed=1,
)

encode_text, encode_image, denoise, decode = (
    PICTURES.encode_text,
    PICTURES.encode_image,
    PICTURES.denoise,
    PICTURES.decode,
)
