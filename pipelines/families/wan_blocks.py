"""Wan's blocks: a denoiser for one transformer or two experts, and what a model that continues a picture is told of it:
its latents and, in 2.1, what CLIP sees in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from diffusers.models.transformers.transformer_wan import WanTransformer3DModel
from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
from diffusers.modular_pipelines.modular_pipeline_utils import ComponentSpec, InputParam
from diffusers.modular_pipelines.wan.modular_blocks_wan import WanCoreDenoiseStep
from diffusers.modular_pipelines.wan.modular_blocks_wan_i2v import (
    WanFLF2VVaeEncoderStep,
    WanImage2VideoCoreDenoiseStep,
    WanImage2VideoVaeEncoderStep,
)
from PIL import Image
from torch import Tensor

from ..denoising.blocks import assembled, replaced, run
from ..denoising.guidance import guider_spec
from .family import Parts
from .row import check_latents

if TYPE_CHECKING:
    from ..values import Latents

# B videos, F latent frames, C channels, H W latent height and width


LATENTS, CLIP = "image_condition_latents", "image_embeds"


def encode(parts: Parts, *, pixels: Tensor, last: Tensor | None, frames: int) -> dict[str, Tensor]:
    """From pictures B H W C in 0..1, already of the video's size, and as many that the videos end with."""
    height, width = pixels.shape[1:3]
    inputs = {"resized_image": pixels.movedim(-1, 1), "width": width, "height": height, "num_frames": frames}
    if last is not None:
        inputs["resized_last_image"] = last.movedim(-1, 1)
    encoder = _of_first if last is None else _of_both
    found = run(assembled(encoder), parts, inputs=inputs, outputs=(LATENTS,))  # B C F H W
    if "image_encoder" not in parts:
        return found
    seen = [_clip(parts, each) for each in (pixels, last) if each is not None]
    return {**found, CLIP: torch.cat(seen, dim=1)}


def _of_first() -> ModularPipelineBlocks:
    return _without_resizing(WanImage2VideoVaeEncoderStep())


def _of_both() -> ModularPipelineBlocks:
    return _without_resizing(WanFLF2VVaeEncoderStep())


def _without_resizing(block: ModularPipelineBlocks) -> ModularPipelineBlocks:
    """Resizing wants a PIL image, and may change the size that was asked for."""
    for name in {"image_resize", "last_image_resize"} & set(block.sub_blocks):
        del block.sub_blocks[name]
    return block


def side_by_side(told: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What CLIP saw in a first and a last picture, B 2*tokens C, as the transformer takes it: 2*B tokens C."""
    return {**told, CLIP: told[CLIP].unflatten(1, (2, -1)).flatten(0, 1)}


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
        downsampled = parts["vae.config"]["temperal_downsample"]
        factor = 2 ** len(downsampled)
        shape = (
            config.in_channels - config.out_channels,  # which frames are given, and those frames
            (latents.frames - 1) // 2 ** sum(downsampled) + 1,
            latents.height // factor,
            latents.width // factor,
        )
        check_latents(extras[LATENTS], shape, title="Wan")
    if config.pos_embed_seq_len and extras[CLIP].shape[1] != config.pos_embed_seq_len:
        raise ValueError(
            "this Wan model makes videos from a first to a last picture, but got one picture; encode both with it"
        )
    return {name: extras[name] for name in needed}


# ---- The denoiser. Diffusers' blocks have one for each of these cases. All of them round the timestep to the
# transformer's number format (in bf16, 999 becomes 1000), which WanPipeline does not: after 20 steps of a tiny model
# their result is 6.6 times further from the fp32 one than ours is. In fp32 all are the same, bit for bit.


def from_text() -> ModularPipelineBlocks:
    """Wan's blocks from noise to latents, with the denoiser below."""
    return replaced(WanCoreDenoiseStep(), denoiser=ExpertDenoiser())


def from_frame() -> ModularPipelineBlocks:
    """Those that are told of a first frame."""
    return replaced(WanImage2VideoCoreDenoiseStep(), denoiser=ExpertDenoiser())


class ExpertDenoiser(ModularPipelineBlocks):
    """One prediction per branch of the guider: `transformer` from timestep `boundary` up, `transformer_2` below it."""

    model_name = "wan"

    @property
    def expected_components(self) -> list[ComponentSpec]:
        experts = [ComponentSpec(name, WanTransformer3DModel) for name in ("transformer", "transformer_2")]
        return [*experts, guider_spec("guider"), guider_spec("guider_2")]

    @property
    def inputs(self) -> list[Any]:
        names = ("num_inference_steps", "prompt_embeds", "negative_prompt_embeds", "image_embeds", "boundary")
        return [InputParam(name) for name in names]

    @torch.no_grad()
    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> tuple[Any, Any]:
        if i == 0:  # once, because each look at a timestep waits for the device
            state.are_high = (state.timesteps >= state.boundary).tolist()
        is_high = state.are_high[i]
        transformer = components.transformer if is_high else components.transformer_2
        guider = components.guider if is_high else components.guider_2
        guider.set_state(step=i, num_inference_steps=state.num_inference_steps, timestep=t)
        branches = guider.prepare_inputs({"text": (state.prompt_embeds, state.negative_prompt_embeds)})
        for branch in branches:
            guider.prepare_models(transformer)
            branch.noise_pred = transformer(
                hidden_states=state.latent_model_input,
                timestep=t.expand(state.latents.shape[0]),
                encoder_hidden_states=branch.text,
                encoder_hidden_states_image=state.image_embeds,
                return_dict=False,
            )[0]
            guider.cleanup_models(transformer)
        state.noise_pred = guider(branches).pred
        return components, state
