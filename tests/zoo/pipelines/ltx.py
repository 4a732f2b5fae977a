"""LTX, and LTX-2 with sound."""

from functools import partial
from typing import Any

import diffusers
import torch
import transformers
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel
from diffusers.pipelines.ltx2.pipeline_ltx2_condition import LTX2VideoCondition
from diffusers.pipelines.ltx2.pipeline_ltx2_ic_lora import LTX2ReferenceCondition
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder

from support.tiny_parts import euler, language, t5_parts
from support.tiny_tokenizers import qwen_tokenizer
from zoo import video
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import PROMPT, Tiny, frames, picture, table, video_call

HEADS = 3
WIDTH, HEIGHT = 160, 96  # three by five tokens a latent frame
PLAIN = {"block_out_channels": (8, 8, 8, 8), "layers_per_block": (1, 1, 1, 1, 1)}


def _call(**changed: Any) -> dict[str, Any]:
    """Three latent frames of eight; two branches in a doubled batch."""
    sizes = {"height": HEIGHT, "width": WIDTH, "num_frames": 17, "frame_rate": 25, "max_sequence_length": 16}
    return video_call(**{**sizes, **changed})


def first_frame() -> Any:
    return picture(WIDTH, HEIGHT)


def _ltx(kind: Any, *, dynamic: bool = True) -> Any:
    sizes = {"in_channels": 8, "out_channels": 8, "attention_head_dim": 8, "cross_attention_dim": 8 * HEADS}
    vae = diffusers.AutoencoderKLLTXVideo(
        **PLAIN, latent_channels=8, decoder_block_out_channels=(8, 8, 8, 8), decoder_layers_per_block=(1, 1, 1, 1, 1)
    )
    transformer = tiny_transformer(video.ltx, **sizes, caption_channels=32)
    return kind(**t5_parts(), scheduler=euler(dynamic=dynamic), vae=vae, transformer=transformer)


def long_video() -> dict[str, Any]:
    """Three windows, each with a prompt of its own, the last one shorter; one tile in decoding."""
    tiles = {"decode_horizontal_tiles": 1, "decode_vertical_tiles": 1}
    windows = {"temporal_tile_size": 24, "temporal_overlap": 8}
    prompt = f"{PROMPT} | a small green star"
    return _call(prompt=prompt, num_frames=41, guidance_scale=2.0, cond_image=first_frame(), **windows, **tiles)


def gemma3(tokenizer: Any) -> transformers.Gemma3ForConditionalGeneration:
    text = language(tokenizer, width=16, head_dim=4, sliding_window=64, pad_token_id=tokenizer.pad_token_id)
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": 16, "patch_size": 8}
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    return transformers.Gemma3ForConditionalGeneration(config)


def video_vae(latents: int) -> diffusers.AutoencoderKLLTX2Video:
    """32 pixels and 8 frames a latent."""
    return diffusers.AutoencoderKLLTX2Video(
        **PLAIN,
        latent_channels=latents,
        decoder_block_out_channels=(8, 8, 8),
        decoder_layers_per_block=(1, 1, 1, 1),
        upsample_residual=(False, False, False),
        upsample_factor=(1, 1, 1),
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
    )


def _connectors(*, by_modality: bool) -> LTX2TextConnectors:
    """One transformer of text for the picture, one for the sound; in LTX-2.3 and later as wide as they are."""
    heads = HEADS if by_modality else 4
    each: dict[str, Any] = {}
    for name, width in {"video": 8 if by_modality else 4, "audio": 4}.items():
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


