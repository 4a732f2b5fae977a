"""Qwen-Image: text, pictures, edits, layers and ControlNet; Qwen-Image 2.1; Krea 2, which has its VAE."""

from functools import partial
from typing import Any

import diffusers
import transformers

from support.tiny_parts import chat_parts, euler, qwen3_vl, qwen_processor, qwen_vl, wan_vae
from support.tiny_tokenizers import chat_tokenizer
from zoo import image_joint
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import FEWER, GUIDED, PROMPT, SIZED, Tiny, mask, painted, picture, seeded, table, wide

MODEL: dict[str, Any] = {
    "in_channels": 64,
    "out_channels": 16,
    "num_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 32,
    "axes_dims_rope": (4, 6, 6),
}


def made(kind: Any, *, control: int | None = None) -> Any:
    """`control`: channels beside the picture's in what the ControlNet sees."""
    vae = wan_vae(diffusers.AutoencoderKLQwenImage)
    controlnet = {}
    if control is not None:
        controlnet["controlnet"] = diffusers.QwenImageControlNetModel(**MODEL, extra_condition_channels=control)
    return kind(**parts(), vae=vae, **controlnet)


def edits(kind: Any, *, channels: int = 3, **config: bool) -> Any:
    """What is edited is scaled to 1024 pixels, or 640: six halvings in the VAE make that few tokens of 128 pixels."""
    vae = diffusers.AutoencoderKLQwenImage(
        base_dim=2,
        z_dim=16,
        dim_mult=[1, 1, 1, 1, 2, 4, 4],
        num_res_blocks=1,
        temperal_downsample=[False] * 4 + [True] * 2,
        input_channels=channels,
    )
    made = parts(**config)
    return kind(**made, vae=vae, processor=qwen_processor(made["tokenizer"]))


def parts(**config: bool) -> dict[str, Any]:
    transformer = diffusers.QwenImageTransformer2DModel(**MODEL, **config)
    return {**chat_parts(qwen_vl), "scheduler": euler(dynamic=True), "transformer": transformer}


def qwen21(kind: Any, *, most: int = 3) -> Any:
    """A picture becomes at most `most` x `most` tokens of text."""
    tokenizer = chat_tokenizer()
    sizes = {"in_channels": 64, "out_channels": 64, "context_in_dim": 32, "axes_dims_rope": (4, 6, 6)}
    return kind(
        scheduler=euler(dynamic=True),
        vae=diffusers.AutoencoderKLQwenImage21(
            base_dim=8, decoder_base_dim=8, dim_mult=[1, 1, 1, 2, 2], num_res_blocks=1
        ),
        text_encoder=qwen3_vl(tokenizer, transformers.Qwen3VLForConditionalGeneration),
        processor=qwen_processor(tokenizer, transformers.Qwen3VLProcessor, patch=16, most=most),
        transformer=tiny_transformer(image_joint.qwen_image21, **sizes),
    )


def krea2(kind: Any, *, read: tuple[int, ...] = (1, 2, 3), layers: int = 4, **how: bool) -> Any:
    """`read`: layers of the text encoder."""
    sizes = {"in_channels": 64, "text_hidden_dim": 32, "num_layerwise_text_blocks": 2, "num_refiner_text_blocks": 2}
    return kind(
        **chat_parts(qwen3_vl, transformers.Qwen3VLModel, layers=layers),
        scheduler=euler(dynamic=True),
        vae=wan_vae(diffusers.AutoencoderKLQwenImage),
        transformer=tiny_transformer(image_joint.krea2, **sizes, num_text_layers=len(read)),
        text_encoder_select_layers=read,
        **how,
    )


TEXT: dict[str, Any] = {"prompt": PROMPT, "negative_prompt": "bad", "true_cfg_scale": 3.0}
SHORT: dict[str, Any] = {**TEXT, **SIZED, "max_sequence_length": 32}
# Three by five tokens beside 8 x 8 of each square picture.
EDIT: dict[str, Any] = {**TEXT, "num_inference_steps": 4, "height": 384, "width": 640}
# Three by five slots of 2 x 2 tokens: Qwen-Image 2.1 takes no odd number.
SLOTS: dict[str, Any] = {**TEXT, "num_inference_steps": 4, "height": 96, "width": 160}


def to_repaint() -> dict[str, Any]:
    """Scaled to 9 x 7 tokens, as often new as old ones."""
    return {"image": picture(72, 56), "mask_image": mask(72, 56)}


TINY = table(
    Tiny("QwenImagePipeline", made, lambda: SHORT),
    Tiny("QwenImageImg2ImgPipeline", made, lambda: {**SHORT, **FEWER, **wide("image")}),
    Tiny("QwenImageInpaintPipeline", made, lambda: {**SHORT, **FEWER, **painted()}),
    Tiny("QwenImageControlNetPipeline", partial(made, control=0), lambda: {**SHORT, **wide("control_image")}),
    Tiny(
        "QwenImageControlNetInpaintPipeline",
        partial(made, control=4),
        lambda: seeded(**SHORT, control_image=picture(80, 48), control_mask=mask(80, 48)),
    ),
    Tiny("QwenImageEditPipeline", edits, lambda: {**EDIT, "image": picture()}),
    Tiny(
        "QwenImageEditPlusPipeline",
        partial(edits, zero_cond_t=True),
        lambda: {**EDIT, "image": [picture(), picture(seed=70)]},
    ),
    Tiny("QwenImageEditInpaintPipeline", edits, lambda: {**TEXT, **FEWER, **to_repaint()}),
    Tiny(
        "QwenImageLayeredPipeline",
        partial(edits, channels=4, use_additional_t_cond=True, use_layer3d_rope=True),
        lambda: {**TEXT, "num_inference_steps": 4, "image": picture().convert("RGBA"), "layers": 3},
    ),
    Tiny("QwenImage21Pipeline", qwen21, lambda: SLOTS),
    Tiny(
        "QwenImage21Pipeline:references",
        qwen21,
        lambda: {**SLOTS, "image": [picture(), picture(seed=70)], "output_resolution": 96},
    ),
    Tiny(
        "QwenImage21Pipeline:nothing kept",
        qwen21,
        lambda: {**SLOTS, "image": picture(), "output_resolution": 96, "use_kv_cache": False},
    ),
    Tiny("Krea2Pipeline", krea2, lambda: {"prompt": PROMPT, **GUIDED, **SIZED, "max_sequence_length": 64}),
)
