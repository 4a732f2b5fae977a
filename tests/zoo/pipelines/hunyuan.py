"""HunyuanVideo, HunyuanVideo 1.5, FramePack, and HunyuanImage."""

from typing import Any

from diffusers import (
    AutoencoderKLHunyuanImage,
    AutoencoderKLHunyuanImageRefiner,
    AutoencoderKLHunyuanVideo15,
    HunyuanImagePipeline,
    HunyuanImageRefinerPipeline,
    HunyuanImageTransformer2DModel,
    HunyuanSkyreelsImageToVideoPipeline,
    HunyuanVideo15ImageToVideoPipeline,
    HunyuanVideo15Pipeline,
    HunyuanVideo15Transformer3DModel,
    HunyuanVideoFramepackPipeline,
    HunyuanVideoFramepackTransformer3DModel,
    HunyuanVideoImageToVideoPipeline,
    HunyuanVideoPipeline,
    HunyuanVideoTransformer3DModel,
)
from diffusers.guiders import AdaptiveProjectedMixGuidance, ClassifierFreeGuidance
from transformers import (
    ByT5Tokenizer,
    CLIPTextModel,
    LlamaConfig,
    LlamaModel,
    LlavaConfig,
    LlavaForConditionalGeneration,
    SiglipImageProcessorPil,
    SiglipVisionConfig,
    SiglipVisionModel,
    T5Config,
    T5EncoderModel,
)

from support.tiny_parts import clip, clip_pictures, clip_vision, euler, hunyuan_vae, language, qwen_vl
from support.tiny_tokenizers import chat_tokenizer, clip_tokenizer, qwen_tokenizer
from zoo.pipelines.tiny import HEIGHT, PROMPT, WIDTH, Tiny, picture, video_call

HEADS = 3
TEMPLATE = {"template": "system: describe the video. user: {}", "crop_start": 5}
"""Short: tiny tokenizers make many tokens of the default one, and would cut the prompt off."""
SPECIAL = ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<image>"]
PICTURED = (
    "<|start_header_id|><|end_header_id|><image>describe<|eot_id|>"
    "<|start_header_id|><|end_header_id|>{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
)


def _call(**changed: Any) -> dict[str, Any]:
    return video_call(true_cfg_scale=2.0, prompt_template=TEMPLATE, **changed)


def _llama(tokenizer: Any) -> LlamaConfig:
    ends = {"pad_token_id": tokenizer.pad_token_id, "bos_token_id": None, "eos_token_id": None}
    return LlamaConfig(**language(tokenizer, layers=3), **ends)


def _siglip() -> dict[str, Any]:
    config = SiglipVisionConfig(
        hidden_size=12,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
    )
    extractor = SiglipImageProcessorPil(size={"height": 28, "width": 28})
    return {"image_encoder": SiglipVisionModel(config), "feature_extractor": extractor}


def _parts() -> dict[str, Any]:
    tokenizer, tokenizer_2 = qwen_tokenizer(), clip_tokenizer()
    return {
        "text_encoder": LlamaModel(_llama(tokenizer)),
        "tokenizer": tokenizer,
        "vae": hunyuan_vae(),
        "scheduler": euler(),
        "text_encoder_2": clip(tokenizer_2, CLIPTextModel),
        "tokenizer_2": tokenizer_2,
    }


def _transformer(kind: Any = HunyuanVideoTransformer3DModel, in_channels: int = 4, **changed: Any) -> Any:
    return kind(
        in_channels=in_channels,
        out_channels=4,
        num_attention_heads=HEADS,
        attention_head_dim=10,
        num_layers=2,
        num_single_layers=2,
        num_refiner_layers=2,
        text_embed_dim=32,
        pooled_projection_dim=32,
        rope_axes_dim=(2, 4, 4),
        **changed,
    )


def video() -> HunyuanVideoPipeline:
    return HunyuanVideoPipeline(**_parts(), transformer=_transformer())


def video_i2v() -> HunyuanVideoImageToVideoPipeline:
    """The first frame's tokens have a modulation of their own; the text encoder sees the picture too."""
    parts = _parts()
    tokenizer = parts["tokenizer"]
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    parts["text_encoder"] = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=clip_vision().config,
            text_config=_llama(tokenizer),
            image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    return HunyuanVideoImageToVideoPipeline(
        **parts, transformer=_transformer(image_condition_type="token_replace"), image_processor=clip_pictures()
    )


def from_picture() -> dict[str, Any]:
    """Four tokens of the picture, after two of the template."""
    template = {"template": PICTURED, "crop_start": 7, "image_emb_start": 2, "image_emb_end": 6, "image_emb_len": 4}
    return {**_call(image=picture(WIDTH, HEIGHT)), "prompt_template": template}


def skyreels() -> HunyuanSkyreelsImageToVideoPipeline:
    return HunyuanSkyreelsImageToVideoPipeline(**_parts(), transformer=_transformer(in_channels=8))


def framepack() -> HunyuanVideoFramepackPipeline:
    transformer = _transformer(
        HunyuanVideoFramepackTransformer3DModel, has_image_proj=True, image_proj_dim=12, has_clean_x_embedder=True
    )
    return HunyuanVideoFramepackPipeline(**_parts(), **_siglip(), transformer=transformer)


