"""Stable Diffusion 3 with ControlNet and PAG, CogView 3 and 4, HiDream."""

from functools import partial
from typing import Any

import diffusers
import transformers

from support.tiny_models import SD3, sd3, sd3_parts
from support.tiny_parts import chat_parts, clip, euler, image_vae, qwen3, t5, t5_parts
from support.tiny_tokenizers import chat_tokenizer, clip_tokenizer, t5_tokenizer
from zoo import cog, image_joint
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import FEWER, GUIDED, NO_ROWS, PROMPT, REPLACED, SIZED, Tiny, mask, painted, seeded, table, wide

MODEL: dict[str, Any] = {**SD3, "num_attention_heads": 3, "caption_projection_dim": 48}
COG: dict[str, Any] = {"in_channels": 16, "out_channels": 16, "text_embed_dim": 32}
FACTORS = {"scaling_factor": 1.5305, "shift_factor": 0.0609}


def made(kind: Any, *, control: int | None = None) -> Any:
    """Three heads, without the query and key norms of 3.5; `control`: channels beside the picture's in a ControlNet."""
    parts = sd3_parts(**MODEL)
    if control is not None:
        parts["controlnet"] = diffusers.SD3ControlNetModel(**MODEL, extra_conditioning_channels=control)
    return kind(**parts)


def cogview3(kind: Any) -> Any:
    return kind(
        **t5_parts(),
        vae=image_vae(**FACTORS),
        transformer=tiny_transformer(cog.cogview3_plus, **COG, pos_embed_max_size=16, sample_size=16),
        scheduler=diffusers.CogVideoXDDIMScheduler(prediction_type="v_prediction", rescale_betas_zero_snr=True),
    )


def cogview4(kind: Any, **changed: int) -> Any:
    return kind(
        **chat_parts(qwen3, transformers.GlmModel, config=transformers.GlmConfig),
        vae=image_vae(**FACTORS),
        transformer=tiny_transformer(cog.cogview4, **COG | changed),
        scheduler=euler(dynamic=True),
    )


def hidream(kind: Any) -> Any:
    first, second, third, fourth = clip_tokenizer(), clip_tokenizer(), t5_tokenizer(), chat_tokenizer()
    sizes = {"in_channels": 16, "out_channels": 16, "caption_channels": [32, 32], "text_emb_dim": 64}
    pipeline = kind(
        scheduler=euler(),
        vae=image_vae(**FACTORS),
        text_encoder=clip(first, transformers.CLIPTextModelWithProjection),
        tokenizer=first,
        text_encoder_2=clip(second, transformers.CLIPTextModelWithProjection),
        tokenizer_2=second,
        text_encoder_3=t5(third),
        tokenizer_3=third,
        text_encoder_4=qwen3(fourth, transformers.LlamaForCausalLM, layers=4, config=transformers.LlamaConfig),
        tokenizer_4=fourth,
        transformer=tiny_transformer(image_joint.hidream, **sizes, max_resolution=(10, 6)),
    )
    pipeline.text_encoder_4.set_attn_implementation("eager")  # the pipeline asks for attention weights
    pipeline.default_sample_size = 8  # every picture is scaled to that area
    return pipeline


TEXT: dict[str, Any] = {"prompt": PROMPT, **GUIDED, **SIZED, "max_sequence_length": 32}


PERTURBED: dict[str, Any] = {"branches": 3, "unshared": NO_ROWS, "refused": REPLACED}
TINY = table(
    Tiny("StableDiffusion3Pipeline", lambda _: sd3(), lambda: TEXT),
    Tiny(
        "StableDiffusion3Pipeline:skipped layers",
        lambda _: sd3(),
        # In the second and third step a third call leaves the first layer out.
        lambda: {**TEXT, "skip_guidance_layers": [0], "skip_layer_guidance_stop": 0.6},
    ),
    Tiny("StableDiffusion3Img2ImgPipeline", made, lambda: {**TEXT, **FEWER, **wide("image")}),
    Tiny("StableDiffusion3InpaintPipeline", made, lambda: {**TEXT, **FEWER, **painted()}),
    Tiny(
        "StableDiffusion3ControlNetPipeline", partial(made, control=0), lambda: seeded(**TEXT, **wide("control_image"))
    ),
    Tiny(
        "StableDiffusion3ControlNetInpaintingPipeline",
        partial(made, control=1),
        lambda: seeded(**TEXT, **wide("control_image"), control_mask=mask(80, 48)),
    ),
    Tiny("StableDiffusion3PAGPipeline", made, lambda: TEXT, **PERTURBED),
    Tiny("StableDiffusion3PAGImg2ImgPipeline", made, lambda: {**TEXT, **FEWER, **wide("image")}, **PERTURBED),
    Tiny("CogView3PlusPipeline", cogview3, lambda: TEXT),
    Tiny("CogView4Pipeline", cogview4, lambda: TEXT),
    Tiny("CogView4ControlPipeline", partial(cogview4, in_channels=32), lambda: seeded(**TEXT, **wide("control_image"))),
    Tiny("HiDreamImagePipeline", hidream, lambda: TEXT),
)
