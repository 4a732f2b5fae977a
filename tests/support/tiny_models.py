"""Tiny random-weight model folders in the full diffusers format: real classes, small configs, no network.

`write_tiny(family, folder)`. Heads are 4, so 2 and 4 ranks divide them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLQwenImage,
    AutoencoderKLWan,
    DiffusionPipeline,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    UniPCMultistepScheduler,
    WanImageToVideoPipeline,
    WanPipeline,
    WanTransformer3DModel,
)
from transformers import (
    CLIPImageProcessorPil,
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPVisionConfig,
    CLIPVisionModel,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    T5Config,
    T5EncoderModel,
    UMT5Config,
    UMT5EncoderModel,
)

from support.tiny_tokenizers import clip_tokenizer, qwen_tokenizer, t5_tokenizer


def write_tiny(family: str, folder: Path | str) -> Path:
    """Write the model of that family into `folder`; the same family always gives the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        pipeline = FAMILIES[family]()
    _fill(pipeline)
    pipeline.save_pretrained(str(folder))
    return Path(folder)


def flux(*, guidance_embeds: bool = True) -> FluxPipeline:
    tokenizer, tokenizer_2 = clip_tokenizer(), t5_tokenizer()
    transformer = FluxTransformer2DModel(
        in_channels=64,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        guidance_embeds=guidance_embeds,
        axes_dims_rope=(4, 6, 6),
    )
    return FluxPipeline(
        scheduler=_euler(dynamic=True) if guidance_embeds else _euler(shift=1.0),
        vae=_image_vae(scaling_factor=0.3611, shift_factor=0.1159),
        text_encoder=_clip(tokenizer, CLIPTextModel),
        tokenizer=tokenizer,
        text_encoder_2=_t5(tokenizer_2),
        tokenizer_2=tokenizer_2,
        transformer=transformer,
    )


def flux_schnell() -> FluxPipeline:
    return flux(guidance_embeds=False)


def sd3() -> StableDiffusion3Pipeline:
    """Like SD3.5 medium: query and key norms, and a block with dual attention."""
    tokenizer, tokenizer_2, tokenizer_3 = clip_tokenizer(), clip_tokenizer(), t5_tokenizer()
    transformer = SD3Transformer2DModel(
        sample_size=32,
        patch_size=2,
        in_channels=16,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=64,
        caption_projection_dim=64,
        pooled_projection_dim=64,
        pos_embed_max_size=64,
        qk_norm="rms_norm",
        dual_attention_layers=(0,),
    )
    return StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=_euler(),
        vae=_image_vae(scaling_factor=1.5305, shift_factor=0.0609),
        text_encoder=_clip(tokenizer, CLIPTextModelWithProjection),
        tokenizer=tokenizer,
        text_encoder_2=_clip(tokenizer_2, CLIPTextModelWithProjection),
        tokenizer_2=tokenizer_2,
        text_encoder_3=_t5(tokenizer_3, width=64),
        tokenizer_3=tokenizer_3,
    )


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
        scheduler=_euler(dynamic=True),
        vae=AutoencoderKLQwenImage(base_dim=8, z_dim=16, dim_mult=[1, 1, 2, 2], num_res_blocks=1),
        text_encoder=_qwen_vl(tokenizer),
        tokenizer=tokenizer,
        transformer=transformer,
    )


def wan() -> WanPipeline:
    return WanPipeline(**_wan_parts(), transformer=_wan_transformer(16))


def wan22() -> WanPipeline:
    """Two experts: `transformer` down to 87.5 % noise, `transformer_2` below."""
    transformers = {"transformer": _wan_transformer(16), "transformer_2": _wan_transformer(16)}
    return WanPipeline(**_wan_parts(), **transformers, boundary_ratio=0.875)


def wan_i2v() -> WanImageToVideoPipeline:
    """Wan 2.1: the first frame is told by CLIP vision and by latents (16 noise + 4 mask + 16 picture channels)."""
    return WanImageToVideoPipeline(
        **_wan_parts(),
        transformer=_wan_transformer(36, image_dim=32, added_kv_proj_dim=48),
        image_encoder=_clip_vision(),
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
    )