def _video15(kind: Any, task: str, **parts: Any) -> Any:
    """A batch a branch, by a guider. Prompts are padded to less than its 1000 tokens, and 729 of a picture."""
    tokenizer = chat_tokenizer()
    transformer = HunyuanVideo15Transformer3DModel(
        in_channels=9,
        out_channels=4,
        num_attention_heads=HEADS,
        attention_head_dim=8,
        num_layers=2,
        num_refiner_layers=2,
        mlp_ratio=2.0,
        text_embed_dim=32,
        text_embed_2_dim=8,
        image_embed_dim=12,
        rope_axes_dim=(2, 2, 4),
        target_size=64,
        task_type=task,
    )
    pipe = kind(
        text_encoder=qwen_vl(tokenizer).model.language_model,
        tokenizer=tokenizer,
        transformer=transformer,
        vae=AutoencoderKLHunyuanVideo15(latent_channels=4, block_out_channels=(8, 8, 8, 8, 8), layers_per_block=1),
        scheduler=euler(),
        **_glyphs(),
        guider=ClassifierFreeGuidance(guidance_scale=3.0),
        **parts,
    )
    pipe.tokenizer_max_length, pipe.tokenizer_2_max_length = 32, 24
    if task == "t2v":
        pipe.vision_num_semantic_tokens = 9
    return pipe


def _glyphs() -> dict[str, Any]:
    """What the letters in quotation marks look like."""
    config = T5Config(
        vocab_size=384, d_model=8, d_kv=4, d_ff=16, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu"
    )
    return {"text_encoder_2": T5EncoderModel(config), "tokenizer_2": ByT5Tokenizer()}


def letters() -> dict[str, Any]:
    return {"prompt": f'{PROMPT} and the word "LOOM"', "negative_prompt": "bad", "num_inference_steps": 4}


def video15_call(**changed: Any) -> dict[str, Any]:
    """Sixteen pixels a token."""
    return {**letters(), "num_frames": 9, **changed}


def _image_transformer(in_channels: int, out_channels: int, **changed: Any) -> HunyuanImageTransformer2DModel:
    return HunyuanImageTransformer2DModel(
        in_channels=in_channels,
        out_channels=out_channels,
        num_attention_heads=HEADS,
        num_layers=2,
        num_single_layers=2,
        num_refiner_layers=2,
        mlp_ratio=2.0,
        text_embed_dim=32,
        **changed,
    )


def _image_parts() -> dict[str, Any]:
    tokenizer = qwen_tokenizer()
    return {"scheduler": euler(), "text_encoder": qwen_vl(tokenizer), "tokenizer": tokenizer}


def image() -> HunyuanImagePipeline:
    vae = AutoencoderKLHunyuanImage(
        in_channels=3,
        out_channels=3,
        latent_channels=16,
        block_out_channels=(32, 32, 32, 32),
        layers_per_block=1,
        spatial_compression_ratio=8,
        sample_size=64,
        scaling_factor=0.75,
    )
    return HunyuanImagePipeline(
        **_image_parts(),
        **_glyphs(),
        vae=vae,
        transformer=_image_transformer(16, 16, attention_head_dim=16, rope_axes_dim=(8, 8), text_embed_2_dim=8),
        guider=_mixed(),
        ocr_guider=_mixed(),
    )


def _mixed() -> AdaptiveProjectedMixGuidance:
    """From the third step on it projects."""
    return AdaptiveProjectedMixGuidance(adaptive_projected_guidance_start_step=2)


def refiner() -> HunyuanImageRefinerPipeline:
    vae = AutoencoderKLHunyuanImageRefiner(latent_channels=4, block_out_channels=(8, 8, 8, 8, 8), layers_per_block=1)
    transformer = _image_transformer(
        16, 8, attention_head_dim=8, rope_axes_dim=(2, 2, 4), patch_size=(1, 1, 1), guidance_embeds=True
    )
    return HunyuanImageRefinerPipeline(**_image_parts(), vae=vae, transformer=transformer, guider=_mixed())


TINY = {
    HunyuanVideoPipeline.__name__: Tiny(video, _call),
    HunyuanVideoImageToVideoPipeline.__name__: Tiny(video_i2v, from_picture),
    HunyuanSkyreelsImageToVideoPipeline.__name__: Tiny(skyreels, lambda: _call(image=picture(WIDTH, HEIGHT))),
    HunyuanVideoFramepackPipeline.__name__: Tiny(
        framepack, lambda: _call(image=picture(WIDTH, HEIGHT), latent_window_size=3, num_frames=18)
    ),
    HunyuanVideo15Pipeline.__name__: Tiny(
        lambda: _video15(HunyuanVideo15Pipeline, "t2v"), lambda: video15_call(height=HEIGHT, width=WIDTH)
    ),
    HunyuanVideo15ImageToVideoPipeline.__name__: Tiny(
        lambda: _video15(HunyuanVideo15ImageToVideoPipeline, "i2v", **_siglip()),
        lambda: video15_call(image=picture(WIDTH, HEIGHT)),
    ),
    HunyuanImagePipeline.__name__: Tiny(image, lambda: {**letters(), "height": 24, "width": 40}),
    HunyuanImageRefinerPipeline.__name__: Tiny(
        refiner, lambda: {**letters(), "image": picture(WIDTH, HEIGHT), "height": HEIGHT, "width": WIDTH}
    ),
}
LEFT_OUT: dict[str, str] = {}
