"""ERNIE-Image, GLM-Image, Ideogram 4 and OmniGen."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from diffusers.pipelines.omnigen import pipeline_omnigen, processor_omnigen

from support.tiny_parts import chat_parts, euler, image_vae, mistral3, qwen3_vl, t5
from support.tiny_tokenizers import chat_tokenizer
from zoo import cog, image_joint, single_stream
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import GUIDED, PROMPT, SIZED, Tiny, picture, seeded, table


def ernie(kind: Any) -> Any:
    sizes = {"in_channels": 128, "out_channels": 128, "ffn_hidden_size": 64, "text_in_dim": 16}
    return kind(
        **chat_parts(mistral3, transformers.Mistral3Model),
        transformer=tiny_transformer(cog.ernie_image, **sizes),
        vae=image_vae(diffusers.AutoencoderKLFlux2, latents=32),
        scheduler=euler(),
    )


def ideogram4(kind: Any) -> Any:
    """Of 36 layers of its text encoder 13 are told; what is not guided has a transformer of its own."""
    sizes = {"in_channels": 128, "llm_features_dim": 13 * 32}
    return kind(
        **chat_parts(qwen3_vl, transformers.Qwen3VLModel, layers=36),
        scheduler=euler(shift=1.0),
        vae=image_vae(diffusers.AutoencoderKLFlux2, latents=32),
        transformer=tiny_transformer(image_joint.ideogram4, **sizes),
        unconditional_transformer=tiny_transformer(image_joint.ideogram4, **sizes),
    )


CODES = 64  # that GLM-Image's language model can write: each stands for 2 x 2 tokens of its transformer


def glm_image(kind: Any) -> Any:
    tokenizer, glyphs = chat_tokenizer(), transformers.ByT5Tokenizer()
    tokenizer.bos_token = "<|vision_start|>"
    tokenizer.image_token, tokenizer.grid_bos_token, tokenizer.grid_eos_token = "<|image_pad|>", "<sop>", "<eop>"
    pictures = transformers.GlmImageImageProcessorPil(patch_size=16, temporal_patch_size=1, merge_size=1)
    sizes = {"in_channels": 16, "out_channels": 16, "attention_head_dim": 16, "text_embed_dim": 32}
    sizes |= {"time_embed_dim": 16, "condition_dim": 8, "prior_vq_quantizer_codebook_size": CODES}
    return kind(
        tokenizer=glyphs,
        processor=transformers.GlmImageProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template),
        text_encoder=t5(glyphs),
        vision_language_encoder=glm_writer(tokenizer),
        vae=image_vae(latents_mean=[0.0] * 16, latents_std=[1.0] * 16),
        transformer=tiny_transformer(cog.glm_image, **sizes),
        scheduler=euler(dynamic=True),
    )


def glm_writer(tokenizer: Any) -> transformers.GlmImageForConditionalGeneration:
    """It never ends early: the token that ends a picture is none of those that it can write."""
    ids = tokenizer.convert_tokens_to_ids
    text = {
        "vocab_size": len(tokenizer),
        "vision_vocab_size": CODES,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": ids("<|vision_end|>"),
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4},
    }
    vision = {
        "depth": 1,
        "hidden_size": 16,
        "num_heads": 2,
        "image_size": 64,
        "patch_size": 16,
        "spatial_merge_size": 1,
        "intermediate_size": 32,
    }
    config = transformers.GlmImageConfig(
        text_config=text,
        vision_config=vision,
        vq_config={"embed_dim": 16, "num_embeddings": CODES, "latent_channels": 16},
        image_token_id=ids("<|image_pad|>"),
        image_start_token_id=ids("<|vision_start|>"),
        image_end_token_id=ids("<|vision_end|>"),
    )
    return transformers.GlmImageForConditionalGeneration(config)


def omnigen(kind: Any) -> Any:
    if not hasattr(processor_omnigen, "transforms"):  # torchvision is not installed
        processor_omnigen.transforms = TRANSFORMS
        pipeline_omnigen.OmniGenMultiModalProcessor = processor_omnigen.OmniGenMultiModalProcessor
    tokenizer = chat_tokenizer()
    sizes = {"in_channels": 16, "hidden_size": 48, "num_key_value_heads": 1, "intermediate_size": 64}
    sizes |= {"vocab_size": len(tokenizer), "time_step_dim": 16}
    factors = {"long_factor": [1.0] * 8, "short_factor": [1.0] * 8}
    transformer = tiny_transformer(single_stream.omnigen, **sizes, rope_scaling=factors)
    vae = image_vae(scaling_factor=0.13025, shift_factor=0.0)
    return kind(transformer=transformer, scheduler=euler(), vae=vae, tokenizer=tokenizer)


def composed(steps: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return run


# What OmniGen's processor uses of torchvision, which then need not be there.
TRANSFORMS = SimpleNamespace(
    Compose=composed,
    Lambda=lambda function: function,
    ToTensor=lambda: lambda picture: torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255,
    Normalize=lambda **_: lambda pixels: pixels * 2 - 1,
)


def with_pictures() -> dict[str, Any]:
    prompt = f"{PROMPT} as in <img><|image_1|></img> and <img><|image_2|></img>"
    return seeded(**SIZED, prompt=[prompt], input_images=[[picture(), picture(80, 48, seed=40)]])


def glm_picture() -> dict[str, Any]:
    """With what the language model would write: a code for each token of the old picture and of the new one."""
    codes = torch.randint(CODES, (2, 6 * 10), generator=torch.Generator().manual_seed(0))
    return {
        "image": [picture(160, 96)],
        "prior_token_ids": codes[:1],
        "prior_token_image_ids": [codes[1]],
        "source_image_grid_thw": [torch.tensor([[1, 6, 10]])],
    }


# Three by five codes; what is in quotes goes to the transformer as well.
SIGN: dict[str, Any] = {**SIZED, "prompt": "a sign, 'hello'", "guidance_scale": 3.0, "height": 96, "width": 160}


TINY = table(
    Tiny("ErnieImagePipeline", ernie, lambda: {"prompt": PROMPT, **GUIDED, **SIZED}),
    Tiny("GlmImagePipeline", glm_image, lambda: SIGN),
    Tiny(
        "GlmImagePipeline:picture",
        glm_image,
        lambda: {**SIGN, **glm_picture()},
        embeds="diffusers 0.42.1 cannot read the features of a picture that transformers 5.23 makes",
    ),
    Tiny(
        "Ideogram4Pipeline",
        ideogram4,
        lambda: {"prompt": PROMPT, "guidance_schedule": (3.0, 3.0, 3.0, 1.5), **SIZED, "max_sequence_length": 64},
    ),
    Tiny("OmniGenPipeline", omnigen, lambda: {"prompt": PROMPT, "guidance_scale": 3.0, **SIZED}),
    Tiny("OmniGenPipeline:pictures", omnigen, with_pictures, branches=3),
)
