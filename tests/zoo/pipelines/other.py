"""Families of one or two pipelines: AuraFlow, Bria, DiT, PixArt, PRX, and the first HunyuanDiT and Lumina."""

from functools import partial
from typing import Any

from diffusers import (
    AuraFlowPipeline,
    BriaFiboEditPipeline,
    BriaFiboPipeline,
    BriaPipeline,
    DDIMScheduler,
    DDPMScheduler,
    DiffusionPipeline,
    DiTPipeline,
    HunyuanDiT2DControlNetModel,
    HunyuanDiTControlNetPipeline,
    HunyuanDiTPAGPipeline,
    HunyuanDiTPipeline,
    LuminaPipeline,
    PixArtAlphaPipeline,
    PixArtSigmaPAGPipeline,
    PixArtSigmaPipeline,
    PRXPipeline,
    PRXPixelPipeline,
)
from transformers import (
    BertConfig,
    BertModel,
    GemmaConfig,
    GemmaModel,
    Qwen3Config,
    Qwen3Model,
    SmolLM3Config,
    SmolLM3ForCausalLM,
    T5GemmaModuleConfig,
)
from transformers.models.t5gemma.modeling_t5gemma import T5GemmaEncoder

from support.tiny_parts import UMT5, euler, image_vae, small_language, t5_parts, wan_vae
from support.tiny_tokenizers import qwen_tokenizer
from zoo import cross, hunyuan, image_joint, single_stream
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import NO_ROWS, PICTURE, Tiny, mask, picture

LATENTS = {"in_channels": 16, "out_channels": 32}
"""The mean and what is dropped of the variance."""


HUNYUAN = {
    "in_channels": 16,
    "cross_attention_dim": 16,
    "cross_attention_dim_t5": 32,
    "text_len": 77,
    "text_len_t5": 256,
}


def aura_flow() -> DiffusionPipeline:
    transformer = tiny_transformer(image_joint.aura_flow, in_channels=16, out_channels=16)
    return AuraFlowPipeline(**t5_parts(*UMT5), vae=_vae(), transformer=transformer, scheduler=euler())


def bria() -> DiffusionPipeline:
    transformer = tiny_transformer(image_joint.bria, in_channels=64)
    return BriaPipeline(**t5_parts(), vae=_vae(), transformer=transformer, scheduler=euler(dynamic=True))


def fibo(pipeline: type[DiffusionPipeline]) -> DiffusionPipeline:
    """The last layers of its text encoder feed one block of the transformer each."""
    tokenizer = qwen_tokenizer()
    config = SmolLM3Config(**small_language(tokenizer, layers=4))
    transformer = tiny_transformer(image_joint.bria_fibo, in_channels=16, text_encoder_dim=16)
    return pipeline(
        tokenizer=tokenizer,
        text_encoder=SmolLM3ForCausalLM(config),
        # of Wan 2.2: 16 pixels a latent
        vae=wan_vae(is_residual=True, in_channels=12, out_channels=12, patch_size=2, scale_factor_spatial=16),
        transformer=transformer,
        scheduler=euler(dynamic=True),
    )


def dit() -> DiffusionPipeline:
    """A picture of one of a thousand classes, three by three tokens."""
    transformer = tiny_transformer(cross.dit, **LATENTS, sample_size=6, num_embeds_ada_norm=1000)
    return DiTPipeline(vae=_vae(), transformer=transformer, scheduler=DDIMScheduler())


def hunyuan_dit(pipeline: type[DiffusionPipeline] = HunyuanDiTPipeline, **more: Any) -> DiffusionPipeline:
    """Four layers, the last two of which read what the first left; without a safety checker."""
    tokenizer = qwen_tokenizer(77)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=77,
        pad_token_id=tokenizer.pad_token_id,
    )
    second = t5_parts()
    return pipeline(
        tokenizer=tokenizer,
        text_encoder=BertModel(config),
        tokenizer_2=second["tokenizer"],
        text_encoder_2=second["text_encoder"],
        vae=_vae(),
        transformer=tiny_transformer(hunyuan.hunyuan_dit, **HUNYUAN, learn_sigma=True),
        scheduler=DDPMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
        **more,
    )


def hunyuan_dit_controlnet() -> DiffusionPipeline:
    net = HunyuanDiT2DControlNetModel(
        num_attention_heads=3,
        attention_head_dim=8,
        patch_size=2,
        sample_size=16,
        hidden_size=24,
        transformer_num_layers=4,
        mlp_ratio=2.0,
        pooled_projection_dim=8,
        **HUNYUAN,
    )
    return hunyuan_dit(HunyuanDiTControlNetPipeline, controlnet=net)


