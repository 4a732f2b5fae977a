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
    SanaWMPipeline,
    SCMScheduler,
)
from transformers import Gemma2Config, Gemma2Model

from support.tiny_parts import euler
from support.tiny_tokenizers import qwen_tokenizer
from zoo import cross
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import PROMPT, Tiny, picture


def sana(pipeline: type[DiffusionPipeline] = SanaPipeline, **more: Any) -> DiffusionPipeline:
    return pipeline(**gemma(8), vae=_image_vae(), transformer=tiny_transformer(cross.sana), scheduler=euler(), **more)


def controlnet() -> DiffusionPipeline:
    """The net has one block, whose residual the first two blocks of the transformer take."""
    config = {name: value for name, value in _config().items() if name != "num_layers"}
    return sana(SanaControlNetPipeline, controlnet=SanaControlNetModel(**config, num_layers=1))


def sprint(pipeline: type[DiffusionPipeline]) -> DiffusionPipeline:
    transformer = tiny_transformer(cross.sana_sprint, sample_size=32)
    return pipeline(**gemma(8), vae=_image_vae(), transformer=transformer, scheduler=SCMScheduler())


def video(pipeline: type[DiffusionPipeline]) -> DiffusionPipeline:
    """With the VAE of LTX-2, as its 720p model."""
    transformer = tiny_transformer(cross.sana_video, patch_size=(1, 1, 1))
    return pipeline(**gemma(8), vae=_video_vae(), transformer=transformer, scheduler=euler())


def world() -> DiffusionPipeline:
    """Two layers of each kind of attention, left in fp32 where the model asks for bf16."""
    transformer = tiny_transformer(cross.sana_wm, num_layers=4, chunk_plucker_channels=48)
    return SanaWMPipeline(**gemma(16), vae=_video_vae(), transformer=transformer, scheduler=euler())


def gemma(width: int) -> dict[str, Any]:
    tokenizer = qwen_tokenizer()
    config = Gemma2Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        pad_token_id=tokenizer.pad_token_id,
    )
    return {"tokenizer": tokenizer, "text_encoder": Gemma2Model(config)}


def _config() -> dict[str, Any]:
    names = ("patch_size", "in_channels", "out_channels", "attention_head_dim", "caption_channels", "num_layers")
    heads = ("num_attention_heads", "num_cross_attention_heads", "cross_attention_head_dim", "cross_attention_dim")
    config = tiny_transformer(cross.sana).config
    return {name: config[name] for name in names + heads}


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


TINY = {
    "SanaPipeline": Tiny(sana, _guided, branches=2),
    "SanaPAGPipeline": Tiny(partial(sana, SanaPAGPipeline), _perturbed, branches=3),
    "SanaControlNetPipeline": Tiny(controlnet, _controlled, branches=2),
    "SanaSprintPipeline": Tiny(partial(sprint, SanaSprintPipeline), _sprint),
    "SanaSprintImg2ImgPipeline": Tiny(partial(sprint, SanaSprintImg2ImgPipeline), _sprint_image),
    "SanaVideoPipeline": Tiny(partial(video, SanaVideoPipeline), _video, branches=2),
    "SanaImageToVideoPipeline": Tiny(partial(video, SanaImageToVideoPipeline), _video_image, branches=2),
    "SanaWMPipeline": Tiny(world, _world, branches=2),
}
LEFT_OUT: dict[str, str] = {}
