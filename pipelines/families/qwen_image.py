"""Qwen-Image: pictures from text or from a picture, with true guidance against a negative prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .card import Card
from .family import Family
from .pictures import Blocks, Pictures
from .row import Configs, latent_width

LONGEST_TEXT = 1024


def _card(index: Mapping[str, Any], config: Configs) -> Card:
    return Card(
        name="Qwen-Image",
        licence="Apache-2.0",
        width=1328,
        height=1328,
        steps=50,
        guidance=4.0,
        text_length=LONGEST_TEXT,
        negative_prompt=" ",
    )


FAMILY = Family(
    name="qwen_image",
    title="Qwen-Image",
    pipelines=("QwenImagePipeline", "QwenImageImg2ImgPipeline"),
    output="image",
    components={
        "encode_text": ("tokenizer", "text_encoder"),
        "encode_image": ("vae",),
        "denoise": ("transformer", "scheduler"),
        "decode": ("vae",),
    },
    card=_card,
    size_multiple=lambda config: 2 * latent_width(config("vae")),
    takes_mask=True,
)


def _blocks() -> Blocks:
    from diffusers.modular_pipelines.qwenimage.encoders import QwenImageTextEncoderStep, QwenImageVaeEncoderStep
    from diffusers.modular_pipelines.qwenimage.modular_blocks_qwenimage import (
        QwenImageCoreDenoiseStep,
        QwenImageDecodeStep,
        QwenImageImg2ImgCoreDenoiseStep,
    )

    return Blocks(
        QwenImageTextEncoderStep,
        QwenImageVaeEncoderStep,
        QwenImageCoreDenoiseStep,
        QwenImageImg2ImgCoreDenoiseStep,
        QwenImageDecodeStep,
    )


PICTURES = Pictures(
    title=FAMILY.title,
    blocks=_blocks,
    longest_text=LONGEST_TEXT,
    tokenizer="tokenizer",  # the prompt is cut at `text_length` tokens and never padded
    text_outputs=("prompt_embeds", "prompt_embeds_mask"),  # 1 S C, 1 S
    text_mask="encoder_hidden_states_mask",
    draws_picture=False,
)

encode_text, encode_image, denoise, decode = (
    PICTURES.encode_text,
    PICTURES.encode_image,
    PICTURES.denoise,
    PICTURES.decode,
)
