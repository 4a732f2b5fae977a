"""Families whose text encoder is Qwen3-VL: Fibo 2, JoyImage Edit, Nucleus Image."""

from collections.abc import Callable
from typing import Any

from diffusers import (
    AutoencoderKLFlux2,
    AutoencoderKLQwenImage,
    BriaFibo2Pipeline,
    DiffusionPipeline,
    JoyImageEditPipeline,
    JoyImageEditPlusPipeline,
    NucleusMoEImagePipeline,
)
from transformers import Qwen2VLImageProcessorPil, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

from support.tiny_parts import euler, qwen3_vl, wan_vae
from support.tiny_tokenizers import qwen_tokenizer
from zoo import image_joint, kandinsky, single_stream
from zoo.cases import Built, Case, tiny_transformer
from zoo.pipelines.tiny import PICTURE, Tiny, picture

CHAT = """{% for message in messages %}<|im_start|>{{ message['role'] }}
{% if message['content'] is string %}{{ message['content'] }}{% else %}{{ message['content'][0]['text'] }}{% endif %}\
<|im_end|>
{% endfor %}<|im_start|>assistant
"""


def fibo() -> DiffusionPipeline:
    """Its transformer reads the layers of its text encoder up to the 35th, some of them in blocks of their own."""
    tokenizer = qwen_tokenizer()
    transformer = tiny_transformer(
        image_joint.bria_fibo2,
        in_channels=8,
        n_layers=7,
        injection_layer_ids=(1, 2, 3, 4, 5),
        perceiver_num_layers=2,
        cap_feat_dim=48,
        axes_lens=(64, 32, 32),
    )
    return BriaFibo2Pipeline(
        transformer=transformer,
        scheduler=euler(dynamic=True),
        vae=_flux2_vae(),
        text_encoder=encoder(tokenizer, layers=36),
        processor=processor(tokenizer),
    )


def joy(pipeline: Any, build: Callable[[Case], Built]) -> DiffusionPipeline:
    tokenizer = qwen_tokenizer()
    return pipeline(
        transformer=tiny_transformer(build, in_channels=16, patch_size=[1, 1, 1], text_dim=16),
        scheduler=euler(),
        vae=_coarse_vae(),
        text_encoder=encoder(tokenizer),
        tokenizer=tokenizer,
        processor=processor(tokenizer),
    )


def joy_edit() -> DiffusionPipeline:
    return joy(JoyImageEditPipeline, kandinsky.joy_image_edit)


def joy_edit_plus() -> DiffusionPipeline:
    return joy(JoyImageEditPlusPipeline, kandinsky.joy_image_edit_plus)


def nucleus() -> DiffusionPipeline:
    """A dense block, and three with experts. Of its text encoder the eighth layer from the end is read."""
    tokenizer = qwen_tokenizer()
    return NucleusMoEImagePipeline(
        transformer=tiny_transformer(single_stream.nucleus_image, in_channels=64, out_channels=16, num_layers=4),
        scheduler=euler(dynamic=True),
        vae=wan_vae(AutoencoderKLQwenImage),
        text_encoder=encoder(tokenizer, layers=9),
        processor=processor(tokenizer),
    )


def encoder(tokenizer: Any, *, layers: int = 2) -> Qwen3VLForConditionalGeneration:
    return qwen3_vl(tokenizer, Qwen3VLForConditionalGeneration, layers=layers, width=16, patch=14)


def processor(tokenizer: Any) -> Qwen3VLProcessor:
    """Made around its constructor, which wants a video processor and so torchvision."""
    made = Qwen3VLProcessor.__new__(Qwen3VLProcessor)
    made.image_processor = Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=56 * 56)
    made.tokenizer, made.video_processor, made.chat_template = tokenizer, None, CHAT
    for kind in ("image", "video"):
        token = f"<|{kind}_pad|>"
        setattr(made, f"{kind}_token", token)
        setattr(made, f"{kind}_token_id", tokenizer.convert_tokens_to_ids(token))
    return made


def _flux2_vae() -> AutoencoderKLFlux2:
    return AutoencoderKLFlux2(
        latent_channels=8,
        block_out_channels=(8, 8, 16, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
    )


def _coarse_vae() -> Any:
    """128 pixels a latent: the pipelines scale every picture to about a million pixels."""
    return wan_vae(
        dim_mult=[1, 1, 1, 2, 2],
        temperal_downsample=[False, False, True, True],
        in_channels=192,
        out_channels=192,
        patch_size=8,
        scale_factor_spatial=128,
    )


def _edited() -> dict[str, Any]:
    return PICTURE | {"image": picture(64, 64)}


def _joy() -> dict[str, Any]:
    """Seven by nine tokens."""
    return PICTURE | {"height": 896, "width": 1152}


def _joy_edit() -> dict[str, Any]:
    """As many again of the picture to edit, whose latents are drawn from torch's global generator, not from its own."""
    return _joy() | {"image": picture(72, 56)}


def _joy_plus() -> dict[str, Any]:
    """Three by five tokens, and eight by eight of a picture; two branches in a doubled batch."""
    return PICTURE | {"images": [picture()], "height": 384, "width": 640}


TINY = {
    "BriaFibo2Pipeline": Tiny(fibo, lambda: PICTURE),
    "BriaFibo2Pipeline:edit": Tiny(fibo, _edited),
    "JoyImageEditPipeline": Tiny(joy_edit, _joy),
    "JoyImageEditPipeline:edit": Tiny(joy_edit, _joy_edit),
    "JoyImageEditPlusPipeline": Tiny(joy_edit_plus, _joy_plus),
    "NucleusMoEImagePipeline": Tiny(nucleus, lambda: PICTURE),
}
LEFT_OUT: dict[str, str] = {}
