"""CogVideoX, Mochi, Allegro, Latte, EasyAnimate and Motif-Video."""

from functools import partial
from typing import Any

import diffusers
import torch
import transformers
from diffusers.guiders import ClassifierFreeGuidance
from transformers.models.t5gemma2.modeling_t5gemma2 import T5Gemma2Encoder

from support.tiny_parts import MROPE, chat_parts, euler, image_vae, language, seeing, t5_parts, wan_vae
from support.tiny_tokenizers import qwen_tokenizer
from zoo import cog, video
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import HEIGHT, WIDTH, Tiny, frames, picture, table, video_call, without

NARROW = (8, 8, 8, 8)


def _call(**changed: Any) -> dict[str, Any]:
    return video_call(**{"max_sequence_length": 16, **changed})


def _cogvideox(kind: Any, *, in_channels: int = 4, is_rotary: bool = True) -> Any:
    sizes = {"sample_width": WIDTH // 8, "sample_height": HEIGHT // 8, "sample_frames": 9, "max_text_seq_length": 16}
    return kind(
        **t5_parts(),
        vae=diffusers.AutoencoderKLCogVideoX(
            latent_channels=4, block_out_channels=NARROW, layers_per_block=1, norm_num_groups=2
        ),
        transformer=tiny_transformer(
            cog.cogvideox_rotary if is_rotary else cog.cogvideox, in_channels=in_channels, text_embed_dim=32, **sizes
        ),
        scheduler=diffusers.CogVideoXDDIMScheduler(),
    )


def mochi(kind: Any) -> Any:
    """The last block leaves the text as it is."""
    sizes = {"num_layers": 3, "in_channels": 12, "text_embed_dim": 32, "max_sequence_length": 16}
    vae = diffusers.AutoencoderKLMochi(
        latent_channels=12,
        encoder_block_out_channels=(32, 32, 32, 32),
        decoder_block_out_channels=(32, 32, 32, 32),
        layers_per_block=(1, 1, 1, 1, 1),
    )
    return kind(**t5_parts(), scheduler=euler(shift=1.0), vae=vae, transformer=tiny_transformer(video.mochi, **sizes))


def allegro(kind: Any) -> Any:
    sizes = {"sample_width": WIDTH // 8, "sample_height": HEIGHT // 8, "sample_frames": 3, "caption_channels": 32}
    vae = diffusers.AutoencoderKLAllegro(block_out_channels=NARROW, layers_per_block=1, norm_num_groups=2)
    vae.enable_tiling()  # it decodes in tiles only, of 24 frames if it is not told otherwise
    vae.kernel = vae.stride = 12, HEIGHT, WIDTH
    transformer = tiny_transformer(video.allegro, **sizes)
    return kind(**t5_parts(), vae=vae, transformer=transformer, scheduler=diffusers.DDIMScheduler(clip_sample=False))


def latte(kind: Any) -> Any:
    """Attention within frames and across them, in turn."""
    transformer = tiny_transformer(video.latte, sample_size=10, caption_channels=32)
    scheduler = diffusers.DDIMScheduler(clip_sample=False)
    return kind(**t5_parts(), vae=image_vae(latents=4), transformer=transformer, scheduler=scheduler)


def _easyanimate(kind: Any, *, in_channels: int, **changed: Any) -> Any:
    """A block with weights of its own for the text, then one that shares them."""
    sizes = {"in_channels": in_channels, "num_layers": 4, "mmdit_layers": 2, "text_embed_dim": 32}
    return kind(
        vae=diffusers.AutoencoderKLMagvit(
            latent_channels=4, block_out_channels=[*NARROW], layers_per_block=1, norm_num_groups=2
        ),
        **chat_parts(_qwen2_vl),
        transformer=tiny_transformer(cog.easyanimate_inpaint, **sizes, **changed),
        scheduler=euler(),
    )


def _qwen2_vl(tokenizer: Any) -> transformers.Qwen2VLForConditionalGeneration:
    vision = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
    kind = transformers.Qwen2VLForConditionalGeneration
    text = language(tokenizer, **MROPE)
    return kind(kind.config_class(text_config=text, vision_config=vision, **seeing(tokenizer)))


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
    vision = {"hidden_size": 12, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision |= {"image_size": 28, "patch_size": 14}
    config = transformers.T5Gemma2EncoderConfig(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    sizes = {"in_channels": 33, "out_channels": 16, "num_decoder_layers": 2, "text_embed_dim": 32}
    return kind(
        scheduler=euler(),
        vae=wan_vae(),
        text_encoder=T5Gemma2Encoder(config),
        tokenizer=tokenizer,
        transformer=tiny_transformer(video.motif_video, **sizes, **changed),
        guider=ClassifierFreeGuidance(guidance_scale=3.0),
        feature_extractor=transformers.SiglipImageProcessorPil(size={"height": 28, "width": 28}),
    )


SEEING = {"enable_text_cross_attention_dual": True, "enable_text_cross_attention_single": True}
TINY = table(
    Tiny("CogVideoXPipeline", partial(_cogvideox, is_rotary=False), _call),
    Tiny(
        "CogVideoXImageToVideoPipeline", partial(_cogvideox, in_channels=8), lambda: _call(image=picture(WIDTH, HEIGHT))
    ),
    Tiny(
        "CogVideoXVideoToVideoPipeline",
        _cogvideox,
        lambda: without(_call(video=frames(9, WIDTH, HEIGHT), strength=1.0), "num_frames"),
    ),
    Tiny(
        "CogVideoXFunControlPipeline",
        partial(_cogvideox, in_channels=8),
        lambda: without(_call(control_video=frames(9, WIDTH, HEIGHT), use_dynamic_cfg=True), "num_frames"),
    ),
    Tiny("MochiPipeline", mochi, lambda: _call(num_frames=13)),
    Tiny("AllegroPipeline", allegro, _call),
    Tiny("LattePipeline", latte, lambda: without(_call(video_length=3), "num_frames", "max_sequence_length")),
    Tiny("EasyAnimatePipeline", partial(_easyanimate, in_channels=4), easy),
    Tiny(
        "EasyAnimateInpaintPipeline",
        partial(_easyanimate, in_channels=12, resize_inpaint_mask_directly=False),
        to_paint,
    ),
    Tiny("MotifVideoPipeline", _motif, _call),
    Tiny(
        "MotifVideoImage2VideoPipeline",
        partial(_motif, image_embed_dim=12, **SEEING),
        lambda: _call(image=picture(WIDTH, HEIGHT)),
    ),
)
LEFT_OUT = {
    "EasyAnimateControlPipeline": (
        "diffusers 0.42.1 cannot call it: it hands text_encoder_index to its encode_prompt, which takes none"
    )
}
