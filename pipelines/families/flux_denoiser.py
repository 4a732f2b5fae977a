"""FLUX's denoiser through a guider: modular FLUX has none, and so knows no negative prompt."""

from typing import Any

import torch
from diffusers.modular_pipelines.flux.denoise import FluxLoopDenoiser
from diffusers.modular_pipelines.flux.modular_blocks_flux import FluxAutoBlocks
from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
from diffusers.modular_pipelines.modular_pipeline_utils import ComponentSpec, InputParam
from torch import Tensor

from ..denoising.blocks import replaced
from ..denoising.guidance import guider_spec


def made() -> ModularPipelineBlocks:
    return replaced(FluxAutoBlocks(), denoiser=GuidedDenoiser())


class GuidedDenoiser(FluxLoopDenoiser):
    """One prediction per branch of the guider. Arithmetic as in FluxPipeline, whose results it gives bit for bit."""

    @property
    def expected_components(self) -> list[ComponentSpec]:
        return [*super().expected_components, guider_spec("guider")]

    @property
    def inputs(self) -> list[Any]:
        names = ("negative_prompt_embeds", "negative_pooled_prompt_embeds")
        return [*super().inputs, *(InputParam(name, type_hint=Tensor) for name in names)]

    @torch.no_grad()
    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> tuple[Any, Any]:
        guider, transformer = components.guider, components.transformer
        guider.set_state(step=i, num_inference_steps=state.num_inference_steps, timestep=t)
        branches = guider.prepare_inputs(
            {
                "text": (state.prompt_embeds, state.negative_prompt_embeds),
                "pooled": (state.pooled_prompt_embeds, state.negative_pooled_prompt_embeds),
            }
        )
        timestep = t.expand(state.latents.shape[0]).to(state.latents.dtype) / 1000
        for branch in branches:
            guider.prepare_models(transformer)
            branch.noise_pred = transformer(
                hidden_states=state.latents,
                timestep=timestep,
                guidance=state.guidance,
                pooled_projections=branch.pooled,
                encoder_hidden_states=branch.text,
                txt_ids=state.txt_ids,
                img_ids=state.img_ids,
                joint_attention_kwargs=state.joint_attention_kwargs,
                return_dict=False,
            )[0]
            guider.cleanup_models(transformer)
        state.noise_pred = guider(branches).pred
        return components, state
