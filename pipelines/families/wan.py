"""Wan 2.1 and 2.2: videos from text, or from text and a first frame; 2.2 has two experts, for high and low noise."""

# B videos, F latent frames, C channels, H W latent height and width

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...parallel.errors import BadInput
from .family import Card, Family, OnStep, Parts
from .row import Configs, check_channels, check_text, latent_width, repeated, warn_if_cut

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from ..requests import Decode, Denoise, EncodeImage, EncodeText

LONGEST_TEXT = 512
FRAMES_PER_LATENT = 4
PATCH = (1, 2, 2)
FROM_IMAGE = "WanImageToVideoPipeline"
# The second expert's guidance as a share of the first's; Wan 2.2 was published with 4.0 and 3.0, and 3.5 and 3.5.
SECOND_GUIDANCE = {"WanPipeline": 0.75, FROM_IMAGE: 1.0}

# What the makers of Wan steer away from, in diffusers' translation.
NEGATIVE_PROMPT = (
    "bright tones, overexposed, static, blurred details, subtitles, style, works, paintings, images, overall gray, "
    "worst quality, low quality, JPEG compression residue, ugly, incomplete, extra fingers, poorly drawn hands, "
    "poorly drawn faces, deformed, disfigured, misshapen limbs, fused fingers, still picture, messy background, "
    "three legs, many people in the background, walking backwards"
)


def _card(index: Mapping[str, Any], config: Configs) -> Card:
    _check_index(index)
    has_experts = index.get("boundary_ratio") is not None
    has_image = index["_class_name"] == FROM_IMAGE
    needs_last = has_image and _last_images(config) == (1, 1)
    told = "first and last frame" if needs_last else "image" if has_image else "text"
    return Card(
        name=f"Wan {'2.2' if has_experts else '2.1'} {told} to video",
        licence="Apache-2.0",
        width=1280 if needs_last else 832,
        height=720 if needs_last else 480,
        frames=81,
        fps=16.0,
        steps=40 if has_experts else 50,
        guidance=5.5 if needs_last else 5.0 if not has_experts else 3.5 if has_image else 4.0,
        second_guidance=SECOND_GUIDANCE[index["_class_name"]] if has_experts else 0.0,
        text_length=LONGEST_TEXT,
        negative_prompt=NEGATIVE_PROMPT,
    )


def _check_index(index: Mapping[str, Any]) -> None:
    ratio = index.get("boundary_ratio")
    if ratio is not None and not (isinstance(ratio, float) and 0 < ratio < 1):
        raise ValueError(
            f"model_index.json has boundary_ratio {str(ratio)[:50]}, which is no share of the noise between 0 and 1; "
            "copy the model again"
        )
    if ratio is not None and None in (index.get("transformer_2") or [None]):
        raise ValueError(
            f"model_index.json has boundary_ratio {ratio:g} but no transformer_2, the expert for low noise; "
            "copy the model again"
        )
    if index.get("expand_timesteps"):
        raise ValueError(
            "this is Wan 2.2 TI2V 5B (expand_timesteps), which is not supported yet; "
            "use a Wan 2.1 model or one of the Wan 2.2 A14B models"
        )


def _last_images(config: Configs) -> tuple[int, int]:
    """One of 2.2, and of 2.1 of the model that sees two pictures, which needs it (FLF2V)."""
    transformer = config("transformer")
    if transformer.get("pos_embed_seq_len"):
        return 1, 1
    is_told = transformer.get("in_channels", 0) > transformer.get("out_channels", 0)
    return 0, int(is_told and transformer.get("image_dim") is None)


FAMILY = Family(
    name="wan",
    title="Wan",
    pipelines=("WanPipeline", FROM_IMAGE),
    output="video",
    components={
        "encode_text": ("tokenizer", "text_encoder"),
        "encode_image": ("vae", "image_encoder?", "image_processor?"),
        "denoise": ("transformer", "transformer_2?", "scheduler"),
        "decode": ("vae",),
    },
    card=_card,
    size_multiple=lambda config: config("transformer").get("patch_size", PATCH)[1] * latent_width(config("vae")),
    frame_multiple=FRAMES_PER_LATENT,
    takes_image="first_frame",
    last_images=_last_images,
)


