"""LTX, and LTX-2 with sound."""

from typing import Any

import torch
from diffusers import (
    AutoencoderKLLTX2Audio,
    AutoencoderKLLTX2Video,
    AutoencoderKLLTXVideo,
    LTX2ConditionPipeline,
    LTX2DFRPipeline,
    LTX2DFRTemporalRefinePipeline,
    LTX2HDRPipeline,
    LTX2ImageToVideoPipeline,
    LTX2InContextPipeline,
    LTX2Pipeline,
    LTX2VideoTransformer3DModel,
    LTXConditionPipeline,
    LTXEulerAncestralRFScheduler,
    LTXI2VLongMultiPromptPipeline,
    LTXImageToVideoPipeline,
    LTXPipeline,
    LTXVideoTransformer3DModel,
)
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel
from diffusers.pipelines.ltx2.pipeline_ltx2_condition import LTX2VideoCondition
from diffusers.pipelines.ltx2.pipeline_ltx2_ic_lora import LTX2ReferenceCondition
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

from support.tiny_parts import euler, language, t5
from support.tiny_tokenizers import qwen_tokenizer, t5_tokenizer
from zoo.pipelines.tiny import PROMPT, Tiny, frames, picture, video_call

HEADS = 3
WIDTH, HEIGHT = 160, 96
"""Three by five tokens a latent frame."""
PLAIN = {"block_out_channels": (8, 8, 8, 8), "layers_per_block": (1, 1, 1, 1, 1)}


def _call(**changed: Any) -> dict[str, Any]:
    """Three latent frames of eight; two branches in a doubled batch."""
    sizes = {"height": HEIGHT, "width": WIDTH, "num_frames": 17, "frame_rate": 25, "max_sequence_length": 16}
    return video_call(**{**sizes, **changed})


def first_frame() -> Any:
    return picture(WIDTH, HEIGHT)


def _ltx(kind: Any, *, dynamic: bool = True) -> Any:
    tokenizer = t5_tokenizer()
    transformer = LTXVideoTransformer3DModel(
        in_channels=8,
        out_channels=8,
        num_attention_heads=HEADS,
        attention_head_dim=8,
        cross_attention_dim=8 * HEADS,
        num_layers=2,
        caption_channels=32,
    )
    vae = AutoencoderKLLTXVideo(
        **PLAIN,
        latent_channels=8,
        decoder_block_out_channels=(8, 8, 8, 8),
        decoder_layers_per_block=(1, 1, 1, 1, 1),
    )
    return kind(
        scheduler=euler(dynamic=dynamic),
        vae=vae,
        text_encoder=t5(tokenizer),
        tokenizer=tokenizer,
        transformer=transformer,
    )


def long_video() -> dict[str, Any]:
    """Three windows, each with a prompt of its own, the last one shorter; one tile in decoding."""
    tiles = {"decode_horizontal_tiles": 1, "decode_vertical_tiles": 1}
    windows = {"temporal_tile_size": 24, "temporal_overlap": 8}
    prompt = f"{PROMPT} | a small green star"
    return _call(prompt=prompt, num_frames=41, guidance_scale=2.0, cond_image=first_frame(), **windows, **tiles)


def _gemma(tokenizer: Any) -> Gemma3ForConditionalGeneration:
    text = language(tokenizer, width=16, head_dim=4, sliding_window=64, pad_token_id=tokenizer.pad_token_id)
    vision = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 8,
    }
    return Gemma3ForConditionalGeneration(Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4))


LTX2 = {"caption_channels": 16, "qk_norm": "rms_norm_across_heads"}
LTX23 = {
    "gated_attn": True,
    "cross_attn_mod": True,
    "audio_gated_attn": True,
    "audio_cross_attn_mod": True,
    "rope_type": "split",
    "perturbed_attn": True,
    "use_prompt_embeddings": False,
}
LTX25 = {**LTX23, "use_keyframes_abs_pos_embedding": True}


def _ltx2_transformer(config: dict[str, Any]) -> LTX2VideoTransformer3DModel:
    """Sound is half as wide as the picture."""
    return LTX2VideoTransformer3DModel(
        in_channels=8,
        out_channels=8,
        num_attention_heads=HEADS,
        attention_head_dim=8,
        cross_attention_dim=8 * HEADS,
        audio_in_channels=16,
        audio_out_channels=16,
        audio_num_attention_heads=HEADS,
        audio_attention_head_dim=4,
        audio_cross_attention_dim=4 * HEADS,
        num_layers=2,
        rope_double_precision=False,
        **config,
    )


def _connectors(config: dict[str, Any]) -> LTX2TextConnectors:
    """One transformer of text for the picture, one for the sound; in LTX-2.3 and later as wide as they are."""
    by_modality = not config.get("use_prompt_embeddings", True)
    heads = HEADS if by_modality else 4
    widths = {"video": 8 if by_modality else 4, "audio": 4}
    each: dict[str, Any] = {}
    for name, width in widths.items():
        each[f"{name}_connector_num_attention_heads"] = heads
        each[f"{name}_connector_attention_head_dim"] = width
        each[f"{name}_connector_num_layers"] = 1
        each[f"{name}_connector_num_learnable_registers"] = None
        each[f"{name}_hidden_dim"] = heads * width
    return LTX2TextConnectors(
        caption_channels=16,
        text_proj_in_factor=3,
        connector_rope_base_seq_len=32,
        rope_double_precision=False,
        per_modality_projections=by_modality,
        **each,
    )


