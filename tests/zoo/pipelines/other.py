"""Families of one or two pipelines: AuraFlow, Bria, DiT, PixArt, PRX, and the two that make sound."""

from functools import partial
from typing import Any

from diffusers import (
    AceStepPipeline,
    AuraFlowPipeline,
    AutoencoderKLWan,
    AutoencoderOobleck,
    BriaFiboEditPipeline,
    BriaFiboPipeline,
    BriaPipeline,
    DDIMScheduler,
    DiffusionPipeline,
    DiTPipeline,
    DPMSolverMultistepScheduler,
    FlowMatchEulerDiscreteScheduler,
    LongCatAudioDiTPipeline,
    LongCatAudioDiTVae,
    PixArtAlphaPipeline,
    PixArtSigmaPAGPipeline,
    PixArtSigmaPipeline,
    PRXPipeline,
    PRXPixelPipeline,
)
from diffusers.pipelines.ace_step.modeling_ace_step import AceStepConditionEncoder
from transformers import (
    Qwen3Config,
    Qwen3Model,
    SmolLM3Config,
    SmolLM3ForCausalLM,
    T5GemmaModuleConfig,
    UMT5Config,
    UMT5EncoderModel,
)
from transformers.models.t5gemma.modeling_t5gemma import T5GemmaEncoder

from support.tiny_parts import euler, image_vae, t5
from support.tiny_tokenizers import qwen_tokenizer, t5_tokenizer
from zoo import audio, cross, image_joint, single_stream
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import PROMPT, Tiny, mask, picture

LATENTS = {"in_channels": 16, "out_channels": 32}
"""The mean and what is dropped of the variance."""


def aura_flow() -> DiffusionPipeline:
    transformer = tiny_transformer(image_joint.aura_flow, in_channels=16, out_channels=16)
    return AuraFlowPipeline(**_umt5(32), vae=_vae(), transformer=transformer, scheduler=euler())


def bria() -> DiffusionPipeline:
    transformer = tiny_transformer(image_joint.bria, in_channels=64)
    return BriaPipeline(**_t5(), vae=_vae(), transformer=transformer, scheduler=euler(dynamic=True))


def fibo(pipeline: type[DiffusionPipeline]) -> DiffusionPipeline:
    """The last layers of its text encoder feed one block of the transformer each."""
    tokenizer = qwen_tokenizer()
    config = SmolLM3Config(**_language(tokenizer), num_hidden_layers=4)
    transformer = tiny_transformer(image_joint.bria_fibo, in_channels=16, text_encoder_dim=16)
    return pipeline(
        tokenizer=tokenizer,
        text_encoder=SmolLM3ForCausalLM(config),
        vae=_wan_vae(),
        transformer=transformer,
        scheduler=euler(dynamic=True),
    )


def dit() -> DiffusionPipeline:
    """A picture of one of a thousand classes, three by three tokens."""
    transformer = tiny_transformer(cross.dit, **LATENTS, sample_size=6, num_embeds_ada_norm=1000)
    return DiTPipeline(vae=_vae(), transformer=transformer, scheduler=DDIMScheduler())


def pixart(pipeline: type[DiffusionPipeline]) -> DiffusionPipeline:
    transformer = tiny_transformer(cross.pixart, **LATENTS, caption_channels=32)
    return pipeline(**_t5(), vae=_vae(), transformer=transformer, scheduler=DPMSolverMultistepScheduler())


def prx() -> DiffusionPipeline:
    transformer = tiny_transformer(single_stream.prx, in_channels=16, resolution_embeds=False)
    return PRXPipeline(**_t5_gemma(), vae=_vae(), transformer=transformer, scheduler=euler())


def prx_pixel() -> DiffusionPipeline:
    """Tokens of 16 x 16 pixels; the language model of Qwen3 stands for that of Qwen3-VL."""
    transformer = tiny_transformer(single_stream.prx, in_channels=3, patch_size=16, bottleneck_size=12)
    return PRXPixelPipeline(**_qwen3(), transformer=transformer, scheduler=euler(), prompt_max_tokens=31)


def ace_step() -> DiffusionPipeline:
    """160 samples and 20 latents a second; two layers that see their neighbours only, two that see all."""
    return AceStepPipeline(
        **_qwen3(),
        vae=AutoencoderOobleck(
            encoder_hidden_size=8,
            downsampling_ratios=[2, 4],
            channel_multiples=[1, 2],
            decoder_channels=8,
            decoder_input_channels=4,
            sampling_rate=160,
        ),
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
        scheduler=FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0),
    )


def long_cat_audio() -> DiffusionPipeline:
    """200 samples and 25 latents a second."""
    vae = LongCatAudioDiTVae(
        channels=8,
        c_mults=[1, 2],
        strides=[2, 4],
        latent_dim=4,
        encoder_latent_dim=8,
        downsampling_ratio=8,
        sample_rate=200,
    )
    return LongCatAudioDiTPipeline(**_umt5(16), vae=vae, transformer=tiny_transformer(audio.longcat_audio))


