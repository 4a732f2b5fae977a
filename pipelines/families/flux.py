"""FLUX.1 (dev, schnell, and the built-in bobbin): pictures from text or from a picture.

Its own guidance is distilled into an input of the transformer; true guidance with a negative prompt is ours on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .card import Card
from .family import Family
from .pictures import Blocks, Pictures
from .row import Configs, latent_width


def _card(index: Mapping[str, Any], config: Configs) -> Card:
    if config("transformer").get("guidance_embeds"):
        licence = "FLUX.1 [dev] Non-Commercial License"
        return Card(name="FLUX.1 dev", licence=licence, steps=28, distilled_guidance=3.5, text_length=512)
    return Card(name="FLUX.1 schnell", licence="Apache-2.0", steps=4, text_length=256)


FAMILY = Family(
    name="flux",
    title="FLUX.1",
    pipelines=("FluxPipeline", "FluxImg2ImgPipeline"),
    output="image",
    components={
        "encode_text": ("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2"),
        "encode_image": ("vae",),
        "denoise": ("transformer", "scheduler"),
        "decode": ("vae",),
    },
    card=_card,
    size_multiple=lambda config: 2 * latent_width(config("vae")),
    takes_mask=True,
)


def _blocks() -> Blocks:
    from diffusers.modular_pipelines.flux.decoders import FluxDecodeStep
    from diffusers.modular_pipelines.flux.encoders import FluxTextEncoderStep, FluxVaeEncoderStep

    from .flux_denoiser import guided_core

    return Blocks(FluxTextEncoderStep, FluxVaeEncoderStep, guided_core, guided_core, FluxDecodeStep)


PICTURES = Pictures(
    title=FAMILY.title,
    blocks=_blocks,
    longest_text=512,
    tokenizer="tokenizer_2",  # T5's: CLIP reads the first 77 tokens and gives one vector
    text_outputs=("prompt_embeds", "pooled_prompt_embeds"),  # 1 S C, 1 C
    distilled="guidance_scale",
)

encode_text, encode_image, denoise, decode = (
    PICTURES.encode_text,
    PICTURES.encode_image,
    PICTURES.denoise,
    PICTURES.decode,
)
