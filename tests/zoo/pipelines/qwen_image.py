"""Qwen-Image: text, pictures, edits, layers and ControlNet; Qwen-Image 2.1; Krea 2, which has its VAE."""

from typing import Any

from diffusers import (
    AutoencoderKLQwenImage,
    AutoencoderKLQwenImage21,
    Krea2Pipeline,
    Krea2Transformer2DModel,
    QwenImage21Pipeline,
    QwenImage21Transformer2DModel,
    QwenImageControlNetInpaintPipeline,
    QwenImageControlNetModel,
    QwenImageControlNetPipeline,
    QwenImageEditInpaintPipeline,
    QwenImageEditPipeline,
    QwenImageEditPlusPipeline,
    QwenImageImg2ImgPipeline,
    QwenImageInpaintPipeline,
    QwenImageLayeredPipeline,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
)
from transformers import Qwen3VLForConditionalGeneration, Qwen3VLModel, Qwen3VLProcessor

from support.tiny_parts import euler, qwen3_vl, qwen_processor, qwen_vl, wan_vae
from support.tiny_tokenizers import chat_tokenizer
from zoo.pipelines.tiny import FEWER, GUIDED, PROMPT, SIZED, Tiny, mask, painted, picture, seeded, wide

MODEL: dict[str, Any] = {
    "in_channels": 64,
    "out_channels": 16,
    "num_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 32,
    "axes_dims_rope": (4, 6, 6),
}


def made(pipeline: Any, *, control: int | None = None) -> Any:
    """`control`: channels beside the picture's in what the ControlNet sees."""
    vae = wan_vae(AutoencoderKLQwenImage)
    controlnet = {}
    if control is not None:
        controlnet["controlnet"] = QwenImageControlNetModel(**MODEL, extra_condition_channels=control)
    return pipeline(**parts(), vae=vae, **controlnet)


def edits(pipeline: Any, *, channels: int = 3, **config: bool) -> Any:
    """What is edited is scaled to 1024 pixels, or 640: six halvings in the VAE make that few tokens of 128 pixels."""
    vae = AutoencoderKLQwenImage(
        base_dim=2,
        z_dim=16,
        dim_mult=[1, 1, 1, 1, 2, 4, 4],
        num_res_blocks=1,
        temperal_downsample=[False] * 4 + [True] * 2,
        input_channels=channels,
    )
    made = parts(**config)
    return pipeline(**made, vae=vae, processor=qwen_processor(made["tokenizer"]))


def parts(**config: bool) -> dict[str, Any]:
    tokenizer = chat_tokenizer()
    return {
        "scheduler": euler(dynamic=True),
        "text_encoder": qwen_vl(tokenizer),
        "tokenizer": tokenizer,
        "transformer": QwenImageTransformer2DModel(**MODEL, **config),
    }


def qwen21(*, most: int = 3) -> Any:
    """A picture becomes at most `most` x `most` tokens of text."""
    tokenizer = chat_tokenizer()
    vae = AutoencoderKLQwenImage21(base_dim=8, decoder_base_dim=8, dim_mult=[1, 1, 1, 2, 2], num_res_blocks=1)
    transformer = QwenImage21Transformer2DModel(
        num_layers=2, attention_head_dim=16, num_attention_heads=3, context_in_dim=32, axes_dims_rope=(4, 6, 6)
    )
    return QwenImage21Pipeline(
        scheduler=euler(dynamic=True),
        vae=vae,
        text_encoder=qwen3_vl(tokenizer, Qwen3VLForConditionalGeneration),
        processor=qwen_processor(tokenizer, Qwen3VLProcessor, patch=16, most=most),
        transformer=transformer,
    )