def wan22_i2v() -> WanImageToVideoPipeline:
    """Wan 2.2: two experts, the first frame told by latents only."""
    transformers = {"transformer": _wan_transformer(36), "transformer_2": _wan_transformer(36)}
    absent = {"image_encoder": None, "image_processor": None}
    return WanImageToVideoPipeline(**_wan_parts(), **transformers, **absent, boundary_ratio=0.9)


FAMILIES: dict[str, Callable[[], DiffusionPipeline]] = {
    "flux": flux,
    "flux_schnell": flux_schnell,
    "sd3": sd3,
    "qwen_image": qwen_image,
    "wan": wan,
    "wan_i2v": wan_i2v,
    "wan22": wan22,
    "wan22_i2v": wan22_i2v,
}


def _euler(*, shift: float = 3.0, dynamic: bool = False) -> FlowMatchEulerDiscreteScheduler:
    by_size = {"base_shift": 0.5, "max_shift": 1.15, "base_image_seq_len": 256, "max_image_seq_len": 4096}
    return FlowMatchEulerDiscreteScheduler(
        num_train_timesteps=1000, shift=shift, use_dynamic_shifting=dynamic, **(by_size if dynamic else {})
    )


def _image_vae(**factors: float) -> AutoencoderKL:
    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=16,
        block_out_channels=(8, 8, 16, 16),  # four blocks: 8 pixels a latent, as in every published model
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        sample_size=64,
        use_quant_conv=False,
        use_post_quant_conv=False,
        **factors,
    )


def _clip(tokenizer: Any, kind: Any) -> Any:
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        projection_dim=32,
        max_position_embeddings=77,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return kind(config)


def _clip_vision() -> CLIPVisionModel:
    config = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        projection_dim=32,
        image_size=28,
        patch_size=14,
    )
    return CLIPVisionModel(config)


def _t5(tokenizer: Any, kind: Any = T5EncoderModel, config: Any = T5Config, *, width: int = 32) -> Any:
    return kind(
        config(
            vocab_size=len(tokenizer),
            d_model=width,
            d_kv=width // 4,
            d_ff=2 * width,
            num_layers=2,
            num_heads=4,
            feed_forward_proj="gated-gelu",
            pad_token_id=0,
            eos_token_id=1,
            decoder_start_token_id=0,
        )
    )


def _qwen_vl(tokenizer: Any) -> Qwen2_5_VLForConditionalGeneration:
    ids = tokenizer.convert_tokens_to_ids
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": ids("<|endoftext|>"),
        "eos_token_id": ids("<|im_end|>"),
        "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e6},
    }
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 32,
        "patch_size": 14,
        "fullatt_block_indexes": [1],
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def _wan_parts() -> dict[str, Any]:
    tokenizer = t5_tokenizer()
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=3.0
    )
    return {
        "tokenizer": tokenizer,
        "text_encoder": _t5(tokenizer, UMT5EncoderModel, UMT5Config),
        "vae": AutoencoderKLWan(base_dim=8, z_dim=16, dim_mult=[1, 1, 2, 2], num_res_blocks=1),
        "scheduler": scheduler,
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


QUERY_KEY_NORMS = ("norm_q.", "norm_k.", "norm_added_q.", "norm_added_k.")


def _fill(pipeline: DiffusionPipeline) -> None:
    """Give every parameter a value that matters.

    Default initialisation leaves some unset, gates at zero and attention flat: a dropped block would go unseen.
    """
    generator = torch.Generator().manual_seed(0)
    modules = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    with torch.no_grad():
        for name, parameter in (item for module in modules for item in module.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim >= 2:
                parameter.copy_(noise / parameter[0].numel() ** 0.5)
            elif name.endswith("bias"):
                parameter.copy_(noise * 0.02)
            else:  # a norm; 2.5 on queries and keys: attention that is not flat
                parameter.copy_((2.5 if any(norm in name for norm in QUERY_KEY_NORMS) else 1.0) + noise * 0.02)
