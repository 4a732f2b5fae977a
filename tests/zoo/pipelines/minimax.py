"""Families of MiniMax: H3, whose videos have sound, with a transformer for references of its own; and Music 3."""

from functools import partial
from typing import Any

import torch
from diffusers import (
    AutoencoderKLMiniMaxH3,
    AutoencoderKLMiniMaxH3Audio,
    FlowMatchEulerDiscreteScheduler,
    MiniMaxH3ModularPipeline,
    MiniMaxH3Scheduler,
    MiniMaxMusic3ConditionEncoder,
    MiniMaxMusic3ModularPipeline,
    MiniMaxMusic3RVQDepthDecoder,
    MiniMaxMusic3Vocoder,
)
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

from latentloom.pipelines.values import Audio
from latentloom.pipelines.whole.modular import put_together
from support.tiny_parts import qwen3_vl, qwen_processor, small_language
from support.tiny_tokenizers import chat_tokenizer, qwen_tokenizer
from zoo import audio, kandinsky
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import PROMPT, Tiny, picture


def h3() -> Any:
    """124 frames, the fewest there can be, are 37 latent frames and 207 latents of each channel of the sound; of its
    text encoder the 50th layer is read."""
    tokenizer = chat_tokenizer()
    parts = {
        "text_encoder": qwen3_vl(tokenizer, Qwen3VLForConditionalGeneration, layers=51, width=16, patch=4),
        "tokenizer": tokenizer,
        "processor": qwen_processor(tokenizer, Qwen3VLProcessor, patch=4),
        "vae": AutoencoderKLMiniMaxH3(
            latent_channels=4,
            block_out_channels=(8, 8, 8),
            layers_per_block=1,
            spatial_downsample_factors=(2, 2, 2),
            temporal_downsample_factors=(1, 2, 2),
            norm_num_groups=4,
            decoder_num_layers=2,
            decoder_num_attention_heads=2,
            decoder_attention_head_dim=16,
            latents_mean=(0.0,) * 4,
            latents_std=(1.0,) * 4,
        ),
        "audio_vae": AutoencoderKLMiniMaxH3Audio(
            encoder_dim=4,
            encoder_rates=(2, 4),
            latent_dim=12,
            latent_channels=6,
            num_attention_heads=2,
            decoder_dim=8,
            decoder_rates=(4, 2),
            decoder_kernel_sizes=(8, 4),
            resblock_kernel_sizes=(3,),
            resblock_dilation_sizes=((1, 3),),
            sampling_rate=320,
            latents_mean=[0.0] * 6,
            latents_std=[1.0] * 6,
        ),
        "scheduler": MiniMaxH3Scheduler(shift=12.0),
        "audio_scheduler": MiniMaxH3Scheduler(shift=3.0),
        "transformer": tiny_transformer(kandinsky.minimax_h3, text_dim=16),
        "transformer_ref": tiny_transformer(kandinsky.minimax_h3, text_dim=16),
    }
    sizes = {"canvas_short_edge": 48, "canvas_max_pixels": 48 * 80, "reference_image_short_edge": 48}
    return put_together(MiniMaxH3ModularPipeline, parts, sizes)


def music() -> Any:
    """400 samples and 50 latents a second, of 25 frames that a language model writes: 16,384 codes after all texts."""
    tokenizer = qwen_tokenizer()
    text = {**small_language(tokenizer), "vocab_size": 168_060, "head_dim": 4}
    parts = {
        "tokenizer": tokenizer,
        "language_model": Qwen3ForCausalLM(Qwen3Config(**text)),
        "rvq_depth_decoder": MiniMaxMusic3RVQDepthDecoder(
            hidden_size=16, num_layers=1, num_attention_heads=2, intermediate_size=16, audio_vocab_size=64
        ),
        "condition_encoder": MiniMaxMusic3ConditionEncoder(
            condition_hidden_dim=16, out_dim=8, output_sampling_rate=400, output_hop_length=8
        ),
        "transformer": tiny_transformer(audio.minimax_music3),
        "scheduler": FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0, invert_sigmas=True),
        "vocoder": MiniMaxMusic3Vocoder(
            latent_channels=4, decoder_input_dim=8, decoder_hidden_dim=8, upsampling_ratios=(4, 2), sampling_rate=400
        ),
    }
    return put_together(MiniMaxMusic3ModularPipeline, parts, {})


def _video(**given: Any) -> dict[str, Any]:
    """Three by five tokens in each of 37 latent frames."""
    return {"prompt": PROMPT, "height": 48, "width": 80, "num_frames": 124, "num_inference_steps": 4, **given}


def _with_references() -> dict[str, Any]:
    sound = Audio(waveform=0.3 * torch.sin(torch.arange(800.0) * 0.1).expand(1, 2, -1), rate=320)
    return _video(reference_images=[picture(80, 48), picture(48, 48, seed=9)], reference_audio=sound)


def _song() -> dict[str, Any]:
    """31 latents."""
    return {"prompt": PROMPT, "lyrics": "[verse]\nla la", "audio_duration": 0.64, "num_inference_steps": 4}


TINY = {
    "MiniMaxMusic3ModularPipeline": Tiny(music, _song),
    "MiniMaxH3ModularPipeline": Tiny(h3, _video, branches=1),
    "MiniMaxH3ModularPipeline:first frame": Tiny(h3, partial(_video, image=picture(80, 48)), branches=1),
    "MiniMaxH3ModularPipeline:last frame": Tiny(
        h3, partial(_video, image=picture(80, 48), last_image=picture(80, 48, seed=9)), branches=1
    ),
    "MiniMaxH3ModularPipeline:references": Tiny(h3, _with_references, branches=1),
}
LEFT_OUT = dict.fromkeys(
    ("LTX25ModularPipeline",),
    "there is no tiny model of it",
)
