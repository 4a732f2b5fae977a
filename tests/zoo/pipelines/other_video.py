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

from support.tiny_parts import MROPE, euler, image_vae, language, seeing, t5_parts, wan_vae
from support.tiny_tokenizers import chat_tokenizer, qwen_tokenizer
from zoo.pipelines.tiny import HEIGHT, WIDTH, Tiny, frames, picture, video_call, without

HEADS = 3


def _call(**changed: Any) -> dict[str, Any]:
    return video_call(**{"max_sequence_length": 16, **changed})


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
    return kind(**t5_parts(), vae=vae, transformer=transformer, scheduler=CogVideoXDDIMScheduler())


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
    return MochiPipeline(**t5_parts(), scheduler=euler(shift=1.0), vae=vae, transformer=transformer)


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
    return AllegroPipeline(**t5_parts(), vae=vae, transformer=transformer, scheduler=DDIMScheduler(clip_sample=False))


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
        **t5_parts(), vae=image_vae(latents=4), transformer=transformer, scheduler=DDIMScheduler(clip_sample=False)
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
    vision = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
    config = Qwen2VLForConditionalGeneration.config_class(
        text_config=language(tokenizer, **MROPE), vision_config=vision, **seeing(tokenizer)
    )
    return Qwen2VLForConditionalGeneration(config)


def easy(**changed: Any) -> dict[str, Any]:
    return without(_call(**changed), "max_sequence_length")


def to_paint() -> dict[str, Any]:
    """The lower half is painted anew; this pipeline takes pixels in -1..1, B C F H W."""
    video = torch.linspace(-1, 1, 3 * 9 * HEIGHT * WIDTH).view(1, 3, 9, HEIGHT, WIDTH).sin()
    mask = torch.zeros(1, 1, 9, HEIGHT, WIDTH)
    mask[..., HEIGHT // 2 :, :] = 1
    return easy(video=video, mask_video=mask)


def _motif(kind: Any, **changed: Any) -> Any:
    """A batch a branch, by a guider."""
    tokenizer = qwen_tokenizer()
    text = language(tokenizer, head_dim=8, pad_token_id=tokenizer.pad_token_id, dropout_rate=0.0)
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
    CogVideoXPipeline.__name__: Tiny(lambda: _cogvideox(CogVideoXPipeline), _call),
    CogVideoXImageToVideoPipeline.__name__: Tiny(
        lambda: _cogvideox(CogVideoXImageToVideoPipeline, 8, **ROTARY), lambda: _call(image=picture(WIDTH, HEIGHT))
    ),
    CogVideoXVideoToVideoPipeline.__name__: Tiny(
        lambda: _cogvideox(CogVideoXVideoToVideoPipeline, **ROTARY),
        lambda: without(_call(video=frames(9, WIDTH, HEIGHT), strength=1.0), "num_frames"),
    ),
    CogVideoXFunControlPipeline.__name__: Tiny(
        lambda: _cogvideox(CogVideoXFunControlPipeline, 8, **ROTARY),
        lambda: without(_call(control_video=frames(9, WIDTH, HEIGHT), use_dynamic_cfg=True), "num_frames"),
    ),
    MochiPipeline.__name__: Tiny(mochi, lambda: _call(num_frames=13)),
    AllegroPipeline.__name__: Tiny(allegro, _call),
    LattePipeline.__name__: Tiny(latte, lambda: without(_call(video_length=3), "num_frames", "max_sequence_length")),
    EasyAnimatePipeline.__name__: Tiny(lambda: _easyanimate(EasyAnimatePipeline, 4), easy),
    EasyAnimateInpaintPipeline.__name__: Tiny(
        lambda: _easyanimate(EasyAnimateInpaintPipeline, 12, resize_inpaint_mask_directly=False), to_paint
    ),
    MotifVideoPipeline.__name__: Tiny(lambda: _motif(MotifVideoPipeline), _call),
    MotifVideoImage2VideoPipeline.__name__: Tiny(
        lambda: _motif(
            MotifVideoImage2VideoPipeline,
            image_embed_dim=12,
            enable_text_cross_attention_dual=True,
            enable_text_cross_attention_single=True,
        ),
        lambda: _call(image=picture(WIDTH, HEIGHT)),
    ),
}
LEFT_OUT = {
    "EasyAnimateControlPipeline": (
        "diffusers 0.42.1 cannot call it: it hands text_encoder_index to its encode_prompt, which takes none"
    ),
}