def krea2(*, num_text_layers: int = 3) -> Any:
    tokenizer = chat_tokenizer()
    transformer = Krea2Transformer2DModel(
        in_channels=64,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=3,
        num_key_value_heads=1,
        intermediate_size=32,
        timestep_embed_dim=8,
        text_hidden_dim=32,
        num_text_layers=num_text_layers,
        text_num_attention_heads=2,
        text_num_key_value_heads=1,
        text_intermediate_size=16,
        num_layerwise_text_blocks=2,
        num_refiner_text_blocks=2,
        axes_dims_rope=(4, 2, 2),
    )
    return Krea2Pipeline(
        scheduler=euler(dynamic=True),
        vae=wan_vae(AutoencoderKLQwenImage),
        text_encoder=qwen3_vl(tokenizer, Qwen3VLModel, layers=4),
        tokenizer=tokenizer,
        transformer=transformer,
        text_encoder_select_layers=(1, 2, 3),
    )


TEXT: dict[str, Any] = {"prompt": PROMPT, "negative_prompt": "bad", "true_cfg_scale": 3.0}
SHORT: dict[str, Any] = {**TEXT, **SIZED, "max_sequence_length": 32}
EDIT: dict[str, Any] = {**TEXT, "num_inference_steps": 4, "height": 384, "width": 640}
"""Three by five tokens beside 8 x 8 of each square picture."""
SLOTS: dict[str, Any] = {**TEXT, "num_inference_steps": 4, "height": 96, "width": 160}
"""Three by five slots of 2 x 2 tokens: Qwen-Image 2.1 takes no odd number."""


def to_repaint() -> dict[str, Any]:
    """Scaled to 9 x 7 tokens, as often new as old ones."""
    return {"image": picture(72, 56), "mask_image": mask(72, 56)}


TINY = {
    "QwenImagePipeline": Tiny(lambda: made(QwenImagePipeline), lambda: SHORT),
    "QwenImageImg2ImgPipeline": Tiny(
        lambda: made(QwenImageImg2ImgPipeline), lambda: {**SHORT, **FEWER, **wide("image")}
    ),
    "QwenImageInpaintPipeline": Tiny(lambda: made(QwenImageInpaintPipeline), lambda: {**SHORT, **FEWER, **painted()}),
    "QwenImageControlNetPipeline": Tiny(
        lambda: made(QwenImageControlNetPipeline, control=0), lambda: {**SHORT, **wide("control_image")}
    ),
    "QwenImageControlNetInpaintPipeline": Tiny(
        lambda: made(QwenImageControlNetInpaintPipeline, control=4),
        lambda: seeded(**SHORT, control_image=picture(80, 48), control_mask=mask(80, 48)),
    ),
    "QwenImageEditPipeline": Tiny(lambda: edits(QwenImageEditPipeline), lambda: {**EDIT, "image": picture()}),
    "QwenImageEditPlusPipeline": Tiny(
        lambda: edits(QwenImageEditPlusPipeline, zero_cond_t=True),
        lambda: {**EDIT, "image": [picture(), picture(seed=70)]},
    ),
    "QwenImageEditInpaintPipeline": Tiny(
        lambda: edits(QwenImageEditInpaintPipeline), lambda: {**TEXT, **FEWER, **to_repaint()}
    ),
    "QwenImageLayeredPipeline": Tiny(
        lambda: edits(QwenImageLayeredPipeline, channels=4, use_additional_t_cond=True, use_layer3d_rope=True),
        lambda: {**TEXT, "num_inference_steps": 4, "image": picture().convert("RGBA"), "layers": 3},
    ),
    "QwenImage21Pipeline": Tiny(qwen21, lambda: SLOTS),
    "QwenImage21Pipeline:references": Tiny(
        qwen21, lambda: {**SLOTS, "image": [picture(), picture(seed=70)], "output_resolution": 96}
    ),
    "QwenImage21Pipeline:nothing kept": Tiny(
        qwen21, lambda: {**SLOTS, "image": picture(), "output_resolution": 96, "use_kv_cache": False}
    ),
    "Krea2Pipeline": Tiny(krea2, lambda: {"prompt": PROMPT, **GUIDED, **SIZED, "max_sequence_length": 64}),
}
LEFT_OUT: dict[str, str] = {}
