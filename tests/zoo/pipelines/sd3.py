"""Stable Diffusion 3 with ControlNet and PAG, CogView 3 and 4, HiDream."""

from typing import Any

from diffusers import (
    CogVideoXDDIMScheduler,
    CogView3PlusPipeline,
    CogView3PlusTransformer2DModel,
    CogView4ControlPipeline,
    CogView4Pipeline,
    CogView4Transformer2DModel,
    HiDreamImagePipeline,
    HiDreamImageTransformer2DModel,
    SD3ControlNetModel,
    SD3Transformer2DModel,
    StableDiffusion3ControlNetInpaintingPipeline,
    StableDiffusion3ControlNetPipeline,
    StableDiffusion3Img2ImgPipeline,
    StableDiffusion3InpaintPipeline,
    StableDiffusion3PAGImg2ImgPipeline,
    StableDiffusion3PAGPipeline,
)
from transformers import (
    CLIPTextModelWithProjection,
    GlmConfig,
    GlmModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from support.tiny_models import sd3
from support.tiny_parts import clip, euler, image_vae, qwen3, t5
from support.tiny_tokenizers import chat_tokenizer, clip_tokenizer, t5_tokenizer
from zoo.pipelines.tiny import FEWER, GUIDED, NO_ROWS, PROMPT, REPLACED, SIZED, Tiny, mask, painted, seeded, wide

MODEL: dict[str, Any] = {
    "sample_size": 32,
    "patch_size": 2,
    "in_channels": 16,
    "num_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 64,
    "caption_projection_dim": 48,
    "pooled_projection_dim": 64,
    "pos_embed_max_size": 64,
}
COG: dict[str, Any] = {
    "patch_size": 2,
    "num_layers": 2,
    "attention_head_dim": 8,
    "num_attention_heads": 3,
    "out_channels": 16,
    "text_embed_dim": 32,
    "time_embed_dim": 8,
    "condition_dim": 4,
}
FACTORS = {"scaling_factor": 1.5305, "shift_factor": 0.0609}


def made(pipeline: Any, *, control: int | None = None) -> Any:
    """Three heads, without the query and key norms of 3.5; `control`: channels beside the picture's in a ControlNet."""
    first, second, third = clip_tokenizer(), clip_tokenizer(), t5_tokenizer()
    controlnet = {}
    if control is not None:
        controlnet["controlnet"] = SD3ControlNetModel(**MODEL, extra_conditioning_channels=control)
    return pipeline(
        transformer=SD3Transformer2DModel(**MODEL),
        scheduler=euler(),
        vae=image_vae(**FACTORS),
        text_encoder=clip(first, CLIPTextModelWithProjection),
        tokenizer=first,
        text_encoder_2=clip(second, CLIPTextModelWithProjection),
        tokenizer_2=second,
        text_encoder_3=t5(third, width=64),
        tokenizer_3=third,
        **controlnet,
    )


def cogview3() -> CogView3PlusPipeline:
    tokenizer = t5_tokenizer()
    return CogView3PlusPipeline(
        tokenizer=tokenizer,
        text_encoder=t5(tokenizer),
        vae=image_vae(**FACTORS),
        transformer=CogView3PlusTransformer2DModel(in_channels=16, pos_embed_max_size=16, sample_size=16, **COG),
        scheduler=CogVideoXDDIMScheduler(prediction_type="v_prediction", rescale_betas_zero_snr=True),
    )


def cogview4(pipeline: Any, *, in_channels: int) -> Any:
    tokenizer = chat_tokenizer()
    return pipeline(
        tokenizer=tokenizer,
        text_encoder=qwen3(tokenizer, GlmModel, config=GlmConfig),
        vae=image_vae(**FACTORS),
        transformer=CogView4Transformer2DModel(in_channels=in_channels, **COG),
        scheduler=euler(dynamic=True),
    )


def hidream() -> HiDreamImagePipeline:
    first, second, third, fourth = clip_tokenizer(), clip_tokenizer(), t5_tokenizer(), chat_tokenizer()
    transformer = HiDreamImageTransformer2DModel(
        patch_size=2,
        in_channels=16,
        out_channels=16,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=8,
        num_attention_heads=3,
        caption_channels=[32, 32],
        text_emb_dim=64,
        num_routed_experts=4,
        num_activated_experts=2,
        axes_dims_rope=(4, 2, 2),
        max_resolution=(10, 6),
        llama_layers=(0, 1, 2, 3),
    )
    pipeline = HiDreamImagePipeline(
        scheduler=euler(),
        vae=image_vae(**FACTORS),
        text_encoder=clip(first, CLIPTextModelWithProjection),
        tokenizer=first,
        text_encoder_2=clip(second, CLIPTextModelWithProjection),
        tokenizer_2=second,
        text_encoder_3=t5(third),
        tokenizer_3=third,
        text_encoder_4=qwen3(fourth, LlamaForCausalLM, layers=4, config=LlamaConfig),
        tokenizer_4=fourth,
        transformer=transformer,
    )
    pipeline.text_encoder_4.set_attn_implementation("eager")  # the pipeline asks for attention weights
    pipeline.default_sample_size = 8  # every picture is scaled to that area
    return pipeline


TEXT: dict[str, Any] = {"prompt": PROMPT, **GUIDED, **SIZED, "max_sequence_length": 32}


TINY = {
    "StableDiffusion3Pipeline": Tiny(sd3, lambda: TEXT),
    # In the second and third step a third call leaves the first layer out.
    "StableDiffusion3Pipeline:skipped layers": Tiny(
        sd3, lambda: {**TEXT, "skip_guidance_layers": [0], "skip_layer_guidance_stop": 0.6}
    ),
    "StableDiffusion3Img2ImgPipeline": Tiny(
        lambda: made(StableDiffusion3Img2ImgPipeline), lambda: {**TEXT, **FEWER, **wide("image")}
    ),
    "StableDiffusion3InpaintPipeline": Tiny(
        lambda: made(StableDiffusion3InpaintPipeline), lambda: {**TEXT, **FEWER, **painted()}
    ),
    "StableDiffusion3ControlNetPipeline": Tiny(
        lambda: made(StableDiffusion3ControlNetPipeline, control=0), lambda: seeded(**TEXT, **wide("control_image"))
    ),
    "StableDiffusion3ControlNetInpaintingPipeline": Tiny(
        lambda: made(StableDiffusion3ControlNetInpaintingPipeline, control=1),
        lambda: seeded(**TEXT, **wide("control_image"), control_mask=mask(80, 48)),
    ),
    "StableDiffusion3PAGPipeline": Tiny(
        lambda: made(StableDiffusion3PAGPipeline), lambda: TEXT, branches=3, unshared=NO_ROWS, refused=REPLACED
    ),
    "StableDiffusion3PAGImg2ImgPipeline": Tiny(
        lambda: made(StableDiffusion3PAGImg2ImgPipeline),
        lambda: {**TEXT, **FEWER, **wide("image")},
        branches=3,
        unshared=NO_ROWS,
        refused=REPLACED,
    ),
    "CogView3PlusPipeline": Tiny(cogview3, lambda: TEXT),
    "CogView4Pipeline": Tiny(lambda: cogview4(CogView4Pipeline, in_channels=16), lambda: TEXT),
    "CogView4ControlPipeline": Tiny(
        lambda: cogview4(CogView4ControlPipeline, in_channels=32), lambda: seeded(**TEXT, **wide("control_image"))
    ),
    "HiDreamImagePipeline": Tiny(hidream, lambda: TEXT),
}
LEFT_OUT: dict[str, str] = {}
