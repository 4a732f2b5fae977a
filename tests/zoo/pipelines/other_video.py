"""CogVideoX, Mochi, Allegro, Latte, EasyAnimate and Motif-Video."""

from typing import Any

import torch
from diffusers import (
    AllegroPipeline,
    AllegroTransformer3DModel,
    AutoencoderKLAllegro,
    AutoencoderKLCogVideoX,
    AutoencoderKLMagvit,
    AutoencoderKLMochi,
    CogVideoXDDIMScheduler,
    CogVideoXFunControlPipeline,
    CogVideoXImageToVideoPipeline,
    CogVideoXPipeline,
    CogVideoXTransformer3DModel,
    CogVideoXVideoToVideoPipeline,
    DDIMScheduler,
    EasyAnimateInpaintPipeline,
    EasyAnimatePipeline,
    EasyAnimateTransformer3DModel,
    LattePipeline,
    LatteTransformer3DModel,
    MochiPipeline,
    MochiTransformer3DModel,
    MotifVideoImage2VideoPipeline,
    MotifVideoPipeline,
    MotifVideoTransformer3DModel,
)
from diffusers.guiders import ClassifierFreeGuidance
from transformers import (
    Qwen2VLForConditionalGeneration,
    SiglipImageProcessorPil,
    T5Gemma2EncoderConfig,
)
from transformers.models.t5gemma2.modeling_t5gemma2 import T5Gemma2Encoder

from support.tiny_parts import euler, image_vae, t5, wan_vae
from support.tiny_tokenizers import chat_tokenizer, qwen_tokenizer, t5_tokenizer
from zoo.pipelines.tiny import PROMPT, Tiny, frames, picture

HEADS = 3
WIDTH, HEIGHT = 80, 48
"""Three by five tokens a frame."""


def _call(**changed: Any) -> dict[str, Any]:
    """Three latent frames; two branches in a doubled batch."""
    shared = {
        "prompt": PROMPT,
        "negative_prompt": "bad",
        "height": HEIGHT,
        "width": WIDTH,
        "num_frames": 9,
        "num_inference_steps": 4,
        "max_sequence_length": 16,
    }
    return {**shared, **changed}


def _without(call: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in call.items() if name not in names}


def _t5_parts() -> dict[str, Any]:
    tokenizer = t5_tokenizer()
    return {"tokenizer": tokenizer, "text_encoder": t5(tokenizer)}


def _cogvideox(kind: Any, in_channels: int = 4, **changed: Any) -> Any:
    transformer = CogVideoXTransformer3DModel(
        num_attention_heads=HEADS,
        attention_head_dim=16,
        in_channels=in_channels,
        out_channels=4,
        time_embed_dim=8,
        text_embed_dim=32,
        num_layers=2,
        sample_width=WIDTH // 8,
        sample_height=HEIGHT // 8,
        sample_frames=9,
        max_text_seq_length=16,
        **changed,
    )
    vae = AutoencoderKLCogVideoX(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=2
    )
    return kind(**_t5_parts(), vae=vae, transformer=transformer, scheduler=CogVideoXDDIMScheduler())


ROTARY = {"use_rotary_positional_embeddings": True}


def mochi() -> MochiPipeline:
    """The last block leaves the text as it is."""
    transformer = MochiTransformer3DModel(
        num_attention_heads=HEADS,
        attention_head_dim=8,
        num_layers=3,
        pooled_projection_dim=16,
        in_channels=12,
        text_embed_dim=32,
        time_embed_dim=4,
        max_sequence_length=16,
    )
    vae = AutoencoderKLMochi(
        latent_channels=12,
        encoder_block_out_channels=(32, 32, 32, 32),
        decoder_block_out_channels=(32, 32, 32, 32),
        layers_per_block=(1, 1, 1, 1, 1),
    )
    return MochiPipeline(**_t5_parts(), scheduler=euler(shift=1.0), vae=vae, transformer=transformer)


def allegro() -> AllegroPipeline:
    transformer = AllegroTransformer3DModel(
        num_attention_heads=HEADS,
        attention_head_dim=12,
        num_layers=2,
        cross_attention_dim=12 * HEADS,
        sample_width=WIDTH // 8,
        sample_height=HEIGHT // 8,
        sample_frames=3,
        caption_channels=32,
    )
    vae = AutoencoderKLAllegro(block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=2)
    vae.enable_tiling()  # it decodes in tiles only, of 24 frames if it is not told otherwise
    vae.kernel = vae.stride = 12, HEIGHT, WIDTH
    return AllegroPipeline(**_t5_parts(), vae=vae, transformer=transformer, scheduler=DDIMScheduler(clip_sample=False))


def latte() -> LattePipeline:
    """Attention within frames and across them, in turn."""
    transformer = LatteTransformer3DModel(
        num_attention_heads=HEADS,
        attention_head_dim=8,
        in_channels=4,
        out_channels=8,
        num_layers=2,
        cross_attention_dim=8 * HEADS,
        attention_bias=True,
        sample_size=10,
        patch_size=2,
        activation_fn="gelu-approximate",
        num_embeds_ada_norm=1000,
        norm_type="ada_norm_single",
        norm_elementwise_affine=False,
        norm_eps=1e-6,
        caption_channels=32,
        video_length=3,
    )
    return LattePipeline(
        **_t5_parts(), vae=image_vae(latents=4), transformer=transformer, scheduler=DDIMScheduler(clip_sample=False)
    )


