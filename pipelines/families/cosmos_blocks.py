"""Cosmos 3's blocks: those of diffusers that make pictures, videos and sounds, with a denoiser through a guider, and
pixels of several videos at once.
"""

# B videos, F frames, C channels, H W height and width, N numbers of all that is predicted

import inspect
from typing import Any

import torch
from diffusers.configuration_utils import FrozenDict
from diffusers.models.transformers.transformer_cosmos3 import Cosmos3OmniTransformer
from diffusers.modular_pipelines.cosmos.decoders import Cosmos3VideoDecodeStep
from diffusers.modular_pipelines.cosmos.denoise import Cosmos3LoopDenoiser
from diffusers.modular_pipelines.cosmos.modular_blocks_cosmos3 import Cosmos3OmniBlocks
from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
from diffusers.modular_pipelines.modular_pipeline_utils import ComponentSpec, InputParam
from diffusers.video_processor import VideoProcessor
from torch import Tensor

from ..denoising.blocks import replaced
from ..denoising.guidance import guider_spec

# Of blocks that choose by what they are given, those without control videos and robots' actions.
BRANCHES = {"text_encoder": "text", "vae_encoder": "image_conditioning", "decode": "standard"}
TAKEN = frozenset(inspect.signature(Cosmos3OmniTransformer.forward).parameters)


def made() -> ModularPipelineBlocks:
    blocks = replaced(Cosmos3OmniBlocks(), denoiser=_GuidedDenoiser())
    of = blocks.sub_blocks
    for name, branch in BRANCHES.items():
        of[name] = of[name].sub_blocks[branch]
    for branch in set(of["denoise"].sub_blocks) - {"vision", "vision_sound"}:
        del of["denoise"].sub_blocks[branch]
    of["decode"].sub_blocks["video"] = _Decode()
    del of["after_decode"]
    return blocks


class _GuidedDenoiser(Cosmos3LoopDenoiser):
    """A prediction per branch of the guider, of video and sound in one row; bit for bit as in Cosmos3OmniPipeline."""

    @property
    def expected_components(self) -> list[ComponentSpec]:
        return [*super().expected_components, guider_spec("guider")]

    @property
    def inputs(self) -> list[InputParam]:
        return [InputParam.template("denoiser_input_fields")]

    @torch.no_grad()
    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> tuple[Any, Any]:
        guider, transformer, known = components.guider, components.transformer, state.as_dict()
        guider.set_state(step=i, num_inference_steps=state.num_inference_steps, timestep=t)
        fixed = [known[name].mT for name in ("vision_condition_mask", "sound_condition_mask") if name in known]
        branches = guider.prepare_inputs({"given": (_given(known, "cond_"), _given(known, "uncond_"))})
        for branch in branches:
            guider.prepare_models(transformer)
            shown, heard, _ = transformer(**branch.given, return_dict=False)
            both = [each[0] * (1.0 - mask) for each, mask in zip((shown, heard), fixed, strict=False)]
            branch.noise_pred = torch.cat([each.float().flatten() for each in both])[None]  # 1 N
            guider.cleanup_models(transformer)
        sizes = [known[name].numel() for name in ("latents", "sound_latents") if name in known]
        predicted = guider(branches).pred[0].split(sizes)
        state.velocity_vision = state.noise_pred = predicted[0].view(state.latents.shape)  # 1 C F H W
        state.velocity_sound = predicted[1].view(state.sound_latents.shape) if len(predicted) > 1 else None  # C F
        state.velocity_action = None
        return components, state


def _given(known: dict[str, Any], branch: str) -> dict[str, Any]:
    """What the transformer takes in one branch: what was packed for that, and what a step brings for both."""
    found = dict(known)
    for name, value in known["denoiser_input_fields"].items():
        if name.startswith(branch):
            own = name.removeprefix(branch)
            found |= value if own.endswith("_segment") else {own: value}
    return {name: value for name, value in found.items() if name in TAKEN}


class _AllVideos(VideoProcessor):
    """Of a batch diffusers' block keeps the first video: here that is all of them."""

    def postprocess_video(self, video: Tensor, output_type: str = "np", **how: Any) -> Any:
        return [super().postprocess_video(video, output_type, **how)]  # 1 B F C H W


class _Decode(Cosmos3VideoDecodeStep):
    @property
    def expected_components(self) -> list[ComponentSpec]:
        vae, processor = super().expected_components
        config = FrozenDict({"vae_scale_factor": 16})
        return [vae, ComponentSpec(processor.name, _AllVideos, config=config, default_creation_method="from_config")]