def _vae() -> Any:
    return image_vae(scaling_factor=0.3611, shift_factor=0.1159)


def _wan_vae() -> AutoencoderKLWan:
    """Of Wan 2.2: 16 pixels a latent."""
    return AutoencoderKLWan(
        base_dim=8,
        z_dim=16,
        dim_mult=[1, 1, 2, 2],
        num_res_blocks=1,
        is_residual=True,
        in_channels=12,
        out_channels=12,
        patch_size=2,
        scale_factor_spatial=16,
    )


def _t5() -> dict[str, Any]:
    tokenizer = t5_tokenizer()
    return {"tokenizer": tokenizer, "text_encoder": t5(tokenizer)}


def _umt5(width: int) -> dict[str, Any]:
    tokenizer = t5_tokenizer()
    return {"tokenizer": tokenizer, "text_encoder": t5(tokenizer, UMT5EncoderModel, UMT5Config, width=width)}


def _t5_gemma() -> dict[str, Any]:
    tokenizer = qwen_tokenizer(31)
    config = T5GemmaModuleConfig(**_language(tokenizer), num_hidden_layers=2, head_dim=4, dropout_rate=0.0)
    return {"tokenizer": tokenizer, "text_encoder": T5GemmaEncoder(config)}


def _qwen3() -> dict[str, Any]:
    tokenizer = qwen_tokenizer()
    config = Qwen3Config(**_language(tokenizer), num_hidden_layers=2, head_dim=4)
    return {"tokenizer": tokenizer, "text_encoder": Qwen3Model(config)}


def _language(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }


def _picture() -> dict[str, Any]:
    """Three by five tokens, two branches in a doubled batch."""
    return {
        "prompt": PROMPT,
        "negative_prompt": "bad",
        "guidance_scale": 3.0,
        "height": 48,
        "width": 80,
        "num_inference_steps": 4,
    }


def _short() -> dict[str, Any]:
    return _picture() | {"max_sequence_length": 31}


def _edit() -> dict[str, Any]:
    """Fifteen tokens and twelve of the picture to edit, a part of which is hidden."""
    order = '{"edit_instruction": "a red circle"}'
    return _picture() | {"prompt": order, "image": picture(64, 48), "mask": mask(64, 48), "_auto_resize": False}


def _label() -> dict[str, Any]:
    return {"class_labels": [3], "guidance_scale": 3.0, "num_inference_steps": 4}


def _raw() -> dict[str, Any]:
    return _short() | {"clean_caption": False, "use_resolution_binning": False}


def _perturbed() -> dict[str, Any]:
    """Three branches, in a tripled batch."""
    return _raw() | {"pag_scale": 2.0}


def _unbinned() -> dict[str, Any]:
    return _picture() | {"use_resolution_binning": False}


def _song() -> dict[str, Any]:
    """29 latents, two a token, and two branches in a doubled batch."""
    return {
        "prompt": PROMPT,
        "lyrics": "la la",
        "audio_duration": 1.45,
        "num_inference_steps": 4,
        "guidance_scale": 3.0,
    }


def _song_guided_late() -> dict[str, Any]:
    """The first steps have one branch."""
    return _song() | {"cfg_interval_start": 0.2}


def _sound() -> dict[str, Any]:
    """15 latents, and two branches, one after the other."""
    return {
        "prompt": PROMPT,
        "negative_prompt": "bad",
        "audio_duration_s": 0.6,
        "num_inference_steps": 4,
        "guidance_scale": 3.0,
    }


TINY = {
    "AuraFlowPipeline": Tiny(aura_flow, _short, branches=2),
    "BriaPipeline": Tiny(bria, _short, branches=2),
    "BriaFiboPipeline": Tiny(partial(fibo, BriaFiboPipeline), _picture, branches=2),
    "BriaFiboEditPipeline": Tiny(partial(fibo, BriaFiboEditPipeline), _edit, branches=2),
    "DiTPipeline": Tiny(dit, _label, branches=2),
    "PixArtAlphaPipeline": Tiny(partial(pixart, PixArtAlphaPipeline), _raw, branches=2),
    "PixArtSigmaPipeline": Tiny(partial(pixart, PixArtSigmaPipeline), _raw, branches=2),
    "PixArtSigmaPAGPipeline": Tiny(partial(pixart, PixArtSigmaPAGPipeline), _perturbed, branches=3),
    "PRXPipeline": Tiny(prx, _unbinned, branches=2),
    "PRXPixelPipeline": Tiny(prx_pixel, _unbinned, branches=2),
    "AceStepPipeline": Tiny(ace_step, _song, branches=2),
    "AceStepPipeline:guided late": Tiny(ace_step, _song_guided_late, branches=2),
    "LongCatAudioDiTPipeline": Tiny(long_cat_audio, _sound, branches=2),
}
LEFT_OUT: dict[str, str] = {}