def _ltx2(kind: Any, version: str, **more: Any) -> Any:
    """2.0, 2.3 or 2.5. Sound is half as wide as the picture."""
    tokenizer, is_first = qwen_tokenizer(), version == "2.0"
    sizes = {"in_channels": 8, "out_channels": 8, "audio_in_channels": 16, "audio_out_channels": 16}
    sizes |= {} if is_first else {"caption_channels": 3840}  # the class's own, which the later ones do not read
    sizes |= {"use_keyframes_abs_pos_embedding": True} if version == "2.5" else {}
    parts = {
        "scheduler": euler(dynamic=version != "2.5"),
        "vae": video_vae(8),
        "audio_vae": diffusers.AutoencoderKLLTX2Audio(
            base_channels=16, ch_mult=(1,), num_res_blocks=1, resolution=32, latent_channels=8, mel_bins=8
        ),
        "text_encoder": gemma3(tokenizer),
        "tokenizer": tokenizer,
        "connectors": _connectors(by_modality=not is_first),
        "transformer": tiny_transformer(video.ltx2 if is_first else video.ltx2_3, **sizes),
        "vocoder": LTX2Vocoder(
            in_channels=16,
            hidden_channels=32,
            upsample_kernel_sizes=[4, 4],
            upsample_factors=[2, 2],
            resnet_kernel_sizes=[3],
            resnet_dilations=[[1, 3, 5]],
            output_sampling_rate=16000,
        ),
    }
    return kind(**{**parts, **more})


def refine(kind: Any) -> Any:
    """Twice as many frames, in two tiles."""
    upsampler = LTX2LatentUpsamplerModel(
        in_channels=8, mid_channels=32, num_blocks_per_stage=1, spatial_upsample=False, temporal_upsample=True
    )
    scheduler = diffusers.LTXEulerAncestralRFScheduler(eta=0.5)
    return _ltx2(kind, "2.5", scheduler=scheduler, temporal_latent_upsampler=upsampler)


def _call2(**changed: Any) -> dict[str, Any]:
    """Seventeen tokens of sound; guidance by the negative prompt, and by isolated modalities."""
    return _call(stg_scale=0.0, audio_stg_scale=0.0, **changed)


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


def referring(**changed: Any) -> dict[str, Any]:
    return _call(reference_conditions=[LTX2ReferenceCondition(frames(9, WIDTH, HEIGHT))], **changed)


FIRST, SECOND, THIRD = (partial(_ltx2, version=version) for version in ("2.0", "2.3", "2.5"))
# Four branches: a doubled batch, a call that skips a block's attention, and one where picture and sound do not see
# each other.
SKIPPED = {"spatio_temporal_guidance_blocks": [1]}
TINY = table(
    Tiny("LTXPipeline", _ltx, _call),
    Tiny("LTXImageToVideoPipeline", _ltx, lambda: _call(image=first_frame())),
    Tiny(
        "LTXConditionPipeline",
        partial(_ltx, dynamic=False),
        lambda: _call(
            conditions=[
                LTXVideoCondition(image=first_frame(), frame_index=0),
                LTXVideoCondition(video=frames(9, WIDTH, HEIGHT), frame_index=8, strength=0.5),
            ]
        ),
    ),
    Tiny("LTXI2VLongMultiPromptPipeline", partial(_ltx, dynamic=False), long_video),
    Tiny("LTX2Pipeline", SECOND, lambda: _call(**SKIPPED), branches=4),
    Tiny("LTX2Pipeline:2.0", FIRST, _call2, branches=3),
    Tiny("LTX2ImageToVideoPipeline", SECOND, lambda: _call(**SKIPPED, image=first_frame(), image_crf=0), branches=4),
    Tiny(
        "LTX2ConditionPipeline",
        FIRST,
        lambda: _call2(
            conditions=[
                LTX2VideoCondition(first_frame(), crf=0),
                LTX2VideoCondition(picture(WIDTH, HEIGHT, seed=40), index=1, crf=0),
                LTX2VideoCondition(picture(WIDTH, HEIGHT, seed=70), index=-1, strength=0.5, crf=0),
            ]
        ),
        branches=3,
    ),
    Tiny(
        "LTX2InContextPipeline", SECOND, lambda: referring(**SKIPPED, conditioning_attention_strength=0.5), branches=4
    ),
    Tiny("LTX2HDRPipeline", SECOND, lambda: referring(guidance_scale=2.0)),
    Tiny(
        "LTX2DFRPipeline",
        THIRD,
        lambda: distilled(num_frames=25, conditions=[LTX2VideoCondition(first_frame(), crf=0)]),
        branches=1,
    ),
    Tiny("LTX2DFRTemporalRefinePipeline", refine, to_refine, branches=1),
)