def encode_text(parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Padded with zeros to `text_length` tokens."""
    text_length = request.text_length
    if not 1 <= text_length <= LONGEST_TEXT:
        raise BadInput("text length {}: {} reads from 1 to {} tokens", text_length, FAMILY.title, LONGEST_TEXT)
    return _encode(parts, request.prompt, text_length), _encode(parts, request.negative_prompt, text_length)


def _encode(parts: Parts, prompt: str, text_length: int) -> dict[str, Tensor]:
    # Not the block: with guidance off it fails (UnboundLocalError, diffusers 0.42.1).
    import torch
    from diffusers.modular_pipelines.wan.encoders import get_t5_prompt_embeds

    warn_if_cut(parts["tokenizer"], prompt, text_length=text_length)
    encoder = parts["text_encoder"]
    with torch.no_grad():
        embeds = get_t5_prompt_embeds(encoder, parts["tokenizer"], prompt, text_length, encoder.device)
    return {"prompt_embeds": embeds}  # 1 S C


def encode_image(parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
    """What the model is told of the first frame, and of the last: the most likely latents, which depend on no seed."""
    from .wan_blocks import encode

    if parts["model_index"]["_class_name"] != FROM_IMAGE:
        raise ValueError(
            "this Wan model makes videos from text only, but got a picture; "
            "take the picture away, or choose an image-to-video (I2V) model"
        )
    first = request.image.pixels
    last = None if request.last_image is None else request.last_image.pixels.to(first)
    return None, encode(parts, pixels=first, last=last, frames=request.frames)


def denoise(parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep) -> Tensor:
    from ..denoising.blocks import assembled, run
    from ..denoising.guidance import guider
    from ..denoising.schedulers import choose
    from .wan_blocks import from_frame, from_text, given, side_by_side

    check_text(request.conditioning.positive["prompt_embeds"], parts["transformer"].config.text_dim, title=FAMILY.title)
    latents = request.latents
    scheduler = choose(parts["scheduler"], request.sampling)
    first_frame = given(parts, latents)
    told = repeated(first_frame, len(generators))
    guiders = {
        "guider": guider(request.guidance, request.sampling, order=scheduler.order),
        "guider_2": guider(request.guidance_2, request.sampling, order=scheduler.order),
    }
    # The timestep below which the second expert takes over; 0 of a model with one transformer.
    ratio = parts["model_index"].get("boundary_ratio") or 0.0
    inputs = {
        **repeated(request.conditioning.positive, len(generators)),
        **(side_by_side(told) if parts["transformer"].config.pos_embed_seq_len else told),
        "height": latents.height,
        "width": latents.width,
        "num_frames": latents.frames,
        "num_inference_steps": request.steps,
        "generator": generators,
        "boundary": parts["scheduler"].config.num_train_timesteps * ratio,
    }
    if request.conditioning.negative is not None:
        negative = repeated(request.conditioning.negative, len(generators))
        inputs |= {f"negative_{name}": tensor for name, tensor in negative.items()}
    return run(
        assembled(from_frame if first_frame else from_text),
        {**parts, **guiders, "scheduler": scheduler},
        inputs=inputs,
        outputs=("latents",),  # B C F H W
        on_step=on_step,
    )["latents"]


def decode(parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
    from diffusers.modular_pipelines.wan.decoders import WanVaeDecoderStep

    from ..denoising.blocks import assembled, run

    check_channels(tensor, parts["vae"].config.z_dim, title=FAMILY.title)
    inputs = {"latents": tensor, "output_type": "pt"}
    found = run(assembled(WanVaeDecoderStep), parts, inputs=inputs, outputs=("videos",))
    return found["videos"].movedim(2, -1)  # B F H W C
