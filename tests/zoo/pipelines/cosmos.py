"""Cosmos 1 to 3, and Kandinsky 5 and 6."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import diffusers
import torch
from diffusers import (
    AutoencoderKLCosmos,
    Cosmos2_5_PredictBasePipeline,
    Cosmos2_5_TransferPipeline,
    Cosmos2TextToImagePipeline,
    Cosmos2VideoToWorldPipeline,
    Cosmos3OmniPipeline,
    Cosmos3OmniTransformer,
    CosmosTextToWorldPipeline,
    CosmosTransformer3DModel,
    CosmosVideoToWorldPipeline,
    EDMEulerScheduler,
    FlowMatchEulerDiscreteScheduler,
    Kandinsky5I2IPipeline,
    Kandinsky5I2VPipeline,
    Kandinsky5T2IPipeline,
    Kandinsky5T2VPipeline,
    Kandinsky5Transformer3DModel,
    Kandinsky6SRPipeline,
    Kandinsky6SRTransformer3DModel,
    Kandinsky6SRVAE,
    Kandinsky6TI2VAPipeline,
    Kandinsky6Transformer3DModel,
    MMAudioVAE,
    MMAudioVocoder,
    ModelMixin,
    PiflowScheduler,
)
from diffusers.models.controlnets import controlnet_cosmos
from transformers import CLIPTextModel, Qwen2_5_VLProcessor, Qwen2VLProcessor

from support.tiny_parts import (
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
from zoo.pipelines.tiny import HEIGHT, WIDTH, Tiny, frames, picture, video_call, without

HEADS, HEAD = 3, 12


class Unchecked(ModelMixin):
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


def _config(in_channels: int = 16, **changed: Any) -> dict[str, Any]:
    """Without the padding mask, which is resized with torchvision."""
    shared = {
        "in_channels": in_channels,
        "out_channels": 16,
        "num_attention_heads": HEADS,
        "attention_head_dim": HEAD,
        "num_layers": 2,
        "mlp_ratio": 2,
        "text_embed_dim": 32,
        "adaln_lora_dim": 4,
        "max_size": (8, 32, 32),
        "concat_padding_mask": False,
        "extra_pos_embed_type": None,
    }
    return {**shared, **changed}


def _cosmos1(kind: Any, in_channels: int) -> Any:
    vae = AutoencoderKLCosmos(
        encoder_block_out_channels=(8, 8, 8, 8),
        decode_block_out_channels=(8, 8, 8, 8),
        attention_resolutions=(8,),
        resolution=64,
        num_layers=1,
    )
    transformer = CosmosTransformer3DModel(**_config(in_channels, extra_pos_embed_type="learnable"))
    scheduler = EDMEulerScheduler(sigma_max=80.0, sigma_data=0.5, final_sigmas_type="sigma_min")
    return kind(**t5_parts(), safety_checker=Unchecked(), transformer=transformer, vae=vae, scheduler=scheduler)


def _cosmos2(kind: Any, in_channels: int) -> Any:
    scheduler = FlowMatchEulerDiscreteScheduler(use_karras_sigmas=True)
    transformer = CosmosTransformer3DModel(**_config(in_channels))
    return kind(**t5_parts(), safety_checker=Unchecked(), transformer=transformer, vae=wan_vae(), scheduler=scheduler)


QWEN = {"use_crossattn_projection": True, "crossattn_proj_in_channels": 64, "encoder_hidden_states_channels": 32}
"""All layers of the text encoder, side by side."""


def _cosmos25(kind: Any, **parts: Any) -> Any:
    tokenizer = chat_tokenizer()
    return kind(
        text_encoder=qwen_vl(tokenizer),
        tokenizer=tokenizer,
        vae=wan_vae(),
        scheduler=unipc(),
        safety_checker=Unchecked(),
        **parts,
    )


def predict() -> Cosmos2_5_PredictBasePipeline:
    return _cosmos25(Cosmos2_5_PredictBasePipeline, transformer=CosmosTransformer3DModel(**_config(17, **QWEN)))


def transfer() -> Cosmos2_5_TransferPipeline:
    """A ControlNet on every second block."""
    seen = {"img_context_dim_in": 12, "img_context_dim_out": HEADS * HEAD}
    config = _config(17, **QWEN, **seen, num_layers=4, img_context_num_tokens=5, controlnet_block_every_n=2)
    controlnet = CosmosControlNetModel(
        n_controlnet_blocks=2,
        in_channels=18,
        latent_channels=18,
        model_channels=HEADS * HEAD,
        num_attention_heads=HEADS,
        attention_head_dim=HEAD,
        mlp_ratio=2,
        text_embed_dim=32,
        adaln_lora_dim=4,
        max_size=(8, 32, 32),
        **seen,
        **QWEN,
    )
    return _cosmos25(Cosmos2_5_TransferPipeline, transformer=CosmosTransformer3DModel(**config), controlnet=controlnet)


def controlled() -> dict[str, Any]:
    """Two chunks: the second goes on from the last frame of the first."""
    chunks = {"num_frames": 17, "num_frames_per_chunk": 9}
    return video_call(controls=frames(17, WIDTH, HEIGHT), **chunks, max_sequence_length=64)


def omni() -> Cosmos3OmniPipeline:
    tokenizer = chat_tokenizer()
    transformer = Cosmos3OmniTransformer(
        head_dim=16,
        hidden_size=16 * HEADS,
        intermediate_size=32,
        latent_channel=16,
        patch_latent_dim=64,
        num_attention_heads=HEADS,
        num_hidden_layers=2,
        num_key_value_heads=1,
        rope_axes_dim=(4, 2, 2),
        vocab_size=len(tokenizer) + 8,
        use_und_k_norm_for_gen=True,
        qk_norm_for_text=False,
    )
    return Cosmos3OmniPipeline(
        transformer=transformer,
        text_tokenizer=tokenizer,
        vae=wan_vae(),
        scheduler=unipc(),
        enable_safety_checker=False,
    )


def omni_call(**changed: Any) -> dict[str, Any]:
    return {**without(video_call(**changed), "max_sequence_length"), "fps": 24.0, "enable_safety_check": False}


def _kandinsky_parts(tokenizer_kind: Any) -> dict[str, Any]:
    tokenizer, tokenizer_2 = chat_tokenizer(), clip_tokenizer()
    return {
        "text_encoder": qwen_vl(tokenizer),
        "tokenizer": qwen_processor(tokenizer, tokenizer_kind),
        "text_encoder_2": clip(tokenizer_2, CLIPTextModel),
        "tokenizer_2": tokenizer_2,
        "scheduler": euler(),
    }


def _kandinsky_config(latents: int, **changed: Any) -> dict[str, Any]:
    shared = {
        "in_visual_dim": latents,
        "out_visual_dim": latents,
        "in_text_dim": 32,
        "in_text_dim2": 32,
        "time_dim": 16,
        "model_dim": 16 * HEADS,
        "ff_dim": 32,
        "num_text_blocks": 2,
        "num_visual_blocks": 2,
        "axes_dims": (4, 6, 6),
    }
    return {**shared, **changed}


def _kandinsky5(kind: Any, *, video: bool, picture: bool = True) -> Any:
    """With `picture`, room for one and its mask beside the noise."""
    return kind(
        **_kandinsky_parts(Qwen2VLProcessor),
        vae=hunyuan_vae() if video else image_vae(),
        transformer=Kandinsky5Transformer3DModel(**_kandinsky_config(4 if video else 16, visual_cond=picture)),
    )


def kandinsky6() -> Kandinsky6TI2VAPipeline:
    """Sound beside the video, narrower than it."""
    config = _kandinsky_config(
        4,
        in_audio_dim=4,
        out_audio_dim=4,
        model_dim_a=8 * HEADS,
        time_dim_a=12,
        ff_dim_a=24,
        axes_dims_a=(2, 2, 4),
        text_token_padding=True,
        cross_gates=True,
        fix_modulation=True,
        visual_token_type_num_embeddings=2,
    )
    return Kandinsky6TI2VAPipeline(
        **_kandinsky_parts(Qwen2_5_VLProcessor),
        vae=hunyuan_vae(),
        transformer=Kandinsky6Transformer3DModel(**config),
        audio_vae=MMAudioVAE(mel_bins=16, latent_channels=4, hidden_channels=16, layers_per_block=1),
        vocoder=MMAudioVocoder(num_mels=16, upsample_initial_channel=64),
    )


def kandinsky6_sr() -> Kandinsky6SRPipeline:
    """Attention over blocks of 8 x 8 tokens, some of which are left out; each step has a policy for its way."""
    transformer = Kandinsky6SRTransformer3DModel(
        in_visual_dim=4,
        out_visual_dim=4 * 4,
        time_dim=16,
        model_dim=16 * HEADS,
        ff_dim=32,
        num_visual_blocks=2,
        axes_dims=(4, 6, 6),
        nabla_window=(1, 1, 1),
        nabla_threshold=0.4,
        tile_sizes=((128, 128),),
    )
    widths = {"encoder_block_out_channels": (8, 8, 8, 8, 8), "decoder_block_out_channels": (8, 8, 8, 8, 8)}
    vae = Kandinsky6SRVAE(latent_channels=4, layers_per_block=1, **widths)
    return Kandinsky6SRPipeline(
        transformer=transformer, vae=vae, scheduler=PiflowScheduler(n_grid=4, num_policy_substeps=8)
    )


def described(**changed: Any) -> dict[str, Any]:
    """With room for the fixed text before the prompt, of which tiny tokenizers make many tokens."""
    return {**video_call(**changed), "max_sequence_length": 512}


def still(**changed: Any) -> dict[str, Any]:
    """These pipelines take the nearest of a few large sizes: 1280 x 768."""
    return without(described(**changed), "num_frames")


ROUNDS = (
    "the class rounds queries and keys to bf16 in fp32 too, so that a last bit becomes up to 8e-5 of the largest "
    "value a few layers on"
)
TINY = {
    CosmosTextToWorldPipeline.__name__: Tiny(
        lambda: _cosmos1(CosmosTextToWorldPipeline, 16), lambda: video_call(num_frames=17)
    ),
    CosmosVideoToWorldPipeline.__name__: Tiny(
        lambda: _cosmos1(CosmosVideoToWorldPipeline, 17),
        lambda: video_call(num_frames=17, video=frames(9, WIDTH, HEIGHT)),
    ),
    Cosmos2TextToImagePipeline.__name__: Tiny(
        lambda: _cosmos2(Cosmos2TextToImagePipeline, 16),
        lambda: without(video_call(), "num_frames"),
        options={"output_type": "latent"},  # pixels have eight bits, for the safety checker: small differences are lost
    ),
    Cosmos2VideoToWorldPipeline.__name__: Tiny(
        lambda: _cosmos2(Cosmos2VideoToWorldPipeline, 17), lambda: video_call(image=picture(WIDTH, HEIGHT))
    ),
    Cosmos2_5_PredictBasePipeline.__name__: Tiny(
        predict,
        lambda: video_call(video=frames(1, WIDTH, HEIGHT), num_latent_conditional_frames=1, max_sequence_length=64),
    ),
    Cosmos2_5_TransferPipeline.__name__: Tiny(transfer, controlled),
    Cosmos3OmniPipeline.__name__: Tiny(omni, omni_call),
    f"{Cosmos3OmniPipeline.__name__}:from a picture": Tiny(omni, lambda: omni_call(image=picture(WIDTH, HEIGHT))),
    Kandinsky5T2VPipeline.__name__: Tiny(lambda: _kandinsky5(Kandinsky5T2VPipeline, video=True), described),
    Kandinsky5I2VPipeline.__name__: Tiny(  # its last step wants more than four latent frames
        lambda: _kandinsky5(Kandinsky5I2VPipeline, video=True),
        lambda: described(image=picture(WIDTH, HEIGHT), num_frames=17),
        rounds=ROUNDS,
    ),
    Kandinsky5T2IPipeline.__name__: Tiny(
        lambda: _kandinsky5(Kandinsky5T2IPipeline, video=False, picture=False), still, rounds=ROUNDS
    ),
    Kandinsky5I2IPipeline.__name__: Tiny(
        lambda: _kandinsky5(Kandinsky5I2IPipeline, video=False),
        lambda: still(image=picture(WIDTH, HEIGHT)),
        rounds=ROUNDS,
    ),
    Kandinsky6TI2VAPipeline.__name__: Tiny(kandinsky6, described),
    f"{Kandinsky6TI2VAPipeline.__name__}:from a picture": Tiny(
        kandinsky6, lambda: described(image=picture(WIDTH, HEIGHT), num_frames=5)
    ),
    Kandinsky6SRPipeline.__name__: Tiny(
        kandinsky6_sr, lambda: {"video": frames(9, 96, 64), "resolution_scale": 2, "num_inference_steps": 4}, branches=1
    ),
}
LEFT_OUT: dict[str, str] = {}
