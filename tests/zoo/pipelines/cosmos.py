"""Cosmos 1 to 3, and Kandinsky 5 and 6."""

from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import diffusers
import torch
import transformers
from diffusers.models.controlnets import controlnet_cosmos

from support.tiny_parts import (
    chat_parts,
    clip,
    euler,
    hunyuan_vae,
    image_vae,
    qwen_processor,
    qwen_vl,
    t5_parts,
    unipc,
    wan_vae,
)
from support.tiny_tokenizers import chat_tokenizer, clip_tokenizer
from zoo import kandinsky, video
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import HEIGHT, WIDTH, Tiny, frames, picture, table, video_call, without

HEADS, HEAD = 3, 12


class Unchecked(diffusers.ModelMixin):
    """In place of the safety checker, which is a package of its own that these pipelines insist on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.zeros(1))  # pipelines ask each part for its dtype

    def check_text_safety(self, prompt: str) -> bool:
        return True

    def check_video_safety(self, video: Any) -> Any:
        return video


class CosmosControlNetModel(diffusers.CosmosControlNetModel):
    """Resizes its padding mask, which is zero, without torchvision."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        functional = SimpleNamespace(resize=lambda mask, size, interpolation: torch.zeros(*mask.shape[:2], *size))
        stand_in = SimpleNamespace(functional=functional, InterpolationMode=SimpleNamespace(NEAREST=None))
        with patch.object(controlnet_cosmos, "transforms", stand_in, create=True):
            return super().forward(*args, **kwargs)


SIZES: dict[str, Any] = {"text_embed_dim": 32, "max_size": (8, 32, 32)}


def _transformer(in_channels: int, **changed: Any) -> Any:
    more = {**SIZES, "extra_pos_embed_type": None, **changed}
    return tiny_transformer(video.cosmos, in_channels=in_channels, out_channels=16, **more)


def _cosmos1(kind: Any, *, in_channels: int) -> Any:
    widths = (8, 8, 8, 8)
    return kind(
        **t5_parts(),
        safety_checker=Unchecked(),
        transformer=_transformer(in_channels, extra_pos_embed_type="learnable"),
        vae=diffusers.AutoencoderKLCosmos(
            encoder_block_out_channels=widths,
            decode_block_out_channels=widths,
            attention_resolutions=(8,),
            resolution=64,
            num_layers=1,
        ),
        scheduler=diffusers.EDMEulerScheduler(sigma_max=80.0, sigma_data=0.5, final_sigmas_type="sigma_min"),
    )


def _cosmos2(kind: Any, *, in_channels: int) -> Any:
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(use_karras_sigmas=True)
    parts = {**t5_parts(), "safety_checker": Unchecked(), "vae": wan_vae(), "scheduler": scheduler}
    return kind(**parts, transformer=_transformer(in_channels))


# All layers of the text encoder, side by side.
QWEN = {"use_crossattn_projection": True, "crossattn_proj_in_channels": 64, "encoder_hidden_states_channels": 32}


def predict(kind: Any, *, controlnet: Any = None, **config: Any) -> Any:
    return kind(
        **chat_parts(qwen_vl),
        vae=wan_vae(),
        scheduler=unipc(),
        safety_checker=Unchecked(),
        transformer=_transformer(17, **QWEN, **config),
        **({} if controlnet is None else {"controlnet": controlnet}),
    )


def transfer(kind: Any) -> Any:
    """A ControlNet on every second block."""
    seen = {"img_context_dim_in": 12, "img_context_dim_out": HEADS * HEAD}
    controlnet = CosmosControlNetModel(
        n_controlnet_blocks=2,
        in_channels=18,
        latent_channels=18,
        model_channels=HEADS * HEAD,
        num_attention_heads=HEADS,
        attention_head_dim=HEAD,
        mlp_ratio=2,
        adaln_lora_dim=4,
        **SIZES,
        **seen,
        **QWEN,
    )
    return predict(
        kind, controlnet=controlnet, **seen, num_layers=4, img_context_num_tokens=5, controlnet_block_every_n=2
    )


def controlled() -> dict[str, Any]:
    """Two chunks: the second goes on from the last frame of the first."""
    chunks = {"num_frames": 17, "num_frames_per_chunk": 9}
    return video_call(controls=frames(17, WIDTH, HEIGHT), **chunks, max_sequence_length=64)


def omni(kind: Any, *, heads: int = 3, hears: bool = False) -> Any:
    """With `hears` it makes sound as well: 25 latents of it a second, each of 80 samples."""
    tokenizer = chat_tokenizer()
    sizes = {"latent_channel": 16, "patch_latent_dim": 64, "vocab_size": len(tokenizer) + 8}
    transformer = tiny_transformer(video.cosmos3_sound if hears else video.cosmos3, heads=heads, **sizes)
    parts = {"text_tokenizer": tokenizer, "vae": wan_vae(), "scheduler": unipc()}
    if hears:
        parts["sound_tokenizer"] = diffusers.Cosmos3AVAEAudioTokenizer(
            sampling_rate=2000,
            vocoder_input_dim=6,
            dec_dim=8,
            dec_c_mults=(1, 2, 2),
            dec_strides=(4, 4, 5),
            encoder_enabled=False,
        )
    return kind(transformer=transformer, **parts, enable_safety_checker=False)


def omni_call(**changed: Any) -> dict[str, Any]:
    return {**without(video_call(**changed), "max_sequence_length"), "fps": 24.0, "enable_safety_check": False}


