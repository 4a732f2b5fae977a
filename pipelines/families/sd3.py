"""Stable Diffusion 3 and 3.5 (medium, large): pictures from text or from a picture, with true guidance."""

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
LICENCE = "Stability AI Community License"
LONGEST_TEXT = 512
TEXT_OUTPUTS = ("prompt_embeds", "pooled_prompt_embeds")
"""The first 77 rows of prompt_embeds are CLIP's, the rest T5's."""


def _card(index: Mapping[str, Any], config: Configs) -> Card:
    transformer = config("transformer")
    name, steps, guidance = "Stable Diffusion 3 medium", 28, 7.0
    if transformer.get("dual_attention_layers"):
        name, steps, guidance = "Stable Diffusion 3.5 medium", 40, 4.5
    elif transformer.get("num_layers", 0) >= 38:
        name, steps, guidance = "Stable Diffusion 3.5 large", 28, 3.5
    return Card(name=name, licence=LICENCE, steps=steps, guidance=guidance, text_length=256)


def _factor(vae: Mapping[str, Any]) -> int:
    """Pixels that a latent is wide."""
    return 2 ** (len(vae["block_out_channels"]) - 1)


FAMILY = Family(
    name="sd3",
    title="Stable Diffusion 3",
    pipelines=("StableDiffusion3Pipeline", "StableDiffusion3Img2ImgPipeline"),
    output="image",
    components={
        "encode_text": (
            "tokenizer",
            "text_encoder",
            "tokenizer_2",
            "text_encoder_2",
            "tokenizer_3?",
            "text_encoder_3?",
        ),
        "encode_image": ("vae",),
        "denoise": ("transformer", "scheduler"),
        "decode": ("vae",),
    },
    card=_card,
    size_multiple=lambda config: _factor(config("vae")) * int(config("transformer").get("patch_size", 2)),
    takes_mask=True,
)


def encode_text(parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Two CLIPs read the first 77 tokens, T5 reads `text_length`; a model may come without T5."""
    text_length = request.text_length
    check_text_length(text_length, title=FAMILY.title, longest=LONGEST_TEXT)
    return _encode(parts, request.prompt, text_length), _encode(parts, request.negative_prompt, text_length)


def _encode(parts: Parts, prompt: str, text_length: int) -> dict[str, Tensor]:
    from diffusers.modular_pipelines.stable_diffusion_3.encoders import StableDiffusion3TextEncoderStep

    from ..denoising.blocks import assembled, run
    from .prompt import warn_if_cut

    if "tokenizer_3" in parts:
        warn_if_cut(parts["tokenizer_3"], prompt, text_length=text_length)
    inputs = {"prompt": prompt, "max_sequence_length": text_length}
    block = assembled(StableDiffusion3TextEncoderStep)
    return run(block, parts, inputs=inputs, outputs=TEXT_OUTPUTS)  # 1 77+S C, 1 C


def encode_image(parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
    from diffusers.modular_pipelines.stable_diffusion_3.encoders import StableDiffusion3VaeEncoderStep

    from ..denoising.blocks import assembled, run
    from ..denoising.noise import generators, seeds_of

    picture = 2.0 * request.image.pixels.movedim(-1, 1) - 1.0  # B C H W in -1..1
    noise = generators(seeds_of(request.seed, len(picture)), request.noise)
    inputs = {"processed_image": picture, "generator": noise}
    found = run(assembled(StableDiffusion3VaeEncoderStep), parts, inputs=inputs, outputs=("image_latents",))
    return found["image_latents"], {}


def denoise(parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep) -> Tensor:
    from diffusers.modular_pipelines.stable_diffusion_3.modular_blocks_stable_diffusion_3 import (
        StableDiffusion3AutoCoreDenoiseStep,
    )

    from ..denoising.blocks import run
    from ..denoising.guidance import guider, is_guided
    from ..denoising.masked import masked
    from ..denoising.schedulers import choose

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
    shape = (parts["transformer"].config.in_channels, rows, columns)
    if latents.tensor is not None:
        check_latents(latents.tensor, shape, title=FAMILY.title)
        inputs |= {"image_latents": latents.tensor, "strength": request.strength}
    blocks, mask = masked(StableDiffusion3AutoCoreDenoiseStep, request.mask, shape)
    return run(
        blocks,
        {**parts, "scheduler": scheduler, "guider": guider(request.guidance, request.sampling, order=scheduler.order)},
        inputs={**inputs, **mask},
        outputs=("latents",),
        on_step=on_step,
    )["latents"]


def decode(parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
    from diffusers.modular_pipelines.stable_diffusion_3.decoders import StableDiffusion3DecodeStep

    from ..denoising.blocks import assembled, run

    check_channels(tensor, parts["vae"].config.latent_channels, title=FAMILY.title)
    inputs = {"latents": tensor, "output_type": "pt"}
    found = run(assembled(StableDiffusion3DecodeStep), parts, inputs=inputs, outputs=("images",))
    return found["images"].movedim(1, -1)
