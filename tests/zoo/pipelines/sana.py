"""Sana: pictures, Sprint, ControlNet, video, and a world that a camera walks through."""

from functools import partial
from typing import Any

from diffusers import (
    AutoencoderDC,
    AutoencoderKLLTX2Video,
    DiffusionPipeline,
    SanaControlNetModel,
    SanaControlNetPipeline,
    SanaImageToVideoPipeline,
    SanaPAGPipeline,
    SanaPipeline,
    SanaSprintImg2ImgPipeline,
    SanaSprintPipeline,
    SanaVideoPipeline,
    SanaWMLTX2Refiner,
    SanaWMPipeline,
    SCMScheduler,
)
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from transformers import Gemma2Config, Gemma2Model, Gemma3Config, Gemma3ForConditionalGeneration

from support.tiny_parts import euler
from support.tiny_tokenizers import qwen_tokenizer
from zoo import cross, video
from zoo.cases import Case, noise, tiny_transformer
from zoo.pipelines.tiny import NO_ROWS, PROMPT, REPLACED, Tiny, picture

GEMMA = {"intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4}


def sana(pipeline: type[DiffusionPipeline] = SanaPipeline, **more: Any) -> DiffusionPipeline:
    return pipeline(**gemma(8), vae=_image_vae(), transformer=tiny_transformer(cross.sana), scheduler=euler(), **more)


def controlnet() -> DiffusionPipeline:
    """The net has one block, whose residual the second block of the transformer takes."""
    _, config, _ = cross.sana(Case("tiny", heads=3))
    return sana(SanaControlNetPipeline, controlnet=SanaControlNetModel(**{**config, "num_layers": 1}))


def sprint(pipeline: type[DiffusionPipeline]) -> DiffusionPipeline:
    transformer = tiny_transformer(cross.sana_sprint, sample_size=32)
    return pipeline(**gemma(8), vae=_image_vae(), transformer=transformer, scheduler=SCMScheduler())


def to_video(pipeline: type[DiffusionPipeline]) -> DiffusionPipeline:
    """With the VAE of LTX-2, as its 720p model."""
    transformer = tiny_transformer(cross.sana_video, patch_size=(1, 1, 1))
    return pipeline(**gemma(8), vae=_video_vae(), transformer=transformer, scheduler=euler())


def world() -> DiffusionPipeline:
    """Two layers of each kind of attention, left in fp32 where the model asks for bf16."""
    transformer = tiny_transformer(cross.sana_wm, num_layers=4, chunk_plucker_channels=48)
    return SanaWMPipeline(**gemma(16), vae=_video_vae(), transformer=transformer, scheduler=euler())


def refiner() -> DiffusionPipeline:
    """LTX-2 without its sound."""
    tokenizer = qwen_tokenizer()
    text = {"vocab_size": len(tokenizer), "num_hidden_layers": 2, **GEMMA, "pad_token_id": tokenizer.pad_token_id}
    sight = {"num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16, "patch_size": 8}
    config = Gemma3Config(
        text_config=text | {"hidden_size": 16, "sliding_window": 64},
        vision_config=sight | {"hidden_size": 16, "intermediate_size": 16},
        mm_tokens_per_image=4,
    )
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
    return SanaWMLTX2Refiner(
        transformer=tiny_transformer(video.sana_wm_refiner),
        connectors=connectors,
        tokenizer=tokenizer,
        text_encoder=Gemma3ForConditionalGeneration(config),
        scheduler=euler(shift=1.0),
        vae=_video_vae(),
        text_max_sequence_length=31,
    )


def gemma(width: int) -> dict[str, Any]:
    tokenizer = qwen_tokenizer()
    config = Gemma2Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=2,
        pad_token_id=tokenizer.pad_token_id,
        **GEMMA,
    )
    return {"tokenizer": tokenizer, "text_encoder": Gemma2Model(config)}


def _image_vae() -> AutoencoderDC:
    """Six levels: 32 pixels a latent."""
    kinds = ("ResBlock",) * 5 + ("EfficientViTBlock",)
    scales = ((),) * 5 + ((5,),)
    return AutoencoderDC(
        in_channels=3,
        latent_channels=4,
        attention_head_dim=2,
        encoder_block_types=kinds,
        decoder_block_types=kinds,
        encoder_block_out_channels=(8,) * 6,
        decoder_block_out_channels=(8,) * 6,
        encoder_layers_per_block=(1,) * 6,
        decoder_layers_per_block=(1,) * 6,
        encoder_qkv_multiscales=scales,
        decoder_qkv_multiscales=scales,
        scaling_factor=0.41407,
    )


def _video_vae() -> AutoencoderKLLTX2Video:
    """32 pixels and 8 frames a latent."""
    return AutoencoderKLLTX2Video(
        latent_channels=4,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1),
        upsample_factor=(1, 1, 1),
        upsample_residual=(False, False, False),
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
    )


