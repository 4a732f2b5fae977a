"""Tiny random components that many pipelines share: real classes, small configs, no network."""

from collections.abc import Callable
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLHunyuanVideo,
    AutoencoderKLWan,
    DiffusionPipeline,
    FlowMatchEulerDiscreteScheduler,
    UniPCMultistepScheduler,
)
from transformers import (
    CLIPImageProcessorPil,
    CLIPTextConfig,
    CLIPVisionConfig,
    CLIPVisionModel,
    Mistral3Config,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessorPil,
    Qwen3Config,
    Qwen3VLConfig,
    T5Config,
    T5EncoderModel,
    UMT5Config,
    UMT5EncoderModel,
)

from latentloom.pipelines.components.loading import without_video
from support.tiny_tokenizers import chat_tokenizer, t5_tokenizer

UMT5 = (UMT5EncoderModel, UMT5Config)  # what `t5` makes it of


def euler(*, shift: float = 3.0, dynamic: bool = False) -> FlowMatchEulerDiscreteScheduler:
    by_size = {"base_shift": 0.5, "max_shift": 1.15, "base_image_seq_len": 256, "max_image_seq_len": 4096}
    return FlowMatchEulerDiscreteScheduler(
        num_train_timesteps=1000, shift=shift, use_dynamic_shifting=dynamic, **(by_size if dynamic else {})
    )


def image_vae(kind: Any = AutoencoderKL, *, latents: int = 16, blocks: int = 4, **factors: Any) -> Any:
    return kind(
        in_channels=3,
        out_channels=3,
        latent_channels=latents,
        block_out_channels=(8,) * (blocks - 2) + (16, 16),  # four: 8 pixels a latent, as in published models
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * blocks,
        up_block_types=("UpDecoderBlock2D",) * blocks,
        sample_size=64,
        use_quant_conv=False,
        use_post_quant_conv=False,
        **factors,
    )


def clip(tokenizer: Any, kind: Any) -> Any:
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


def clip_vision() -> CLIPVisionModel:
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


def clip_pictures() -> CLIPImageProcessorPil:
    """As `clip_vision` takes them."""
    return CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})


def t5(tokenizer: Any, kind: Any = T5EncoderModel, config: Any = T5Config, *, width: int = 32) -> Any:
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


def t5_parts(*kinds: Any, width: int = 32) -> dict[str, Any]:
    """As `t5` is given them."""
    tokenizer = t5_tokenizer()
    return {"tokenizer": tokenizer, "text_encoder": t5(tokenizer, *kinds, width=width)}


def chat_parts(encoder: Callable[..., Any], *kinds: Any, **how: Any) -> dict[str, Any]:
    """A tokenizer with a chat template, and what `encoder` makes for it."""
    tokenizer = chat_tokenizer()
    return {"tokenizer": tokenizer, "text_encoder": encoder(tokenizer, *kinds, **how)}


def language(tokenizer: Any, *, width: int = 32, layers: int = 2, **more: Any) -> dict[str, Any]:
    """What configs of language models have in common."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        **more,
    }


def small_language(tokenizer: Any, **more: Any) -> dict[str, Any]:
    """16 wide, with one token for all that ends or fills a text but the last."""
    pad = {"pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.pad_token_id}
    return language(tokenizer, width=16, eos_token_id=tokenizer.eos_token_id, **pad, **more)


def seeing(tokenizer: Any) -> dict[str, int]:
    """The tokens that stand for pictures in the models of Qwen."""
    tokens = {"image": "image_pad", "video": "video_pad", "vision_start": "vision_start", "vision_end": "vision_end"}
    return {f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>") for name, token in tokens.items()}


MROPE = {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e6}}


def qwen3(tokenizer: Any, kind: Any, *, width: int = 32, layers: int = 2, config: Any = Qwen3Config) -> Any:
    """The language models of Qwen3, or of a class whose config is alike."""
    return kind(
        config(
            **language(tokenizer, width=width, layers=layers),
            head_dim=width // 4,
            max_position_embeddings=4096,
            bos_token_id=None,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def qwen_vl(tokenizer: Any) -> Qwen2_5_VLForConditionalGeneration:
    ids = tokenizer.convert_tokens_to_ids
    ends = {"bos_token_id": ids("<|endoftext|>"), "eos_token_id": ids("<|im_end|>")}
    text = language(tokenizer, max_position_embeddings=4096, **ends, **MROPE)
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 32,
        "patch_size": 14,
        "fullatt_block_indexes": [1],
    }
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **seeing(tokenizer))
    return Qwen2_5_VLForConditionalGeneration(config)


def mistral3(tokenizer: Any, kind: Any, *, layers: int = 3) -> Any:
    picture_token = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    text = {
        "model_type": "mistral",
        **language(tokenizer, width=16, layers=layers, head_dim=4, pad_token_id=tokenizer.pad_token_id),
    }
    vision = {
        "model_type": "pixtral",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 16,
        "head_dim": 8,
    }
    config = Mistral3Config(
        text_config=text, vision_config=vision, image_token_index=picture_token, image_token_id=picture_token
    )
    return kind(config)


def processor(kind: Any, pictures: Any, tokenizer: Any) -> Any:
    """For texts and pictures, without videos: a video processor wants torchvision."""
    made = without_video(kind)(pictures, tokenizer, None, chat_template=tokenizer.chat_template)
    made.video_processor = None
    return made


def qwen_processor(tokenizer: Any, kind: Any = Qwen2_5_VLProcessor, *, patch: int = 14, most: int = 2) -> Any:
    """A picture becomes at most `most` x `most` tokens of text."""
    size = {"shortest_edge": (2 * patch) ** 2, "longest_edge": (2 * most * patch) ** 2}
    return processor(kind, Qwen2VLImageProcessorPil(size=size, patch_size=patch), tokenizer)


def qwen3_vl(tokenizer: Any, kind: Any, *, layers: int = 2, width: int = 32, patch: int = 16) -> Any:
    text = language(tokenizer, width=width, layers=layers, head_dim=8, max_position_embeddings=4096, **MROPE)
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": width,
        "patch_size": patch,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0],
    }
    return kind(Qwen3VLConfig(text_config=text, vision_config=vision, **seeing(tokenizer)))


QUERY_KEY_NORMS = ("norm_q.", "norm_k.", "norm_added_q.", "norm_added_k.")


def fill(pipeline: DiffusionPipeline) -> None:
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


def wan_vae(kind: Any = AutoencoderKLWan, **changed: Any) -> Any:
    """Wan's, or Qwen-Image's, which is made of it."""
    return kind(**{"base_dim": 8, "z_dim": 16, "dim_mult": [1, 1, 2, 2], "num_res_blocks": 1, **changed})


def wan_parts() -> dict[str, Any]:
    return {**t5_parts(*UMT5), "vae": wan_vae(), "scheduler": unipc()}


def unipc() -> UniPCMultistepScheduler:
    return UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=3.0
    )


def hunyuan_vae() -> AutoencoderKLHunyuanVideo:
    return AutoencoderKLHunyuanVideo(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=4
    )
