"""Families that diffusers has as modular blocks alone: Anima, FLUX.3 and Wan Animate 2."""

from functools import partial
from typing import Any

import diffusers
import transformers

from latentloom.pipelines.whole.assembled import put_together
from support.tiny_parts import UMT5, euler, image_vae, qwen3, qwen3_vl, qwen_processor, seeing, t5_parts, wan_vae
from support.tiny_tokenizers import chat_tokenizer, qwen_tokenizer, t5_tokenizer
from zoo import flux, video, wan
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import PROMPT, SIZED, Tiny, frames, picture, table


def anima(kind: Any) -> Any:
    tokenizer, t5_words = qwen_tokenizer(), t5_tokenizer()
    conditioner = diffusers.AnimaTextConditioner(
        source_dim=16,
        target_dim=16,
        model_dim=16,
        num_layers=2,
        num_attention_heads=2,
        target_vocab_size=len(t5_words),
        min_sequence_length=16,
    )
    parts = {
        "text_encoder": qwen3(tokenizer, transformers.Qwen3Model, width=16),
        "tokenizer": tokenizer,
        "t5_tokenizer": t5_words,
        "vae": wan_vae(diffusers.AutoencoderKLQwenImage),
        "text_conditioner": conditioner,
        "transformer": tiny_transformer(
            video.cosmos, in_channels=16, out_channels=16, extra_pos_embed_type=None, rope_scale=(1.0, 1.0, 1.0)
        ),
        "scheduler": euler(),
    }
    return put_together(kind, parts, {})


def flux3_parts(kind: Any, *, heads: int = 3) -> dict[str, Any]:
    """Of its text encoder eight layers are read, the last of which is the 32nd."""
    tokenizer = chat_tokenizer()
    return {
        "text_encoder": qwen3_vl(tokenizer, transformers.Qwen3VLForConditionalGeneration, layers=33, width=16),
        "tokenizer": qwen_processor(tokenizer, transformers.Qwen3VLProcessor, patch=16, most=3),
        "vae": image_vae(diffusers.AutoencoderKLFlux2, latents=32),
        "transformer": tiny_transformer(
            flux.flux3,
            heads=heads,
            in_channels=128,
            cond_in_channels=128,
            joint_attention_dim=128,
            flow_map=kind is diffusers.Flux3DistilledModularPipeline,
        ),
        "scheduler": euler(shift=6.93),
    }


def flux3(kind: Any, *, rewrites: bool = False) -> Any:
    """`rewrites`: a language model writes what is to be drawn."""
    parts = flux3_parts(kind)
    if rewrites:
        processor = parts["tokenizer"]
        parts |= {"prompt_upsampler": _writer(processor.tokenizer), "prompt_upsampler_processor": processor}
    return put_together(kind, parts, {})


def _writer(tokenizer: Any) -> transformers.Qwen3_5ForConditionalGeneration:
    ids = tokenizer.convert_tokens_to_ids
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "full_attention"],
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "eos_token_id": ids("<|im_end|>"),
        "pad_token_id": tokenizer.pad_token_id,
    }
    vision = {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 16,
        "patch_size": 16,
        "num_position_embeddings": 16,
    }
    config = transformers.Qwen3_5Config(text_config=text, vision_config=vision, **seeing(tokenizer))
    return transformers.Qwen3_5ForConditionalGeneration(config)


def animate(kind: Any) -> Any:
    """What CLIP sees is 1280 wide."""
    sizes = {"hidden_size": 1280, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    clip = transformers.CLIPVisionConfig(**sizes, projection_dim=8, image_size=224, patch_size=112)
    parts = {
        **t5_parts(*UMT5),
        "image_encoder": transformers.CLIPVisionModel(clip),
        "vae": wan_vae(),
        "transformer": tiny_transformer(wan.wan_animate2, in_dim=36, out_dim=16, text_dim=32, text_len=16),
        "scheduler": diffusers.DPMSolverMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=5.0
        ),
    }
    return put_together(kind, parts, {})


def _image(**given: Any) -> dict[str, Any]:
    return {"prompt": PROMPT, **SIZED, **given}


def _edited(**given: Any) -> dict[str, Any]:
    return _image(image=picture(80, 48), **given)


def _boxes() -> dict[str, Any]:
    """Where the things of the picture are, and where they go."""
    box = {"id": "a", "desc": "a circle", "from": 0, "src_bbox": [0.1, 0.1, 0.5, 0.5], "tgt_bbox": [0.4, 0.4, 0.9, 0.9]}
    return _edited(boxes=[box], max_new_tokens=4)


def _moved(**given: Any) -> dict[str, Any]:
    """Two segments of five frames, of which each but the first begins with the last frame of that before."""
    segments = {"driving_video": frames(9, 80, 48), "segment_frame_length": 5, "max_sequence_length": 16}
    return _edited(**segments, **given)


TINY = table(
    Tiny("AnimaModularPipeline", anima, partial(_image, negative_prompt="bad")),
    Tiny("AnimaModularPipeline:from a picture", anima, partial(_edited, negative_prompt="bad")),
    Tiny("Flux3ModularPipeline", flux3, partial(_image, negative_prompt="bad")),
    Tiny("Flux3ModularPipeline:edit", flux3, partial(_edited, negative_prompt="bad")),
    Tiny("Flux3ModularPipeline:boxes", partial(flux3, rewrites=True), _boxes),
    Tiny("Flux3DistilledModularPipeline", flux3, _image, branches=1),
    Tiny("Flux3DistilledModularPipeline:edit", flux3, _edited, branches=1),
    Tiny("Flux3DistilledModularPipeline:boxes", partial(flux3, rewrites=True), _boxes, branches=1),
    Tiny("WanAnimate2ModularPipeline", animate, partial(_moved, negative_prompt="bad")),
    Tiny("WanAnimate2DistilledModularPipeline", animate, _moved, branches=1),
)