def lumina() -> DiffusionPipeline:
    tokenizer = qwen_tokenizer()
    config = GemmaConfig(**small_language(tokenizer), head_dim=4)
    return LuminaPipeline(
        tokenizer=tokenizer,
        text_encoder=GemmaModel(config),
        vae=_vae(),
        transformer=tiny_transformer(single_stream.lumina_next, in_channels=16),
        scheduler=euler(),
    )


def pixart(pipeline: type[DiffusionPipeline]) -> DiffusionPipeline:
    """With DDIM: DPM-Solver, which its models come with, warns where NumPy is 2."""
    transformer = tiny_transformer(cross.pixart, **LATENTS, caption_channels=32)
    return pipeline(**t5_parts(), vae=_vae(), transformer=transformer, scheduler=DDIMScheduler())


def prx() -> DiffusionPipeline:
    transformer = tiny_transformer(single_stream.prx, in_channels=16, resolution_embeds=False)
    return PRXPipeline(**_t5_gemma(), vae=_vae(), transformer=transformer, scheduler=euler())


def prx_pixel() -> DiffusionPipeline:
    """Tokens of 16 x 16 pixels; the language model of Qwen3 stands for that of Qwen3-VL."""
    transformer = tiny_transformer(single_stream.prx, in_channels=3, patch_size=16, bottleneck_size=12)
    return PRXPixelPipeline(**_qwen3(), transformer=transformer, scheduler=euler(), prompt_max_tokens=31)


def _vae() -> Any:
    return image_vae(scaling_factor=0.3611, shift_factor=0.1159)


def _t5_gemma() -> dict[str, Any]:
    tokenizer = qwen_tokenizer(31)
    config = T5GemmaModuleConfig(**small_language(tokenizer), head_dim=4, dropout_rate=0.0)
    return {"tokenizer": tokenizer, "text_encoder": T5GemmaEncoder(config)}


def _qwen3() -> dict[str, Any]:
    tokenizer = qwen_tokenizer()
    config = Qwen3Config(**small_language(tokenizer), head_dim=4)
    return {"tokenizer": tokenizer, "text_encoder": Qwen3Model(config)}


def _short() -> dict[str, Any]:
    return PICTURE | {"max_sequence_length": 31}


def _edit() -> dict[str, Any]:
    """Fifteen tokens and twelve of the picture to edit, a part of which is hidden."""
    order = '{"edit_instruction": "a red circle"}'
    return PICTURE | {"prompt": order, "image": picture(64, 48), "mask": mask(64, 48), "_auto_resize": False}


def _label() -> dict[str, Any]:
    return {"class_labels": [3], "guidance_scale": 3.0, "num_inference_steps": 4}


def _raw() -> dict[str, Any]:
    return _short() | {"clean_caption": False, "use_resolution_binning": False}


def _controlled() -> dict[str, Any]:
    """The latents of the control picture are drawn from torch's global generator."""
    return _unbinned() | {"control_image": picture(80, 48), "controlnet_conditioning_scale": 0.6}


def _perturbed_hunyuan() -> dict[str, Any]:
    return _unbinned() | {"pag_scale": 2.0}


def _uncleaned() -> dict[str, Any]:
    return PICTURE | {"clean_caption": False}


def _perturbed() -> dict[str, Any]:
    """Three branches, in a tripled batch."""
    return _raw() | {"pag_scale": 2.0}


def _unbinned() -> dict[str, Any]:
    return PICTURE | {"use_resolution_binning": False}


TINY = {
    "AuraFlowPipeline": Tiny(aura_flow, _short),
    "BriaPipeline": Tiny(bria, _short),
    "BriaFiboPipeline": Tiny(partial(fibo, BriaFiboPipeline), lambda: PICTURE),
    "BriaFiboEditPipeline": Tiny(partial(fibo, BriaFiboEditPipeline), _edit),
    "DiTPipeline": Tiny(dit, _label),
    "HunyuanDiTPipeline": Tiny(hunyuan_dit, _unbinned),
    "HunyuanDiTPAGPipeline": Tiny(
        partial(hunyuan_dit, HunyuanDiTPAGPipeline), _perturbed_hunyuan, branches=3, unshared=NO_ROWS
    ),
    "HunyuanDiTControlNetPipeline": Tiny(hunyuan_dit_controlnet, _controlled),
    "LuminaPipeline": Tiny(lumina, _uncleaned),
    "PixArtAlphaPipeline": Tiny(partial(pixart, PixArtAlphaPipeline), _raw),
    "PixArtSigmaPipeline": Tiny(partial(pixart, PixArtSigmaPipeline), _raw),
    "PixArtSigmaPAGPipeline": Tiny(partial(pixart, PixArtSigmaPAGPipeline), _perturbed, branches=3, unshared=NO_ROWS),
    "PRXPipeline": Tiny(prx, _unbinned),
    "PRXPixelPipeline": Tiny(prx_pixel, _unbinned),
}
LEFT_OUT: dict[str, str] = {}
