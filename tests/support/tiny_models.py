"""Tiny random-weight model folders in the full diffusers format: real classes, small configs, no network.

`write_tiny(family, folder)`. Heads are 4, so 2 and 4 ranks divide them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKLQwenImage,
    DiffusionPipeline,
    FluxPipeline,
    FluxTransformer2DModel,
    ModularPipeline,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    WanImageToVideoPipeline,
    WanPipeline,
    WanTransformer3DModel,
)
from transformers import CLIPTextModel, CLIPTextModelWithProjection

from support.tiny_parts import clip, clip_pictures, clip_vision, euler, fill, image_vae, qwen_vl, t5, wan_parts, wan_vae
from support.tiny_rows import TINY_ROWS, ltx_25_decoded, write_upsampler
from support.tiny_tokenizers import clip_tokenizer, qwen_tokenizer, t5_tokenizer
from zoo.pipelines import tiny_of


def write_tiny(family: str, folder: Path | str) -> Path:
    """Write the model of that family, or of a class that is run whole, into `folder`: always with the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        pipeline = (FAMILIES.get(family) or OTHERS.get(family) or TINY_ROWS[family].make)()
    fill(pipeline)
    options = {"overwrite_modular_index": True} if isinstance(pipeline, ModularPipeline) else {}
    pipeline.save_pretrained(str(folder), **options)
    if family.endswith("_larger"):
        write_upsampler(Path(folder))
    return Path(folder)


FLUX: dict[str, Any] = {
    "num_layers": 2,
    "num_single_layers": 2,
    "attention_head_dim": 16,
    "joint_attention_dim": 32,
    "pooled_projection_dim": 32,
    "axes_dims_rope": (4, 6, 6),
}


def flux_parts(*, is_guided: bool = True, in_channels: int = 64, heads: int = 4, **config: int) -> dict[str, Any]:
    tokenizer, tokenizer_2 = clip_tokenizer(), t5_tokenizer()
    of_all = {"in_channels": in_channels, "num_attention_heads": heads, "guidance_embeds": is_guided}
    return {
        "scheduler": euler(dynamic=True) if is_guided else euler(shift=1.0),
        "vae": image_vae(scaling_factor=0.3611, shift_factor=0.1159),
        "text_encoder": clip(tokenizer, CLIPTextModel),
        "tokenizer": tokenizer,
        "text_encoder_2": t5(tokenizer_2),
        "tokenizer_2": tokenizer_2,
        "transformer": FluxTransformer2DModel(**FLUX, **of_all, **config),
    }


def flux() -> FluxPipeline:
    return FluxPipeline(**flux_parts())


def flux_schnell() -> FluxPipeline:
    return FluxPipeline(**flux_parts(is_guided=False))


def sd3_parts(**config: Any) -> dict[str, Any]:
    tokenizer, tokenizer_2, tokenizer_3 = clip_tokenizer(), clip_tokenizer(), t5_tokenizer()
    return {
        "transformer": SD3Transformer2DModel(**config),
        "scheduler": euler(),
        "vae": image_vae(scaling_factor=1.5305, shift_factor=0.0609),
        "text_encoder": clip(tokenizer, CLIPTextModelWithProjection),
        "tokenizer": tokenizer,
        "text_encoder_2": clip(tokenizer_2, CLIPTextModelWithProjection),
        "tokenizer_2": tokenizer_2,
        "text_encoder_3": t5(tokenizer_3, width=64),
        "tokenizer_3": tokenizer_3,
    }


SD3: dict[str, Any] = {
    "sample_size": 32,
    "patch_size": 2,
    "in_channels": 16,
    "num_layers": 2,
    "attention_head_dim": 16,
    "joint_attention_dim": 64,
    "pooled_projection_dim": 64,
    "pos_embed_max_size": 64,
}


def sd3() -> StableDiffusion3Pipeline:
    """Like SD3.5 medium: query and key norms, and a block with dual attention."""
    norms = {"qk_norm": "rms_norm", "dual_attention_layers": (0,)}
    return StableDiffusion3Pipeline(**sd3_parts(**SD3, **norms, num_attention_heads=4, caption_projection_dim=64))


def qwen_image() -> QwenImagePipeline:
    tokenizer = qwen_tokenizer()
    transformer = QwenImageTransformer2DModel(
        in_channels=64,
        out_channels=16,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=32,
        axes_dims_rope=(4, 6, 6),
    )
    return QwenImagePipeline(
        scheduler=euler(dynamic=True),
        vae=wan_vae(AutoencoderKLQwenImage),
        text_encoder=qwen_vl(tokenizer),
        tokenizer=tokenizer,
        transformer=transformer,
    )


def wan() -> WanPipeline:
    return WanPipeline(**wan_parts(), transformer=_wan_transformer(16))


def wan22() -> WanPipeline:
    """Two experts: `transformer` down to 87.5 % noise, `transformer_2` below."""
    transformers = {"transformer": _wan_transformer(16), "transformer_2": _wan_transformer(16)}
    return WanPipeline(**wan_parts(), **transformers, boundary_ratio=0.875)


def wan_i2v() -> WanImageToVideoPipeline:
    """Wan 2.1: the first frame is told by CLIP vision and by latents (16 noise + 4 mask + 16 picture channels)."""
    return WanImageToVideoPipeline(
        **wan_parts(),
        transformer=_wan_transformer(36, image_dim=32, added_kv_proj_dim=48),
        image_encoder=clip_vision(),
        image_processor=clip_pictures(),
    )


def wan_flf2v() -> WanImageToVideoPipeline:
    """Wan 2.1 that goes from a first to a last frame: CLIP vision sees both, 5 tokens of each."""
    made = wan_i2v()
    made.transformer = _wan_transformer(36, image_dim=32, added_kv_proj_dim=48, pos_embed_seq_len=10)
    return made


def wan22_i2v() -> WanImageToVideoPipeline:
    """Wan 2.2: two experts, the first frame told by latents only."""
    transformers = {"transformer": _wan_transformer(36), "transformer_2": _wan_transformer(36)}
    absent = {"image_encoder": None, "image_processor": None}
    return WanImageToVideoPipeline(**wan_parts(), **transformers, **absent, boundary_ratio=0.9)


FAMILIES: dict[str, Callable[[], DiffusionPipeline]] = {
    "flux": flux,
    "flux_schnell": flux_schnell,
    "sd3": sd3,
    "qwen_image": qwen_image,
    "wan": wan,
    "wan_i2v": wan_i2v,
    "wan_flf2v": wan_flf2v,
    "wan22": wan22,
    "wan22_i2v": wan22_i2v,
}
# Of a class that is run whole, and of rows that another model of theirs stands for; `larger` is one with an upsampler.
OTHERS: dict[str, Callable[[], Any]] = {
    "wan_vace": lambda: tiny_of("WanVACEPipeline").make(),
    "ltx_25_decoded": ltx_25_decoded,
    **{f"{name}_larger": TINY_ROWS[name].make for name in ("ltx_2", "ltx_25")},
}


def _wan_transformer(in_channels: int, **image: int) -> WanTransformer3DModel:
    return WanTransformer3DModel(
        num_attention_heads=4,
        attention_head_dim=12,
        in_channels=in_channels,
        out_channels=16,
        text_dim=32,
        freq_dim=32,
        ffn_dim=96,
        num_layers=2,
        rope_max_seq_len=256,
        **image,
    )
