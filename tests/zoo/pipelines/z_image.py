"""Z-Image with ControlNet and Omni, Lumina 2, Ovis-Image and LongCat-Image."""

from functools import partial
from typing import Any

import diffusers
import transformers

from support.tiny_parts import chat_parts, euler, image_vae, qwen3, qwen_processor, qwen_vl
from support.tiny_tokenizers import chat_tokenizer
from zoo import flux, single_stream
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import FEWER, GUIDED, PROMPT, SIZED, Tiny, painted, picture, table, wide

FACTORS = {"scaling_factor": 0.3611, "shift_factor": 0.1159}
HEADS: dict[str, Any] = {"dim": 48, "n_heads": 3, "n_kv_heads": 3, "n_refiner_layers": 2}
STREAMS = {"in_channels": 64, "axes_dims_rope": (4, 6, 6)}


def z_image(kind: Any, *, control: int | None = None, siglip: bool = False) -> Any:
    """`control`: channels of what the ControlNet sees."""
    others: dict[str, Any] = {}
    if control is not None:
        others["controlnet"] = diffusers.ZImageControlNetModel(
            control_layers_places=[0, 1],
            control_refiner_layers_places=[0, 1],
            control_in_dim=control,
            add_control_noise_refiner="control_noise_refiner",
            **HEADS,
        )
    if siglip:
        others["siglip"] = siglip2()
        others["siglip_processor"] = transformers.Siglip2ImageProcessorPil(patch_size=8, max_num_patches=12)
    sizes = {"in_channels": 16, "n_refiner_layers": 2, "cap_feat_dim": 32, "siglip_feat_dim": 16 if siglip else None}
    positions = {"axes_dims": [4, 6, 6], "axes_lens": [1024, 64, 64]}
    transformer = tiny_transformer(single_stream.z_image, **sizes, **positions)
    vae = image_vae(**FACTORS)
    if siglip:
        vae.bfloat16()  # the pipeline makes the pictures so, whatever the VAE is
    return kind(
        scheduler=euler(),
        vae=vae,
        **chat_parts(qwen3, transformers.Qwen3Model, layers=3),
        transformer=transformer,
        **others,
    )


def siglip2() -> transformers.Siglip2VisionModel:
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.Siglip2VisionConfig(**sizes, num_patches=16, patch_size=8)
    return transformers.Siglip2VisionModel(config)


def lumina2(kind: Any) -> Any:
    sizes = {"in_channels": 16, "num_refiner_layers": 2, "axes_lens": (512, 128, 128)}
    text = chat_parts(qwen3, transformers.Gemma2Model, config=transformers.Gemma2Config)
    transformer = tiny_transformer(single_stream.lumina2, **sizes)
    return kind(**text, transformer=transformer, scheduler=euler(), vae=image_vae(**FACTORS))


def ovis(kind: Any) -> Any:
    parts = {"scheduler": euler(dynamic=True), "vae": image_vae(**FACTORS)}
    transformer = tiny_transformer(flux.ovis_image, out_channels=64, **STREAMS)
    return kind(**chat_parts(qwen3, transformers.Qwen3Model), **parts, transformer=transformer)


def longcat(kind: Any, *, blocks: int) -> Any:
    tokenizer = chat_tokenizer()
    return kind(
        scheduler=euler(dynamic=True),
        vae=image_vae(blocks=blocks, **FACTORS),
        text_encoder=qwen_vl(tokenizer),
        tokenizer=tokenizer,
        text_processor=qwen_processor(tokenizer, transformers.Qwen2VLProcessor),
        transformer=tiny_transformer(flux.longcat_image, **STREAMS),
    )


TEXT: dict[str, Any] = {"prompt": PROMPT, **GUIDED}
SHORT: dict[str, Any] = {**TEXT, **SIZED, "max_sequence_length": 64}


TINY = table(
    Tiny("ZImagePipeline", z_image, lambda: SHORT),
    Tiny(
        "ZImagePipeline:two prompts",
        z_image,
        lambda: {**SHORT, "prompt": [PROMPT, "a cat"], "negative_prompt": ["bad", "worse"]},
    ),
    Tiny("ZImageImg2ImgPipeline", z_image, lambda: {**SHORT, **FEWER, **wide("image")}),
    Tiny("ZImageInpaintPipeline", z_image, lambda: {**SHORT, **FEWER, **painted()}),
    Tiny("ZImageControlNetPipeline", partial(z_image, control=16), lambda: {**SHORT, **wide("control_image")}),
    Tiny(
        "ZImageControlNetInpaintPipeline",
        partial(z_image, control=33),
        lambda: {**SHORT, **painted(), "control_image": picture(80, 48, seed=40)},
    ),
    Tiny("ZImageOmniPipeline", partial(z_image, siglip=True), lambda: {**SHORT, "image": [picture(80, 64)]}),
    # Its system prompt alone is over 64 tokens.
    Tiny("Lumina2Pipeline", lumina2, lambda: {**SHORT, "max_sequence_length": 256}),
    Tiny("OvisImagePipeline", ovis, lambda: SHORT),
    Tiny("LongCatImagePipeline", partial(longcat, blocks=4), lambda: {**TEXT, **SIZED, "enable_prompt_rewrite": False}),
    # What is edited is scaled to 1024 pixels: seven blocks in the VAE make that 9 x 7 tokens of 128 pixels.
    Tiny(
        "LongCatImageEditPipeline",
        partial(longcat, blocks=7),
        lambda: {**TEXT, "num_inference_steps": 4, "image": picture(72, 56)},
    ),
)
