"""FLUX.1 (dev, schnell, and the built-in bobbin): pictures from text or from a picture.

Its own guidance is distilled into an input of the transformer; true guidance with a negative prompt is ours on top.
"""

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
LONGEST_TEXT = 512
PACKED = 2
"""The transformer sees squares of 2 x 2 latents."""


def _card(index: Mapping[str, Any], config: Configs) -> Card:
    if config("transformer").get("guidance_embeds"):
        licence = "FLUX.1 [dev] Non-Commercial License"
        return Card(name="FLUX.1 dev", licence=licence, steps=28, distilled_guidance=3.5, text_length=512)
    return Card(name="FLUX.1 schnell", licence="Apache-2.0", steps=4, text_length=256)


def _factor(vae: Mapping[str, Any]) -> int:
    """Pixels that a latent is wide."""
    return 2 ** (len(vae["block_out_channels"]) - 1)


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
    size_multiple=lambda config: PACKED * _factor(config("vae")),
    takes_mask=True,
)


def encode_text(parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """T5 reads `text_length` tokens; CLIP reads the first 77 and gives one vector."""
    text_length = request.text_length
    check_text_length(text_length, title=FAMILY.title, longest=LONGEST_TEXT)
    return _encode(parts, request.prompt, text_length), _encode(parts, request.negative_prompt, text_length)


def _encode(parts: Parts, prompt: str, text_length: int) -> dict[str, Tensor]:
    from diffusers.modular_pipelines.flux.encoders import FluxTextEncoderStep

    from ..denoising.blocks import assembled, run
    from .prompt import warn_if_cut

    warn_if_cut(parts["tokenizer_2"], prompt, text_length=text_length)
    return run(
        assembled(FluxTextEncoderStep),
        parts,
        inputs={"prompt": prompt, "max_sequence_length": text_length},
        outputs=("prompt_embeds", "pooled_prompt_embeds"),  # 1 S C, 1 C
    )


def encode_image(parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
    from diffusers.modular_pipelines.flux.encoders import FluxVaeEncoderStep

    from ..denoising.blocks import assembled, run
    from ..denoising.noise import generators, seeds_of

    picture = 2.0 * request.image.pixels.movedim(-1, 1) - 1.0  # B C H W in -1..1
    noise = generators(seeds_of(request.seed, len(picture)), request.noise)
    inputs = {"processed_image": picture, "generator": noise}
    found = run(assembled(FluxVaeEncoderStep), parts, inputs=inputs, outputs=("image_latents",))
    return found["image_latents"], {}


def denoise(parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep) -> Tensor:
    from ..denoising.blocks import run
    from ..denoising.guidance import guider, is_guided
    from ..denoising.masked import masked
    from ..denoising.schedulers import choose
    from .flux_denoiser import guided_core, unpack

    text_width = parts["transformer"].config.joint_attention_dim
    check_text(request.conditioning.positive["prompt_embeds"], text_width, title=FAMILY.title)
    latents = request.latents
    scheduler = choose(parts["scheduler"], request.sampling)
    positive = request.conditioning.positive
    inputs = {
        **(positive if len(generators) == 1 else repeated(positive, len(generators))),  # blocks make it their own
        "height": latents.height,
        "width": latents.width,
        "num_inference_steps": request.steps,
        "guidance_scale": request.distilled_guidance,
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
    blocks, mask = masked(guided_core, request.mask, shape, patch=PACKED)
    return run(
        blocks,
        {**parts, "scheduler": scheduler, "guider": guider(request.guidance, request.sampling, order=scheduler.order)},
        inputs={**inputs, **mask},
        outputs=("latents",),
        on_step=on_step,
        unpack=lambda packed: unpack(packed, rows, columns),
    )["latents"]


def decode(parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
    from diffusers.modular_pipelines.flux.decoders import FluxDecodeStep

    from ..denoising.blocks import assembled, run

    check_channels(tensor, parts["vae"].config.latent_channels, title=FAMILY.title)
    inputs = {"latents": tensor, "output_type": "pt"}
    return run(assembled(FluxDecodeStep), parts, inputs=inputs, outputs=("images",))["images"].movedim(1, -1)  # B H W C