def _kandinsky_parts(tokenizer_kind: Any) -> dict[str, Any]:
    tokenizer, tokenizer_2 = chat_tokenizer(), clip_tokenizer()
    return {
        "text_encoder": qwen_vl(tokenizer),
        "tokenizer": qwen_processor(tokenizer, tokenizer_kind),
        "text_encoder_2": clip(tokenizer_2, transformers.CLIPTextModel),
        "tokenizer_2": tokenizer_2,
        "scheduler": euler(),
    }


TEXTS = {"in_text_dim": 32, "in_text_dim2": 32, "num_text_blocks": 2}


def _kandinsky5(kind: Any, *, video: bool, picture: bool = True) -> Any:
    """With `picture`, room for one and its mask beside the noise."""
    latents = 4 if video else 16
    config = {"in_visual_dim": latents, "out_visual_dim": latents, "num_visual_blocks": 2, "visual_cond": picture}
    return kind(
        **_kandinsky_parts(transformers.Qwen2VLProcessor),
        vae=hunyuan_vae() if video else image_vae(),
        transformer=tiny_transformer(kandinsky.kandinsky5, **TEXTS, **config),
    )


def kandinsky6(kind: Any) -> Any:
    """Sound beside the video, narrower than it."""
    config = {"in_audio_dim": 4, "out_audio_dim": 4, "visual_token_type_num_embeddings": 2}
    return kind(
        **_kandinsky_parts(transformers.Qwen2_5_VLProcessor),
        vae=hunyuan_vae(),
        transformer=tiny_transformer(kandinsky.kandinsky6, **TEXTS, **config),
        audio_vae=diffusers.MMAudioVAE(mel_bins=16, latent_channels=4, hidden_channels=16, layers_per_block=1),
        vocoder=diffusers.MMAudioVocoder(num_mels=16, upsample_initial_channel=64),
    )


def kandinsky6_sr(kind: Any) -> Any:
    """Attention over blocks of 8 x 8 tokens, some of which are left out; each step has a policy for its way."""
    sizes = {"in_visual_dim": 4, "out_visual_dim": 4 * 4, "tile_sizes": ((128, 128),)}
    widths = {"encoder_block_out_channels": (8, 8, 8, 8, 8), "decoder_block_out_channels": (8, 8, 8, 8, 8)}
    return kind(
        transformer=tiny_transformer(kandinsky.kandinsky6_sr, **sizes),
        vae=diffusers.Kandinsky6SRVAE(latent_channels=4, layers_per_block=1, **widths),
        scheduler=diffusers.PiflowScheduler(n_grid=4, num_policy_substeps=8),
    )


def described(**changed: Any) -> dict[str, Any]:
    """With room for the fixed text before the prompt, of which tiny tokenizers make many tokens."""
    return {**video_call(**changed), "max_sequence_length": 512}


def still(**changed: Any) -> dict[str, Any]:
    """These pipelines take the nearest of a few large sizes: 1280 x 768."""
    return without(described(**changed), "num_frames")


def seen() -> dict[str, Any]:
    return {"image": picture(WIDTH, HEIGHT)}


ROUNDS = (
    "the class rounds queries and keys to bf16 in fp32 too, so that a last bit becomes up to 8e-5 of the largest "
    "value a few layers on"
)
# Pixels of Cosmos 2 have eight bits, for the safety checker: small differences are lost.
LATENTS = {"output_type": "latent"}
TINY = table(
    Tiny("CosmosTextToWorldPipeline", partial(_cosmos1, in_channels=16), partial(video_call, num_frames=17)),
    Tiny(
        "CosmosVideoToWorldPipeline",
        partial(_cosmos1, in_channels=17),
        lambda: video_call(num_frames=17, video=frames(9, WIDTH, HEIGHT)),
    ),
    Tiny(
        "Cosmos2TextToImagePipeline",
        partial(_cosmos2, in_channels=16),
        lambda: without(video_call(), "num_frames"),
        options=LATENTS,
    ),
    Tiny("Cosmos2VideoToWorldPipeline", partial(_cosmos2, in_channels=17), lambda: video_call(**seen())),
    Tiny(
        "Cosmos2_5_PredictBasePipeline",
        predict,
        lambda: video_call(video=frames(1, WIDTH, HEIGHT), num_latent_conditional_frames=1, max_sequence_length=64),
    ),
    Tiny("Cosmos2_5_TransferPipeline", transfer, controlled),
    Tiny("Cosmos3OmniPipeline", omni, omni_call),
    Tiny("Cosmos3OmniPipeline:from a picture", omni, lambda: omni_call(**seen())),
    Tiny("Kandinsky5T2VPipeline", partial(_kandinsky5, video=True), described),
    # Its last step wants more than four latent frames.
    Tiny(
        "Kandinsky5I2VPipeline",
        partial(_kandinsky5, video=True),
        lambda: described(**seen(), num_frames=17),
        rounds=ROUNDS,
    ),
    Tiny("Kandinsky5T2IPipeline", partial(_kandinsky5, video=False, picture=False), still, rounds=ROUNDS),
    Tiny("Kandinsky5I2IPipeline", partial(_kandinsky5, video=False), lambda: still(**seen()), rounds=ROUNDS),
    Tiny("Kandinsky6TI2VAPipeline", kandinsky6, described),
    Tiny("Kandinsky6TI2VAPipeline:from a picture", kandinsky6, lambda: described(**seen(), num_frames=5)),
    Tiny(
        "Kandinsky6SRPipeline",
        kandinsky6_sr,
        lambda: {"video": frames(9, 96, 64), "resolution_scale": 2, "num_inference_steps": 4},
        branches=1,
    ),
)
