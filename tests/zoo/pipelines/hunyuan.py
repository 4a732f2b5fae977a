"""HunyuanVideo, HunyuanVideo 1.5, FramePack, and HunyuanImage."""

from collections.abc import Callable
from functools import partial
from typing import Any

import diffusers
import transformers
from diffusers.guiders import AdaptiveProjectedMixGuidance, ClassifierFreeGuidance

from support.tiny_parts import clip, clip_pictures, clip_vision, euler, hunyuan_vae, language, qwen_vl
from support.tiny_tokenizers import chat_tokenizer, clip_tokenizer, qwen_tokenizer
from zoo import hunyuan
from zoo.cases import Built, Case, tiny_transformer
from zoo.pipelines.tiny import HEIGHT, PROMPT, WIDTH, Tiny, picture, table, video_call

# Short: tiny tokenizers make many tokens of the default one, and would cut the prompt off.
TEMPLATE = {"template": "system: describe the video. user: {}", "crop_start": 5}
SPECIAL = ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<image>"]
PICTURED = (
    "<|start_header_id|><|end_header_id|><image>describe<|eot_id|>"
    "<|start_header_id|><|end_header_id|>{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
)


def _call(**changed: Any) -> dict[str, Any]:
    return video_call(true_cfg_scale=2.0, prompt_template=TEMPLATE, **changed)


def _llama(tokenizer: Any) -> transformers.LlamaConfig:
    ends = {"pad_token_id": tokenizer.pad_token_id, "bos_token_id": None, "eos_token_id": None}
    return transformers.LlamaConfig(**language(tokenizer, layers=3), **ends)


