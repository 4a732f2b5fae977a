"""Families whose text encoder is Qwen3-VL: Fibo 2, JoyImage Edit, Nucleus Image."""

from collections.abc import Callable
from functools import partial
from typing import Any

import diffusers
import transformers

from support.tiny_parts import euler, qwen3_vl, wan_vae
from support.tiny_tokenizers import qwen_tokenizer
from zoo import image_joint, kandinsky, single_stream
from zoo.cases import Built, Case, tiny_transformer
from zoo.pipelines.tiny import PICTURE, Tiny, picture, table

CHAT = """{% for message in messages %}<|im_start|>{{ message['role'] }}
{% if message['content'] is string %}{{ message['content'] }}{% else %}{{ message['content'][0]['text'] }}{% endif %}\
<|im_end|>
{% endfor %}<|im_start|>assistant
"""


def fibo(kind: Any) -> Any:
    """Its transformer reads the layers of its text encoder up to the 35th, some of them in blocks of their own."""
    tokenizer = qwen_tokenizer()
    sizes = {"in_channels": 8, "n_layers": 7, "perceiver_num_layers": 2, "cap_feat_dim": 48}
    reads = {"injection_layer_ids": (1, 2, 3, 4, 5), "axes_lens": (64, 32, 32)}
    return kind(
        transformer=tiny_transformer(image_joint.bria_fibo2, **sizes, **reads),
        scheduler=euler(dynamic=True),
        vae=diffusers.AutoencoderKLFlux2(
            latent_channels=8,
            block_out_channels=(8, 8, 16, 16),
            layers_per_block=1,
            norm_num_groups=4,
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
        ),
        text_encoder=encoder(tokenizer, layers=36),
        processor=processor(tokenizer),
    )


def joy(kind: Any, *, build: Callable[[Case], Built] = kandinsky.joy_image_edit) -> Any:
    """128 pixels a latent: the pipelines scale every picture to about a million pixels."""
    tokenizer = qwen_tokenizer()
    return kind(
        transformer=tiny_transformer(build, in_channels=16, patch_size=[1, 1, 1], text_dim=16),
        scheduler=euler(),
        vae=wan_vae(
            dim_mult=[1, 1, 1, 2, 2],
            temperal_downsample=[False, False, True, True],
            in_channels=192,
            out_channels=192,
            patch_size=8,
            scale_factor_spatial=128,
        ),
        text_encoder=encoder(tokenizer),
        tokenizer=tokenizer,
        processor=processor(tokenizer),
    )


def nucleus(kind: Any) -> Any:
    """A dense block, and three with experts. Of its text encoder the eighth layer from the end is read."""
    tokenizer = qwen_tokenizer()
    return kind(
        transformer=tiny_transformer(single_stream.nucleus_image, in_channels=64, out_channels=16, num_layers=4),
        scheduler=euler(dynamic=True),
        vae=wan_vae(diffusers.AutoencoderKLQwenImage),
        text_encoder=encoder(tokenizer, layers=9),
        processor=processor(tokenizer),
    )


def encoder(tokenizer: Any, *, layers: int = 2) -> transformers.Qwen3VLForConditionalGeneration:
    return qwen3_vl(tokenizer, transformers.Qwen3VLForConditionalGeneration, layers=layers, width=16, patch=14)


def processor(tokenizer: Any) -> transformers.Qwen3VLProcessor:
    """Made around its constructor, which wants a video processor and so torchvision."""
    made = transformers.Qwen3VLProcessor.__new__(transformers.Qwen3VLProcessor)
    made.image_processor = transformers.Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=56 * 56)
    made.tokenizer, made.video_processor, made.chat_template = tokenizer, None, CHAT
    for kind in ("image", "video"):
        token = f"<|{kind}_pad|>"
        setattr(made, f"{kind}_token", token)
        setattr(made, f"{kind}_token_id", tokenizer.convert_tokens_to_ids(token))
    return made


JOY = PICTURE | {"height": 896, "width": 1152}  # seven by nine tokens
TINY = table(
    Tiny("BriaFibo2Pipeline", fibo, lambda: PICTURE),
    Tiny("BriaFibo2Pipeline:edit", fibo, lambda: PICTURE | {"image": picture(64, 64)}),
    Tiny("JoyImageEditPipeline", joy, lambda: JOY),
    # As many again of the picture to edit, whose latents are drawn from torch's global generator, not from its own.
    Tiny("JoyImageEditPipeline:edit", joy, lambda: JOY | {"image": picture(72, 56)}),
    # Three by five tokens, and eight by eight of a picture; two branches in a doubled batch.
    Tiny(
        "JoyImageEditPlusPipeline",
        partial(joy, build=kandinsky.joy_image_edit_plus),
        lambda: PICTURE | {"images": [picture()], "height": 384, "width": 640},
    ),
    Tiny("NucleusMoEImagePipeline", nucleus, lambda: PICTURE),
)
