"""Families of MiniMax: H3, whose videos have sound, with a transformer for references of its own; and Music 3."""

from functools import partial
from typing import Any

import diffusers
import torch
import transformers

from latentloom.pipelines.values import Audio
from latentloom.pipelines.whole.assembled import put_together
from support.tiny_parts import qwen3_vl, qwen_processor, small_language
from support.tiny_tokenizers import chat_tokenizer, qwen_tokenizer
from zoo import audio, kandinsky
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import PROMPT, Tiny, picture, table


def h3_parts(*, heads: int = 3, patch: int = 4, most: int = 2, vae: Any = None, sound: Any = None) -> dict[str, Any]:
    """124 frames, the fewest there can be, are 37 latent frames and 207 latents of each channel of the sound; of its
    text encoder the 50th layer is read. `vae` and `sound` are changes of what decodes."""
    tokenizer = chat_tokenizer()
    pictures: dict[str, Any] = {
        "latent_channels": 4,
        "block_out_channels": (8, 8, 8),
        "layers_per_block": 1,
        "spatial_downsample_factors": (2, 2, 2),
        "temporal_downsample_factors": (1, 2, 2),
        "norm_num_groups": 4,
        "decoder_num_layers": 2,
        "decoder_num_attention_heads": 2,
        "decoder_attention_head_dim": 16,
        "latents_mean": (0.0,) * 4,
        "latents_std": (1.0,) * 4,
    }
    sounds: dict[str, Any] = {
        "encoder_dim": 4,
        "encoder_rates": (2, 4),
        "latent_dim": 12,
        "latent_channels": 6,
        "num_attention_heads": 2,
        "decoder_dim": 8,
        "decoder_rates": (4, 2),
        "decoder_kernel_sizes": (8, 4),
        "resblock_kernel_sizes": (3,),
        "resblock_dilation_sizes": ((1, 3),),
        "sampling_rate": 320,
        "latents_mean": [0.0] * 6,
        "latents_std": [1.0] * 6,
    }
    qwen = transformers.Qwen3VLForConditionalGeneration
    return {
        "text_encoder": qwen3_vl(tokenizer, qwen, layers=51, width=16, patch=patch),
        "tokenizer": tokenizer,
        "processor": qwen_processor(tokenizer, transformers.Qwen3VLProcessor, patch=patch, most=most),
        "vae": diffusers.AutoencoderKLMiniMaxH3(**pictures | (vae or {})),
        "audio_vae": diffusers.AutoencoderKLMiniMaxH3Audio(**sounds | (sound or {})),
        "scheduler": diffusers.MiniMaxH3Scheduler(shift=12.0),
        "audio_scheduler": diffusers.MiniMaxH3Scheduler(shift=3.0),
        "transformer": tiny_transformer(kandinsky.minimax_h3, heads=heads, text_dim=16),
    }


def h3(kind: Any) -> Any:
    """With a transformer for references."""
    sizes = {"canvas_short_edge": 48, "canvas_max_pixels": 48 * 80, "reference_image_short_edge": 48}
    second = {"transformer_ref": tiny_transformer(kandinsky.minimax_h3, text_dim=16)}
    return put_together(kind, h3_parts() | second, sizes)


def music(kind: Any) -> Any:
    """400 samples and 50 latents a second, of 25 frames that a language model writes: 16,384 codes after all texts."""
    tokenizer = qwen_tokenizer()
    text = {**small_language(tokenizer), "vocab_size": 168_060, "head_dim": 4}
    parts = {
        "tokenizer": tokenizer,
        "language_model": transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**text)),
        "rvq_depth_decoder": diffusers.MiniMaxMusic3RVQDepthDecoder(
            hidden_size=16, num_layers=1, num_attention_heads=2, intermediate_size=16, audio_vocab_size=64
        ),
        "condition_encoder": diffusers.MiniMaxMusic3ConditionEncoder(
            condition_hidden_dim=16, out_dim=8, output_sampling_rate=400, output_hop_length=8
        ),
        "transformer": tiny_transformer(audio.minimax_music3),
        "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0, invert_sigmas=True),
        "vocoder": diffusers.MiniMaxMusic3Vocoder(
            latent_channels=4, decoder_input_dim=8, decoder_hidden_dim=8, upsampling_ratios=(4, 2), sampling_rate=400
        ),
    }
    return put_together(kind, parts, {})


def _video(**given: Any) -> dict[str, Any]:
    """Three by five tokens in each of 37 latent frames."""
    return {"prompt": PROMPT, "height": 48, "width": 80, "num_frames": 124, "num_inference_steps": 4, **given}


def _with_references() -> dict[str, Any]:
    sound = Audio(waveform=0.3 * torch.sin(torch.arange(800.0) * 0.1).expand(1, 2, -1), rate=320)
    return _video(reference_images=[picture(80, 48), picture(48, 48, seed=9)], reference_audio=sound)


def _song() -> dict[str, Any]:
    """31 latents."""
    return {"prompt": PROMPT, "lyrics": "[verse]\nla la", "audio_duration": 0.64, "num_inference_steps": 4}


TINY = table(
    Tiny("MiniMaxMusic3ModularPipeline", music, _song),
    Tiny("MiniMaxH3ModularPipeline", h3, _video, branches=1),
    Tiny("MiniMaxH3ModularPipeline:first frame", h3, partial(_video, image=picture(80, 48)), branches=1),
    Tiny(
        "MiniMaxH3ModularPipeline:last frame",
        h3,
        partial(_video, image=picture(80, 48), last_image=picture(80, 48, seed=9)),
        branches=1,
    ),
    Tiny("MiniMaxH3ModularPipeline:references", h3, _with_references, branches=1),
)
LEFT_OUT = {"LTX25ModularPipeline": "there is no tiny model of it"}
