"""Z-Image with ControlNet and Omni, Lumina 2, Ovis-Image and LongCat-Image."""

from typing import Any

from diffusers import (
    LongCatImageEditPipeline,
    LongCatImagePipeline,
    LongCatImageTransformer2DModel,
    Lumina2Pipeline,
    Lumina2Transformer2DModel,
    OvisImagePipeline,
    OvisImageTransformer2DModel,
    ZImageControlNetInpaintPipeline,
    ZImageControlNetModel,
    ZImageControlNetPipeline,
    ZImageImg2ImgPipeline,
    ZImageInpaintPipeline,
    ZImageOmniPipeline,
    ZImagePipeline,
    ZImageTransformer2DModel,
)
from transformers import (
    Gemma2Config,
    Gemma2Model,
    Qwen2VLProcessor,
    Qwen3Model,
    Siglip2ImageProcessorPil,
    Siglip2VisionConfig,
    Siglip2VisionModel,
)

from support.tiny_parts import euler, image_vae, qwen3, qwen_processor, qwen_vl
from support.tiny_tokenizers import chat_tokenizer
from zoo.pipelines.tiny import FEWER, GUIDED, PROMPT, SIZED, Tiny, painted, picture, wide

FACTORS = {"scaling_factor": 0.3611, "shift_factor": 0.1159}
HEADS: dict[str, Any] = {"dim": 48, "n_heads": 3, "n_kv_heads": 3, "n_refiner_layers": 2}
STREAMS: dict[str, Any] = {
    "in_channels": 64,
    "num_layers": 2,
    "num_single_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 32,
    "axes_dims_rope": (4, 6, 6),
}


def z_image(pipeline: Any, *, control: int | None = None, siglip: bool = False) -> Any:
    """`control`: channels of what the ControlNet sees."""
    tokenizer = chat_tokenizer()
    others: dict[str, Any] = {}
    if control is not None:
        others["controlnet"] = ZImageControlNetModel(
            control_layers_places=[0, 1],
            control_refiner_layers_places=[0, 1],
            control_in_dim=control,
            add_control_noise_refiner="control_noise_refiner",
            **HEADS,
        )
    if siglip:
        others["siglip"] = siglip2()
        others["siglip_processor"] = Siglip2ImageProcessorPil(patch_size=8, max_num_patches=12)
    transformer = ZImageTransformer2DModel(
        n_layers=2,
        cap_feat_dim=32,
        siglip_feat_dim=16 if siglip else None,
        axes_dims=[4, 6, 6],
        axes_lens=[1024, 64, 64],
        **HEADS,
    )
    vae = image_vae(**FACTORS)
    if siglip:
        vae.bfloat16()  # the pipeline makes the pictures so, whatever the VAE is
    return pipeline(
        scheduler=euler(),
        vae=vae,
        text_encoder=qwen3(tokenizer, Qwen3Model, layers=3),
        tokenizer=tokenizer,
        transformer=transformer,
        **others,
    )


def siglip2() -> Siglip2VisionModel:
    config = Siglip2VisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_patches=16,
        patch_size=8,
    )
    return Siglip2VisionModel(config)


def lumina2() -> Lumina2Pipeline:
    tokenizer = chat_tokenizer()
    transformer = Lumina2Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=16,
        hidden_size=24,
        num_layers=2,
        num_refiner_layers=2,
        num_attention_heads=3,
        num_kv_heads=1,
        multiple_of=2,
        axes_dim_rope=(4, 2, 2),
        axes_lens=(512, 128, 128),
        cap_feat_dim=32,
    )
    return Lumina2Pipeline(
        transformer=transformer,
        scheduler=euler(),
        vae=image_vae(**FACTORS),
        text_encoder=qwen3(tokenizer, Gemma2Model, config=Gemma2Config),
        tokenizer=tokenizer,
    )


def ovis() -> OvisImagePipeline:
    tokenizer = chat_tokenizer()
    return OvisImagePipeline(
        scheduler=euler(dynamic=True),
        vae=image_vae(**FACTORS),
        text_encoder=qwen3(tokenizer, Qwen3Model),
        tokenizer=tokenizer,
        transformer=OvisImageTransformer2DModel(out_channels=64, **STREAMS),
    )


def longcat(pipeline: Any, *, blocks: int) -> Any:
    tokenizer = chat_tokenizer()
    return pipeline(
        scheduler=euler(dynamic=True),
        vae=image_vae(blocks=blocks, **FACTORS),
        text_encoder=qwen_vl(tokenizer),
        tokenizer=tokenizer,
        text_processor=qwen_processor(tokenizer, Qwen2VLProcessor),
        transformer=LongCatImageTransformer2DModel(pooled_projection_dim=32, **STREAMS),
    )


TEXT: dict[str, Any] = {"prompt": PROMPT, **GUIDED}
SHORT: dict[str, Any] = {**TEXT, **SIZED, "max_sequence_length": 64}


TINY = {
    "ZImagePipeline": Tiny(lambda: z_image(ZImagePipeline), lambda: SHORT),
    "ZImagePipeline:two prompts": Tiny(
        lambda: z_image(ZImagePipeline),
        lambda: {**SHORT, "prompt": [PROMPT, "a cat"], "negative_prompt": ["bad", "worse"]},
    ),
    "ZImageImg2ImgPipeline": Tiny(lambda: z_image(ZImageImg2ImgPipeline), lambda: {**SHORT, **FEWER, **wide("image")}),
    "ZImageInpaintPipeline": Tiny(lambda: z_image(ZImageInpaintPipeline), lambda: {**SHORT, **FEWER, **painted()}),
    "ZImageControlNetPipeline": Tiny(
        lambda: z_image(ZImageControlNetPipeline, control=16), lambda: {**SHORT, **wide("control_image")}
    ),
    "ZImageControlNetInpaintPipeline": Tiny(
        lambda: z_image(ZImageControlNetInpaintPipeline, control=33),
        lambda: {**SHORT, **painted(), "control_image": picture(80, 48, seed=40)},
    ),
    "ZImageOmniPipeline": Tiny(
        lambda: z_image(ZImageOmniPipeline, siglip=True), lambda: {**SHORT, "image": [picture(80, 64)]}
    ),
    # Its system prompt alone is over 64 tokens.
    "Lumina2Pipeline": Tiny(lumina2, lambda: {**SHORT, "max_sequence_length": 256}),
    "OvisImagePipeline": Tiny(ovis, lambda: SHORT),
    "LongCatImagePipeline": Tiny(
        lambda: longcat(LongCatImagePipeline, blocks=4), lambda: {**TEXT, **SIZED, "enable_prompt_rewrite": False}
    ),
    # What is edited is scaled to 1024 pixels: seven blocks in the VAE make that 9 x 7 tokens of 128 pixels.
    "LongCatImageEditPipeline": Tiny(
        lambda: longcat(LongCatImageEditPipeline, blocks=7),
        lambda: {**TEXT, "num_inference_steps": 4, "image": picture(72, 56)},
    ),
}
LEFT_OUT: dict[str, str] = {}