def _text() -> dict[str, Any]:
    """Three by five tokens, and 31 of text."""
    return {
        "prompt": PROMPT,
        "height": 96,
        "width": 160,
        "num_inference_steps": 4,
        "guidance_scale": 3.0,
        "max_sequence_length": 31,
        "complex_human_instruction": None,
        "use_resolution_binning": False,
    }


def _guided() -> dict[str, Any]:
    """Two branches, in a doubled batch."""
    return _text() | {"negative_prompt": "bad"}


def _perturbed() -> dict[str, Any]:
    """Three branches, in a tripled batch."""
    return _guided() | {"pag_scale": 2.0}


def _controlled() -> dict[str, Any]:
    return _guided() | {"control_image": picture(160, 96), "controlnet_conditioning_scale": 0.6}


def _sprint() -> dict[str, Any]:
    """Distilled: guidance is an input of the transformer."""
    return _text() | {"intermediate_timesteps": None}


def _sprint_image() -> dict[str, Any]:
    """Four of five steps."""
    return _sprint() | {"image": picture(160, 96), "strength": 0.8, "num_inference_steps": 5}


def _video() -> dict[str, Any]:
    """Three frames of three by five tokens."""
    return _guided() | {"frames": 17}


def _video_image() -> dict[str, Any]:
    return _video() | {"image": picture(160, 96)}


def _world() -> dict[str, Any]:
    unknown = ("complex_human_instruction", "use_resolution_binning")
    call = {name: value for name, value in _guided().items() if name not in unknown}
    camera = {"action": "w-8,wl-8", "intrinsics": [140.0, 140.0, 80.0, 48.0]}
    return call | camera | {"image": picture(160, 96), "num_frames": 17, "chi_prompt": ["Describe:"]}


def _refined() -> dict[str, Any]:
    """A frame, then windows of two and one, three by five tokens each: four steps, and a call that keeps the keys."""
    return {
        "sana_latent": noise(1, 4, 4, 3, 5),
        "prompt": PROMPT,
        "fps": 16.0,
        "block_size": 2,
        "sigmas": (0.9, 0.7, 0.5, 0.3, 0.0),
    }


TINY = {
    "SanaPipeline": Tiny(sana, _guided),
    "SanaPAGPipeline": Tiny(partial(sana, SanaPAGPipeline), _perturbed, branches=3, unshared=NO_ROWS, refused=REPLACED),
    "SanaControlNetPipeline": Tiny(controlnet, _controlled),
    "SanaSprintPipeline": Tiny(partial(sprint, SanaSprintPipeline), _sprint, branches=1),
    "SanaSprintImg2ImgPipeline": Tiny(partial(sprint, SanaSprintImg2ImgPipeline), _sprint_image, branches=1),
    "SanaVideoPipeline": Tiny(partial(to_video, SanaVideoPipeline), _video),
    "SanaImageToVideoPipeline": Tiny(partial(to_video, SanaImageToVideoPipeline), _video_image),
    "SanaWMPipeline": Tiny(world, _world),
    "SanaWMLTX2Refiner": Tiny(refiner, _refined, branches=1),
}
LEFT_OUT: dict[str, str] = {}
