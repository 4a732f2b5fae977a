"""HunyuanVideo 1.5's blocks from a first frame. Diffusers' own overwrite what SigLIP sees in it with zeros (0.42.1)."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.modular_pipelines.hunyuan_video1_5 import modular_blocks_hunyuan_video1_5 as modular
from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
from diffusers.modular_pipelines.modular_pipeline_utils import ComponentSpec, InputParam, OutputParam
from torch.nn.functional import pad

from ..values import as_bytes
from .row import picture

# B videos, F latent frames, C channels, H W latent height and width

TOLD = ("image_latents", "image_embeds")


def made() -> ModularPipelineBlocks:
    block = modular.HunyuanVideo15Image2VideoBlocks()
    del block.sub_blocks["image_encoder"]
    block.sub_blocks["vae_encoder"] = PictureEncoder()
    del block.sub_blocks["denoise"].sub_blocks["prepare_i2v_latents"]
    block.sub_blocks["denoise"].sub_blocks["prepare_latents"] = FirstFrame()
    return block


class PictureEncoder(ModularPipelineBlocks):
    """The most likely latents of pictures B C H W in 0..1, and what SigLIP sees in them."""

    @property
    def expected_components(self) -> list[ComponentSpec]:
        steps = (modular.HunyuanVideo15VaeEncoderStep(), modular.HunyuanVideo15ImageEncoderStep())
        return [each for step in steps for each in step.expected_components]

    @property
    def inputs(self) -> list[InputParam]:
        return [InputParam("image", required=True)]

    @property
    def intermediate_outputs(self) -> list[OutputParam]:
        return [OutputParam(name) for name in TOLD]

    @torch.no_grad()
    def __call__(self, components: Any, state: Any) -> tuple[Any, Any]:
        pixels, vae, encoder = state.get("image"), components.vae, components.image_encoder
        clips = (2 * pixels - 1).to(vae.dtype).unsqueeze(2).split(1)  # its mask is for one video
        latents = torch.cat([vae.encode(clip).latent_dist.mode() for clip in clips])
        state.set(TOLD[0], latents * vae.config.scaling_factor)  # B C 1 H W
        shown = [picture(each) for each in as_bytes(pixels.movedim(1, -1))]
        taken = components.feature_extractor.preprocess(images=shown, do_resize=True, return_tensors="pt")
        state.set(TOLD[1], encoder(**taken.to(encoder.device, encoder.dtype)).last_hidden_state)  # B tokens C
        return components, state


class FirstFrame(modular.HunyuanVideo15PrepareLatentsStep):
    """Noise, the latents of a picture for each video where its first frame is, and a mask that says so."""

    @property
    def inputs(self) -> list[InputParam]:
        return [*super().inputs, *(InputParam(name, required=True) for name in TOLD)]

    def __call__(self, components: Any, state: Any) -> tuple[Any, Any]:
        first, seen = (state.get(name) for name in TOLD)
        components, state = super().__call__(components, state)
        latents: Any = state.get("latents")  # B C F H W
        first, later = first.to(latents), (0, 0, 0, 0, 0, latents.shape[2] - 1)
        state.set("cond_latents_concat", pad(first, later))
        state.set("mask_concat", pad(torch.ones_like(first[:, :1]), later))
        state.set(TOLD[1], seen.to(latents))
        return components, state
