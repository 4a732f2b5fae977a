"""Families that make sound: ACE-Step, LongCat audio, Stable Audio."""

from typing import Any

import diffusers
import torch
import transformers
from diffusers.pipelines.ace_step.modeling_ace_step import AceStepConditionEncoder
from diffusers.pipelines.stable_audio_3.modeling_stable_audio_3 import StableAudio3DurationEmbedder

from support.tiny_parts import UMT5, small_language, t5, t5_parts
from support.tiny_tokenizers import qwen_tokenizer, t5_tokenizer
from zoo import audio
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import PROMPT, Tiny, table


def ace_step(kind: Any) -> Any:
    """160 samples and 20 latents a second; two layers that see their neighbours only, two that see all."""
    tokenizer = qwen_tokenizer()
    return kind(
        tokenizer=tokenizer,
        text_encoder=transformers.Qwen3Model(transformers.Qwen3Config(**small_language(tokenizer), head_dim=4)),
        vae=_oobleck(160),
        condition_encoder=AceStepConditionEncoder(
            hidden_size=16,
            intermediate_size=32,
            text_hidden_dim=16,
            timbre_hidden_dim=4,
            num_lyric_encoder_hidden_layers=2,
            num_timbre_encoder_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            sliding_window=4,
        ),
        transformer=tiny_transformer(audio.ace_step, num_hidden_layers=4),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0),
    )


def long_cat_audio(kind: Any) -> Any:
    """200 samples and 25 latents a second."""
    vae = diffusers.LongCatAudioDiTVae(
        channels=8,
        c_mults=[1, 2],
        strides=[2, 4],
        latent_dim=4,
        encoder_latent_dim=8,
        downsampling_ratio=8,
        sample_rate=200,
    )
    return kind(vae=vae, **t5_parts(*UMT5, width=16), transformer=tiny_transformer(audio.longcat_audio))


def stable_audio(kind: Any) -> Any:
    """100 samples and 12.5 latents a second; 14 latents and a token of the time."""
    tokenizer = t5_tokenizer(31)
    return kind(
        vae=_oobleck(100),
        tokenizer=tokenizer,
        text_encoder=t5(tokenizer),
        projection_model=diffusers.StableAudioProjectionModel(32, 16, 0, 47),
        transformer=tiny_transformer(audio.stable_audio, sample_size=14, global_states_input_dim=32),
        scheduler=diffusers.EDMDPMSolverMultistepScheduler(
            sigma_max=80.0, solver_order=2, prediction_type="v_prediction"
        ),
    )


def stable_audio3(kind: Any) -> Any:
    """128 samples and 16 latents a second."""
    tokenizer = qwen_tokenizer(31)
    module = transformers.T5GemmaModuleConfig(**small_language(tokenizer), head_dim=4)
    config = transformers.T5GemmaConfig(
        encoder=module, decoder=module, is_encoder_decoder=False, vocab_size=len(tokenizer)
    )
    return kind(
        vae=diffusers.AutoencoderSAME(
            patch_size=4,
            encoder_channels=8,
            encoder_c_mults=[2],
            encoder_strides=[2],
            encoder_transformer_depths=[1],
            latent_dim=4,
            dim_heads=8,
            sampling_rate=128,
        ),
        tokenizer=tokenizer,
        text_encoder=transformers.T5GemmaEncoderModel(config),
        duration_embedder=StableAudio3DurationEmbedder(output_dim=16, fourier_dim=8),
        transformer=tiny_transformer(audio.stable_audio3),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0),
    )


def _oobleck(rate: int) -> diffusers.AutoencoderOobleck:
    """Eight samples a latent."""
    return diffusers.AutoencoderOobleck(
        encoder_hidden_size=8,
        downsampling_ratios=[2, 4],
        channel_multiples=[1, 2],
        decoder_channels=8,
        decoder_input_channels=4,
        sampling_rate=rate,
    )


STEPS = {"prompt": PROMPT, "num_inference_steps": 4}
GUIDED: dict[str, Any] = {**STEPS, "negative_prompt": "bad", "guidance_scale": 3.0}
# 29 latents, two a token, and two branches in a doubled batch.
SONG: dict[str, Any] = {**STEPS, "guidance_scale": 3.0, "lyrics": "la la", "audio_duration": 1.45}
LONG = {"duration": 0.875}  # 14 latents after five tokens of memory


def _wave() -> torch.Tensor:
    return 0.3 * torch.sin(torch.arange(224.0).reshape(1, 2, 112))


TINY = table(
    Tiny("AceStepPipeline", ace_step, lambda: SONG),
    # The first steps have one branch.
    Tiny("AceStepPipeline:guided late", ace_step, lambda: {**SONG, "cfg_interval_start": 0.2}),
    # 15 latents, and two branches, one after the other.
    Tiny("LongCatAudioDiTPipeline", long_cat_audio, lambda: {**GUIDED, "audio_duration_s": 0.6}),
    # 14 latents, and two branches in a doubled batch.
    Tiny("StableAudioPipeline", stable_audio, lambda: {**GUIDED, "audio_end_in_s": 1.12}),
    Tiny("StableAudio3Pipeline", stable_audio3, lambda: {**GUIDED, **LONG}),
    Tiny(
        "StableAudio3AudioToAudioPipeline",
        stable_audio3,
        lambda: {**STEPS, **LONG, "audio": _wave(), "init_noise_level": 0.8},
        branches=1,
    ),
    Tiny(
        "StableAudio3InpaintPipeline",
        stable_audio3,
        lambda: {**STEPS, **LONG, "audio": _wave(), "mask_start_seconds": 0.25, "mask_end_seconds": 0.5},
        branches=1,
    ),
)