def _ltx2_parts(config: dict[str, Any]) -> dict[str, Any]:
    tokenizer = qwen_tokenizer()
    video = AutoencoderKLLTX2Video(
        **PLAIN,
        latent_channels=8,
        decoder_block_out_channels=(8, 8, 8),
        decoder_layers_per_block=(1, 1, 1, 1),
        upsample_residual=(False, False, False),
        upsample_factor=(1, 1, 1),
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
    )
    audio = AutoencoderKLLTX2Audio(
        base_channels=16, ch_mult=(1,), num_res_blocks=1, resolution=32, latent_channels=8, mel_bins=8
    )
    vocoder = LTX2Vocoder(
        in_channels=16,
        hidden_channels=32,
        upsample_kernel_sizes=[4, 4],
        upsample_factors=[2, 2],
        resnet_kernel_sizes=[3],
        resnet_dilations=[[1, 3, 5]],
        output_sampling_rate=16000,
    )
    return {
        "scheduler": euler(dynamic=not config.get("use_keyframes_abs_pos_embedding", False)),
        "vae": video,
        "audio_vae": audio,
        "text_encoder": _gemma(tokenizer),
        "tokenizer": tokenizer,
        "connectors": _connectors(config),
        "transformer": _ltx2_transformer(config),
        "vocoder": vocoder,
    }


def _ltx2(kind: Any, config: dict[str, Any]) -> Any:
    return kind(**_ltx2_parts(config))


def refine() -> LTX2DFRTemporalRefinePipeline:
    """Twice as many frames, in two tiles."""
    parts = {**_ltx2_parts(LTX25), "scheduler": LTXEulerAncestralRFScheduler(eta=0.5)}
    upsampler = LTX2LatentUpsamplerModel(
        in_channels=8, mid_channels=32, num_blocks_per_stage=1, spatial_upsample=False, temporal_upsample=True
    )
    return LTX2DFRTemporalRefinePipeline(**parts, temporal_latent_upsampler=upsampler)


def _call2(**changed: Any) -> dict[str, Any]:
    """Seventeen tokens of sound; guidance by the negative prompt, and by isolated modalities."""
    return _call(stg_scale=0.0, audio_stg_scale=0.0, **changed)


def four_branches() -> dict[str, Any]:
    """A doubled batch, a call that skips a block's attention, and one where picture and sound do not see each other."""
    return _call(spatio_temporal_guidance_blocks=[1])


def distilled(**changed: Any) -> dict[str, Any]:
    call = _call(sigmas=[1.0, 0.9, 0.7, 0.4], **changed)
    return {name: call[name] for name in call if name not in ("negative_prompt", "num_inference_steps")}


def to_refine() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    return distilled(
        num_frames=25,
        latents=torch.randn(1, 8, 4, 3, 5, generator=generator),
        keyframes_latents=torch.randn(1, 8, 2, 3, 5, generator=generator),
        keyframe_positions=[8, 24],
        audio_latents=torch.randn(1, 8, 25, 2, generator=generator),
    )


TINY = {
    LTXPipeline.__name__: Tiny(lambda: _ltx(LTXPipeline), _call),
    LTXImageToVideoPipeline.__name__: Tiny(lambda: _ltx(LTXImageToVideoPipeline), lambda: _call(image=first_frame())),
    LTXConditionPipeline.__name__: Tiny(
        lambda: _ltx(LTXConditionPipeline, dynamic=False),
        lambda: _call(
            conditions=[
                LTXVideoCondition(image=first_frame(), frame_index=0),
                LTXVideoCondition(video=frames(9, WIDTH, HEIGHT), frame_index=8, strength=0.5),
            ]
        ),
    ),
    LTXI2VLongMultiPromptPipeline.__name__: Tiny(
        lambda: _ltx(LTXI2VLongMultiPromptPipeline, dynamic=False), long_video
    ),
    LTX2Pipeline.__name__: Tiny(lambda: _ltx2(LTX2Pipeline, LTX23), four_branches, branches=4),
    f"{LTX2Pipeline.__name__}:2.0": Tiny(lambda: _ltx2(LTX2Pipeline, LTX2), _call2, branches=3),
    LTX2ImageToVideoPipeline.__name__: Tiny(
        lambda: _ltx2(LTX2ImageToVideoPipeline, LTX23),
        lambda: {**four_branches(), "image": first_frame(), "image_crf": 0},
        branches=4,
    ),
    LTX2ConditionPipeline.__name__: Tiny(
        lambda: _ltx2(LTX2ConditionPipeline, LTX2),
        lambda: _call2(
            conditions=[
                LTX2VideoCondition(first_frame(), crf=0),
                LTX2VideoCondition(picture(WIDTH, HEIGHT, seed=40), index=1, crf=0),
                LTX2VideoCondition(picture(WIDTH, HEIGHT, seed=70), index=-1, strength=0.5, crf=0),
            ]
        ),
        branches=3,
    ),
    LTX2InContextPipeline.__name__: Tiny(
        lambda: _ltx2(LTX2InContextPipeline, LTX23),
        lambda: {
            **four_branches(),
            "reference_conditions": [LTX2ReferenceCondition(frames(9, WIDTH, HEIGHT))],
            "conditioning_attention_strength": 0.5,
        },
        branches=4,
    ),
    LTX2HDRPipeline.__name__: Tiny(
        lambda: _ltx2(LTX2HDRPipeline, LTX23),
        lambda: _call(reference_conditions=[LTX2ReferenceCondition(frames(9, WIDTH, HEIGHT))], guidance_scale=2.0),
    ),
    LTX2DFRPipeline.__name__: Tiny(
        lambda: _ltx2(LTX2DFRPipeline, LTX25),
        lambda: distilled(num_frames=25, conditions=[LTX2VideoCondition(first_frame(), crf=0)]),
        branches=1,
    ),
    LTX2DFRTemporalRefinePipeline.__name__: Tiny(refine, to_refine, branches=1),
}
LEFT_OUT: dict[str, str] = {}
