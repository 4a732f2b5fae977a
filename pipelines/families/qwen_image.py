"""Qwen-Image: pictures from text or from a picture, with true guidance against a negative prompt."""

# B pictures, S text tokens, C channels, H W latent height and width

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .card import Card
from .checks import check_channels, check_latents, check_text, check_text_length, repeated
from .family import Family, OnStep, Parts

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from ..requests import Decode, Denoise, EncodeImage, EncodeText

Configs = Callable[[str], Mapping[str, Any]]
LONGEST_TEXT = 1024
PACKED = 2
"""The transformer sees squares of 2 x 2 latents."""


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


def _factor(vae: Mapping[str, Any]) -> int:
    """Pixels that a latent is wide."""
    return 2 ** len(vae["temperal_downsample"])


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
    size_multiple=lambda config: PACKED * _factor(config("vae")),
    takes_mask=True,
)


def encode_text(parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The prompt is cut at `text_length` tokens and never padded."""
    text_length = request.text_length
    check_text_length(text_length, title=FAMILY.title, longest=LONGEST_TEXT)
    return _encode(parts, request.prompt, text_length), _encode(parts, request.negative_prompt, text_length)


def _encode(parts: Parts, prompt: str, text_length: int) -> dict[str, Tensor]:
    from diffusers.modular_pipelines.qwenimage.encoders import QwenImageTextEncoderStep

    from ..denoising.blocks import assembled, run
    from ..denoising.guidance import guider
    from ..values import Sampling
    from .prompt import warn_if_cut

    warn_if_cut(parts["tokenizer"], prompt, text_length=text_length)
    return run(
        assembled(QwenImageTextEncoderStep),
        {**parts, "guider": guider(1.0, Sampling())},  # off: one prompt a call
        inputs={"prompt": prompt, "max_sequence_length": text_length},
        outputs=("prompt_embeds", "prompt_embeds_mask"),  # 1 S C, 1 S
    )


def encode_image(parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The most likely latents, so they depend on no seed."""
    from diffusers.modular_pipelines.qwenimage.encoders import QwenImageVaeEncoderStep

    from ..denoising.blocks import assembled, run

    picture = 2.0 * request.image.pixels.movedim(-1, 1) - 1.0  # B C H W in -1..1
    inputs = {"processed_image": picture}
    found = run(assembled(QwenImageVaeEncoderStep), parts, inputs=inputs, outputs=("image_latents",))
    return found["image_latents"].squeeze(2), {}  # B C H W


def denoise(parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep) -> Tensor:
    from diffusers.modular_pipelines.qwenimage.modular_blocks_qwenimage import (
        QwenImageCoreDenoiseStep,
        QwenImageImg2ImgCoreDenoiseStep,
    )

    from ..denoising.blocks import run
    from ..denoising.guidance import guider, is_guided
    from ..denoising.masked import masked
    from ..denoising.schedulers import choose
    from ..denoising.text_mask import unmasked

    text_width = parts["transformer"].config.joint_attention_dim
    check_text(request.conditioning.positive["prompt_embeds"], text_width, title=FAMILY.title)
    latents = request.latents
    scheduler = choose(parts["scheduler"], request.sampling)
    inputs = {
        **repeated(request.conditioning.positive, len(generators)),
        "height": latents.height,
        "width": latents.width,
        "num_inference_steps": request.steps,
        "generator": generators,
    }
    if is_guided(request.guidance) and request.conditioning.negative is not None:
        negative = repeated(request.conditioning.negative, len(generators))
        inputs |= {f"negative_{name}": tensor for name, tensor in negative.items()}
    rows, columns = (side // _factor(parts["vae.config"]) for side in (latents.height, latents.width))
    shape = (parts["transformer"].config.in_channels // PACKED**2, rows, columns)
    if latents.tensor is not None:
        check_latents(latents.tensor, shape, title=FAMILY.title)
        inputs |= {"image_latents": latents.tensor, "strength": request.strength}
    make = QwenImageCoreDenoiseStep if latents.tensor is None else QwenImageImg2ImgCoreDenoiseStep
    blocks, mask = masked(make, request.mask, shape, patch=PACKED)
    guide = guider(request.guidance, request.sampling, order=scheduler.order)
    with unmasked(parts["transformer"], "encoder_hidden_states_mask", inputs):
        return run(
            blocks,
            {**parts, "scheduler": scheduler, "guider": guide},
            inputs={**inputs, **mask},
            outputs=("latents",),  # B C 1 H W
            on_step=on_step,
            unpack=lambda packed: _unpack(packed, rows, columns),
        )["latents"].squeeze(2)


def decode(parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
    from diffusers.modular_pipelines.qwenimage.modular_blocks_qwenimage import QwenImageDecodeStep

    from ..denoising.blocks import assembled, run

    check_channels(tensor, parts["vae"].config.z_dim, title=FAMILY.title)
    inputs = {"latents": tensor.unsqueeze(2), "output_type": "pt"}  # B C 1 H W: a video of one frame
    return run(assembled(QwenImageDecodeStep), parts, inputs=inputs, outputs=("images",))["images"].movedim(
        1, -1
    )  # B H W C


def _unpack(packed: Tensor, rows: int, columns: int) -> Tensor:
    """From B tokens C*4, one token for 2 x 2 latents, to B C H W."""
    grid = packed.unflatten(1, (rows // 2, columns // 2)).unflatten(3, (-1, 2, 2))  # B H/2 W/2 C 2 2
    return grid.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)  # B C H W
