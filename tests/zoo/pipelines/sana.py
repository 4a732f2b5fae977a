"""Sana: pictures, Sprint, ControlNet, video, and a world that a camera walks through."""

from typing import Any

import diffusers
import transformers
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors

from support.tiny_parts import euler, language
from support.tiny_tokenizers import qwen_tokenizer
from zoo import cross, video
from zoo.cases import Case, noise, tiny_transformer
from zoo.pipelines.ltx import gemma3, video_vae
from zoo.pipelines.tiny import NO_ROWS, PROMPT, REPLACED, Tiny, picture, table


def sana(kind: Any, **more: Any) -> Any:
    return kind(**gemma(8), vae=_image_vae(), transformer=tiny_transformer(cross.sana), scheduler=euler(), **more)


def controlnet(kind: Any) -> Any:
    """The net has one block, whose residual the second block of the transformer takes."""
    _, config, _ = cross.sana(Case("tiny", heads=3))
    return sana(kind, controlnet=diffusers.SanaControlNetModel(**{**config, "num_layers": 1}))


def sprint(kind: Any) -> Any:
    transformer = tiny_transformer(cross.sana_sprint, sample_size=32)
    return kind(**gemma(8), vae=_image_vae(), transformer=transformer, scheduler=diffusers.SCMScheduler())


def to_video(kind: Any) -> Any:
    """With the VAE of LTX-2, as its 720p model."""
    transformer = tiny_transformer(cross.sana_video, patch_size=(1, 1, 1))
    return kind(**gemma(8), vae=video_vae(4), transformer=transformer, scheduler=euler())


def world(kind: Any) -> Any:
    """Two layers of each kind of attention, left in fp32 where the model asks for bf16."""
    transformer = tiny_transformer(cross.sana_wm, num_layers=4, chunk_plucker_channels=48)
    return kind(**gemma(16), vae=video_vae(4), transformer=transformer, scheduler=euler())


def refiner(kind: Any) -> Any:
    """LTX-2 without its sound."""
    tokenizer = qwen_tokenizer()
    connectors = LTX2TextConnectors(
        caption_channels=16,
        text_proj_in_factor=3,
        video_connector_num_attention_heads=4,
        video_connector_attention_head_dim=4,
        video_connector_num_layers=1,
        video_connector_num_learnable_registers=None,
        audio_connector_num_attention_heads=4,
        audio_connector_attention_head_dim=4,
        audio_connector_num_layers=1,
        audio_connector_num_learnable_registers=None,
        connector_rope_base_seq_len=31,
        rope_double_precision=False,
    )
    return kind(
        transformer=tiny_transformer(video.sana_wm_refiner),
        connectors=connectors,
        tokenizer=tokenizer,
        text_encoder=gemma3(tokenizer),
        scheduler=euler(shift=1.0),
        vae=video_vae(4),
        text_max_sequence_length=31,
    )


def gemma(width: int) -> dict[str, Any]:
    tokenizer = qwen_tokenizer()
    sizes = {"intermediate_size": 32, "head_dim": 4, "pad_token_id": tokenizer.pad_token_id}
    config = transformers.Gemma2Config(**language(tokenizer, width=width) | sizes)
    return {"tokenizer": tokenizer, "text_encoder": transformers.Gemma2Model(config)}


def _image_vae() -> diffusers.AutoencoderDC:
    """Six levels: 32 pixels a latent."""
    kinds, scales = ("ResBlock",) * 5 + ("EfficientViTBlock",), ((),) * 5 + ((5,),)
    coders: dict[str, Any] = {}
    for name in ("encoder", "decoder"):
        coders[f"{name}_block_types"], coders[f"{name}_qkv_multiscales"] = kinds, scales
        coders[f"{name}_block_out_channels"], coders[f"{name}_layers_per_block"] = (8,) * 6, (1,) * 6
    return diffusers.AutoencoderDC(
        in_channels=3, latent_channels=4, attention_head_dim=2, **coders, scaling_factor=0.41407
    )


# Three by five tokens, and 31 of text.
TEXT: dict[str, Any] = {
    "prompt": PROMPT,
    "height": 96,
    "width": 160,
    "num_inference_steps": 4,
    "guidance_scale": 3.0,
    "max_sequence_length": 31,
}
PLAIN = {"complex_human_instruction": None, "use_resolution_binning": False}
GUIDED = {**TEXT, **PLAIN, "negative_prompt": "bad"}  # two branches, in a doubled batch
SPRINT = {**TEXT, **PLAIN, "intermediate_timesteps": None}  # distilled: guidance is an input of the transformer


def seen(name: str = "image") -> dict[str, Any]:
    return {name: picture(160, 96)}


def _world() -> dict[str, Any]:
    camera = {"action": "w-8,wl-8", "intrinsics": [140.0, 140.0, 80.0, 48.0]}
    return {**TEXT, "negative_prompt": "bad", **camera, **seen(), "num_frames": 17, "chi_prompt": ["Describe:"]}


def _refined() -> dict[str, Any]:
    """A frame, then windows of two and one, three by five tokens each: four steps, and a call that keeps the keys."""
    call = {"sana_latent": noise(1, 4, 4, 3, 5), "prompt": PROMPT, "fps": 16.0, "block_size": 2}
    return {**call, "sigmas": (0.9, 0.7, 0.5, 0.3, 0.0)}


TINY = table(
    Tiny("SanaPipeline", sana, lambda: GUIDED),
    # Three branches, in a tripled batch.
    Tiny("SanaPAGPipeline", sana, lambda: {**GUIDED, "pag_scale": 2.0}, branches=3, unshared=NO_ROWS, refused=REPLACED),
    Tiny(
        "SanaControlNetPipeline",
        controlnet,
        lambda: {**GUIDED, **seen("control_image"), "controlnet_conditioning_scale": 0.6},
    ),
    Tiny("SanaSprintPipeline", sprint, lambda: SPRINT, branches=1),
    # Four of five steps.
    Tiny(
        "SanaSprintImg2ImgPipeline",
        sprint,
        lambda: {**SPRINT, **seen(), "strength": 0.8, "num_inference_steps": 5},
        branches=1,
    ),
    # Three frames of three by five tokens.
    Tiny("SanaVideoPipeline", to_video, lambda: {**GUIDED, "frames": 17}),
    Tiny("SanaImageToVideoPipeline", to_video, lambda: {**GUIDED, "frames": 17, **seen()}),
    Tiny("SanaWMPipeline", world, _world),
    Tiny("SanaWMLTX2Refiner", refiner, _refined, branches=1),
)