def _easyanimate(kind: Any, in_channels: int, **changed: Any) -> Any:
    """A block with weights of its own for the text, then one that shares them."""
    tokenizer = chat_tokenizer()
    transformer = EasyAnimateTransformer3DModel(
        num_attention_heads=HEADS,
        attention_head_dim=16,
        in_channels=in_channels,
        out_channels=4,
        patch_size=2,
        num_layers=4,
        mmdit_layers=2,
        time_embed_dim=8,
        text_embed_dim=32,
        after_norm=True,
        add_norm_text_encoder=True,
        **changed,
    )
    vae = AutoencoderKLMagvit(latent_channels=4, block_out_channels=[8, 8, 8, 8], layers_per_block=1, norm_num_groups=2)
    return kind(
        vae=vae,
        text_encoder=_qwen2_vl(tokenizer),
        tokenizer=tokenizer,
        transformer=transformer,
        scheduler=euler(),
    )


def _qwen2_vl(tokenizer: Any) -> Qwen2VLForConditionalGeneration:
    ids = tokenizer.convert_tokens_to_ids
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e6},
    }
    vision = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
    config = Qwen2VLForConditionalGeneration.config_class(
        text_config=text,
        vision_config=vision,
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    return Qwen2VLForConditionalGeneration(config)


def easy(**changed: Any) -> dict[str, Any]:
    return _without(_call(**changed), "max_sequence_length")


def to_paint() -> dict[str, Any]:
    """The lower half is painted anew; this pipeline takes pixels in -1..1, B C F H W."""
    video = torch.linspace(-1, 1, 3 * 9 * HEIGHT * WIDTH).view(1, 3, 9, HEIGHT, WIDTH).sin()
    mask = torch.zeros(1, 1, 9, HEIGHT, WIDTH)
    mask[..., HEIGHT // 2 :, :] = 1
    return easy(video=video, mask_video=mask)


def _motif(kind: Any, **changed: Any) -> Any:
    """A batch a branch, by a guider."""
    tokenizer = qwen_tokenizer()
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "pad_token_id": tokenizer.pad_token_id,
        "dropout_rate": 0.0,
    }
    vision = {
        "hidden_size": 12,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    config = T5Gemma2EncoderConfig(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    transformer = MotifVideoTransformer3DModel(
        num_attention_heads=HEADS,
        attention_head_dim=8,
        num_layers=2,
        num_single_layers=4,
        num_decoder_layers=2,
        mlp_ratio=2.0,
        text_embed_dim=32,
        rope_axes_dim=(4, 2, 2),
        **changed,
    )
    return kind(
        scheduler=euler(),
        vae=wan_vae(),
        text_encoder=T5Gemma2Encoder(config),
        tokenizer=tokenizer,
        transformer=transformer,
        guider=ClassifierFreeGuidance(guidance_scale=3.0),
        feature_extractor=SiglipImageProcessorPil(size={"height": 28, "width": 28}),
    )


TINY = {
    CogVideoXPipeline.__name__: Tiny(lambda: _cogvideox(CogVideoXPipeline), _call, branches=2),
    CogVideoXImageToVideoPipeline.__name__: Tiny(
        lambda: _cogvideox(CogVideoXImageToVideoPipeline, 8, **ROTARY),
        lambda: _call(image=picture(WIDTH, HEIGHT)),
        branches=2,
    ),
    CogVideoXVideoToVideoPipeline.__name__: Tiny(
        lambda: _cogvideox(CogVideoXVideoToVideoPipeline, **ROTARY),
        lambda: _without(_call(video=frames(9, WIDTH, HEIGHT), strength=1.0), "num_frames"),
        branches=2,
    ),
    CogVideoXFunControlPipeline.__name__: Tiny(
        lambda: _cogvideox(CogVideoXFunControlPipeline, 8, **ROTARY),
        lambda: _without(_call(control_video=frames(9, WIDTH, HEIGHT), use_dynamic_cfg=True), "num_frames"),
        branches=2,
    ),
    MochiPipeline.__name__: Tiny(mochi, lambda: _call(num_frames=13), branches=2),
    AllegroPipeline.__name__: Tiny(allegro, _call, branches=2),
    LattePipeline.__name__: Tiny(
        latte,
        lambda: _without(_call(video_length=3), "num_frames", "max_sequence_length"),
        branches=2,
    ),
    EasyAnimatePipeline.__name__: Tiny(lambda: _easyanimate(EasyAnimatePipeline, 4), easy, branches=2),
    EasyAnimateInpaintPipeline.__name__: Tiny(
        lambda: _easyanimate(EasyAnimateInpaintPipeline, 12, resize_inpaint_mask_directly=False),
        to_paint,
        branches=2,
    ),
    MotifVideoPipeline.__name__: Tiny(lambda: _motif(MotifVideoPipeline), _call, branches=2),
    MotifVideoImage2VideoPipeline.__name__: Tiny(
        lambda: _motif(
            MotifVideoImage2VideoPipeline,
            image_embed_dim=12,
            enable_text_cross_attention_dual=True,
            enable_text_cross_attention_single=True,
        ),
        lambda: _call(image=picture(WIDTH, HEIGHT)),
        branches=2,
    ),
}
LEFT_OUT = {
    "EasyAnimateControlPipeline": (
        "diffusers 0.42.1 cannot call it: it hands text_encoder_index to its encode_prompt, which takes none"
    ),
}