def _siglip() -> dict[str, Any]:
    sizes = {"hidden_size": 12, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.SiglipVisionConfig(**sizes, image_size=28, patch_size=14)
    extractor = transformers.SiglipImageProcessorPil(size={"height": 28, "width": 28})
    return {"image_encoder": transformers.SiglipVisionModel(config), "feature_extractor": extractor}


def _parts() -> dict[str, Any]:
    tokenizer, tokenizer_2 = qwen_tokenizer(), clip_tokenizer()
    return {
        "text_encoder": transformers.LlamaModel(_llama(tokenizer)),
        "tokenizer": tokenizer,
        "vae": hunyuan_vae(),
        "scheduler": euler(),
        "text_encoder_2": clip(tokenizer_2, transformers.CLIPTextModel),
        "tokenizer_2": tokenizer_2,
    }


def _transformer(build: Callable[[Case], Built] = hunyuan.hunyuan_video, *, in_channels: int = 4) -> Any:
    sizes = {"num_refiner_layers": 2, "patch_size": 2, "text_embed_dim": 32, "pooled_projection_dim": 32}
    return tiny_transformer(build, in_channels=in_channels, **sizes)


def video(kind: Any, **how: Any) -> Any:
    return kind(**_parts(), transformer=_transformer(**how))


def video_i2v(kind: Any) -> Any:
    """The first frame's tokens have a modulation of their own; the text encoder sees the picture too."""
    parts = _parts()
    tokenizer = parts["tokenizer"]
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    config = transformers.LlavaConfig(
        vision_config=clip_vision().config,
        text_config=_llama(tokenizer),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
    )
    parts["text_encoder"] = transformers.LlavaForConditionalGeneration(config)
    transformer = _transformer(hunyuan.hunyuan_video_token_replace)
    return kind(**parts, transformer=transformer, image_processor=clip_pictures())


def from_picture() -> dict[str, Any]:
    """Four tokens of the picture, after two of the template."""
    template = {"template": PICTURED, "crop_start": 7, "image_emb_start": 2, "image_emb_end": 6, "image_emb_len": 4}
    return {**_call(image=picture(WIDTH, HEIGHT)), "prompt_template": template}


def framepack(kind: Any) -> Any:
    return kind(**_parts(), **_siglip(), transformer=_transformer(hunyuan.hunyuan_video_framepack))


def _video15(kind: Any, *, task: str) -> Any:
    """A batch a branch, by a guider. Prompts are padded to less than its 1000 tokens, and 729 of a picture."""
    tokenizer = chat_tokenizer()
    sizes = {"in_channels": 9, "num_refiner_layers": 2, "text_embed_dim": 32, "target_size": 64}
    widths = (8, 8, 8, 8, 8)
    pipe = kind(
        text_encoder=qwen_vl(tokenizer).model.language_model,
        tokenizer=tokenizer,
        transformer=tiny_transformer(hunyuan.hunyuan_video_15, **sizes, task_type=task),
        vae=diffusers.AutoencoderKLHunyuanVideo15(latent_channels=4, block_out_channels=widths, layers_per_block=1),
        scheduler=euler(),
        **_glyphs(),
        guider=ClassifierFreeGuidance(guidance_scale=3.0),
        **(_siglip() if task == "i2v" else {}),
    )
    pipe.tokenizer_max_length, pipe.tokenizer_2_max_length = 32, 24
    if task == "t2v":
        pipe.vision_num_semantic_tokens = 9
    return pipe


def _glyphs() -> dict[str, Any]:
    """What the letters in quotation marks look like."""
    sizes = {"vocab_size": 384, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(**sizes, feed_forward_proj="gated-gelu")
    return {"text_encoder_2": transformers.T5EncoderModel(config), "tokenizer_2": transformers.ByT5Tokenizer()}


def letters(**more: Any) -> dict[str, Any]:
    """Of videos sixteen pixels a token."""
    return {"prompt": f'{PROMPT} and the word "LOOM"', "negative_prompt": "bad", "num_inference_steps": 4, **more}


def _image_parts() -> dict[str, Any]:
    """From the third step on the guider projects."""
    tokenizer = qwen_tokenizer()
    guider = AdaptiveProjectedMixGuidance(adaptive_projected_guidance_start_step=2)
    return {"scheduler": euler(), "text_encoder": qwen_vl(tokenizer), "tokenizer": tokenizer, "guider": guider}


IMAGE = {"in_channels": 16, "num_refiner_layers": 2, "text_embed_dim": 32}


def image(kind: Any) -> Any:
    vae = diffusers.AutoencoderKLHunyuanImage(
        in_channels=3,
        out_channels=3,
        latent_channels=16,
        block_out_channels=(32, 32, 32, 32),
        layers_per_block=1,
        spatial_compression_ratio=8,
        sample_size=64,
        scaling_factor=0.75,
    )
    return kind(
        **_image_parts(),
        **_glyphs(),
        vae=vae,
        transformer=tiny_transformer(hunyuan.hunyuan_image, **IMAGE, out_channels=16, text_embed_2_dim=8),
        ocr_guider=AdaptiveProjectedMixGuidance(adaptive_projected_guidance_start_step=2),
    )


def refiner(kind: Any) -> Any:
    widths = (8, 8, 8, 8, 8)
    sizes = {"out_channels": 8, "attention_head_dim": 8, "rope_axes_dim": (2, 2, 4), "patch_size": (1, 1, 1)}
    return kind(
        **_image_parts(),
        vae=diffusers.AutoencoderKLHunyuanImageRefiner(
            latent_channels=4, block_out_channels=widths, layers_per_block=1
        ),
        transformer=tiny_transformer(hunyuan.hunyuan_image, **IMAGE, **sizes, guidance_embeds=True),
    )


SIZE = {"height": HEIGHT, "width": WIDTH}
TINY = table(
    Tiny("HunyuanVideoPipeline", video, _call),
    Tiny("HunyuanVideoImageToVideoPipeline", video_i2v, from_picture),
    Tiny(
        "HunyuanSkyreelsImageToVideoPipeline",
        partial(video, in_channels=8),
        lambda: _call(image=picture(WIDTH, HEIGHT)),
    ),
    Tiny(
        "HunyuanVideoFramepackPipeline",
        framepack,
        lambda: _call(image=picture(WIDTH, HEIGHT), latent_window_size=3, num_frames=18),
    ),
    Tiny("HunyuanVideo15Pipeline", partial(_video15, task="t2v"), lambda: letters(num_frames=9, **SIZE)),
    Tiny(
        "HunyuanVideo15ImageToVideoPipeline",
        partial(_video15, task="i2v"),
        lambda: letters(num_frames=9, image=picture(WIDTH, HEIGHT)),
    ),
    Tiny("HunyuanImagePipeline", image, lambda: letters(height=24, width=40)),
    Tiny("HunyuanImageRefinerPipeline", refiner, lambda: letters(image=picture(WIDTH, HEIGHT), **SIZE)),
)
