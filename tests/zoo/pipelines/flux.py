"""FLUX.1 and what is made from it (VisualCloze, Chroma), and FLUX.2."""

from typing import Any

from diffusers import (
    AutoencoderKLFlux2,
    ChromaImg2ImgPipeline,
    ChromaInpaintPipeline,
    ChromaPipeline,
    ChromaTransformer2DModel,
    Flux2KleinInpaintPipeline,
    Flux2KleinKVPipeline,
    Flux2KleinPipeline,
    Flux2Pipeline,
    Flux2Transformer2DModel,
    FluxControlImg2ImgPipeline,
    FluxControlInpaintPipeline,
    FluxControlNetImg2ImgPipeline,
    FluxControlNetInpaintPipeline,
    FluxControlNetModel,
    FluxControlNetPipeline,
    FluxControlPipeline,
    FluxFillPipeline,
    FluxImg2ImgPipeline,
    FluxInpaintPipeline,
    FluxKontextInpaintPipeline,
    FluxKontextPipeline,
    FluxTransformer2DModel,
    VisualClozeGenerationPipeline,
    VisualClozePipeline,
)
from transformers import CLIPTextModel, Mistral3ForConditionalGeneration, Qwen3ForCausalLM

from support.tiny_models import flux
from support.tiny_parts import clip, euler, image_vae, mistral3, qwen3, t5
from support.tiny_tokenizers import chat_tokenizer, clip_tokenizer, t5_tokenizer
from zoo.pipelines.tiny import FEWER, GUIDED, PROMPT, SIZED, Tiny, painted, picture, wide

STREAMS: dict[str, Any] = {
    "num_layers": 2,
    "num_single_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 32,
}
"""Two blocks of each kind and three heads."""
FLUX: dict[str, Any] = {**STREAMS, "pooled_projection_dim": 32, "guidance_embeds": True, "axes_dims_rope": (4, 6, 6)}


def made(pipeline: Any, *, in_channels: int = 64, controlnet: bool = False, **settings: int) -> Any:
    """A FLUX.1 pipeline; of its transformer's channels 64 are the picture, the others what conditions it."""
    first, second = clip_tokenizer(), t5_tokenizer()
    parts: dict[str, Any] = {
        "scheduler": euler(dynamic=True),
        "vae": flux_vae(),
        "text_encoder": clip(first, CLIPTextModel),
        "tokenizer": first,
        "text_encoder_2": t5(second),
        "tokenizer_2": second,
        "transformer": FluxTransformer2DModel(in_channels=in_channels, out_channels=64, **FLUX),
    }
    if controlnet:
        parts["controlnet"] = FluxControlNetModel(in_channels=64, **FLUX)
    return pipeline(**parts, **settings)


def flux_vae() -> Any:
    return image_vae(scaling_factor=0.3611, shift_factor=0.1159)


def chroma(pipeline: Any) -> Any:
    tokenizer = t5_tokenizer()
    transformer = ChromaTransformer2DModel(
        patch_size=1,
        in_channels=64,
        axes_dims_rope=(4, 4, 8),
        approximator_num_channels=8,
        approximator_hidden_dim=16,
        approximator_layers=2,
        **STREAMS,
    )
    transformer.register_to_config(guidance_embeds=False)  # the inpainting pipeline asks for it, the class has none
    text_encoder = t5(tokenizer)
    return pipeline(
        scheduler=euler(), vae=flux_vae(), text_encoder=text_encoder, tokenizer=tokenizer, transformer=transformer
    )


def flux2() -> Any:
    """A tokenizer is the processor, which wants torchvision: pictures go past it."""
    tokenizer = chat_tokenizer()
    text_encoder = mistral3(tokenizer, Mistral3ForConditionalGeneration)
    parts = flux2_parts(guidance=True)
    return Flux2Pipeline(text_encoder=text_encoder, tokenizer=tokenizer, **parts)


def klein(pipeline: Any, *, is_distilled: bool = False) -> Any:
    tokenizer = chat_tokenizer()
    text_encoder = qwen3(tokenizer, Qwen3ForCausalLM, width=16, layers=3)
    parts = flux2_parts(guidance=False)
    return pipeline(text_encoder=text_encoder, tokenizer=tokenizer, is_distilled=is_distilled, **parts)


def flux2_parts(*, guidance: bool) -> dict[str, Any]:
    config = {**STREAMS, "joint_attention_dim": 48, "axes_dims_rope": (4, 4, 4, 4), "guidance_embeds": guidance}
    return {
        "scheduler": euler(dynamic=True),
        "vae": image_vae(AutoencoderKLFlux2, latents=32),
        "transformer": Flux2Transformer2DModel(in_channels=128, timestep_guidance_channels=32, **config),
    }


TEXT: dict[str, Any] = {"prompt": PROMPT, "max_sequence_length": 32}
TRUE: dict[str, Any] = {"negative_prompt": "bad", "true_cfg_scale": 2.0}
"""Two calls in each step, one after the other."""
LAYERED: dict[str, Any] = {"prompt": PROMPT, "max_sequence_length": 64, "text_encoder_out_layers": (1, 2, 3)}
"""Three layers of the text encoder are stacked: published ones are deeper."""
GRID = {"task_prompt": "a circle from a square", "content_prompt": PROMPT, "num_inference_steps": 4}
"""What VisualCloze is asked; without its own long sentence on the layout being cut off."""


def examples() -> dict[str, Any]:
    """Two rows of examples and one to complete: each of three pictures, 3 x 3 tokens."""
    rows: list[list[Any]] = [[picture(seed=8 * row + column) for column in range(3)] for row in range(3)]
    rows[-1][-1] = None
    return {"image": rows}


def references(count: int) -> dict[str, Any]:
    """The smallest that FLUX.2 takes: 4 x 5 tokens each."""
    return {"image": [picture(80, 64, seed=40 * number) for number in range(count)]}


TINY = {
    "FluxPipeline": Tiny(flux, lambda: {**TEXT, **TRUE, **SIZED}),
    "FluxImg2ImgPipeline": Tiny(
        lambda: made(FluxImg2ImgPipeline), lambda: {**TEXT, **TRUE, **SIZED, **FEWER, **wide("image")}
    ),
    "FluxInpaintPipeline": Tiny(
        lambda: made(FluxInpaintPipeline), lambda: {**TEXT, **TRUE, **SIZED, **FEWER, **painted()}
    ),
    "FluxControlPipeline": Tiny(
        lambda: made(FluxControlPipeline, in_channels=128),
        lambda: {**TEXT, **SIZED, **wide("control_image")},
        branches=1,
    ),
    "FluxControlImg2ImgPipeline": Tiny(
        lambda: made(FluxControlImg2ImgPipeline, in_channels=128),
        lambda: {**TEXT, **SIZED, **FEWER, **wide("image"), **wide("control_image")},
        branches=1,
    ),
    "FluxControlInpaintPipeline": Tiny(
        lambda: made(FluxControlInpaintPipeline, in_channels=128),
        lambda: {**TEXT, **SIZED, **FEWER, **painted(), **wide("control_image")},
        branches=1,
    ),
    "FluxControlNetPipeline": Tiny(
        lambda: made(FluxControlNetPipeline, controlnet=True),
        lambda: {**TEXT, **TRUE, **SIZED, **wide("control_image"), "controlnet_conditioning_scale": 0.6},
    ),
    "FluxControlNetImg2ImgPipeline": Tiny(
        lambda: made(FluxControlNetImg2ImgPipeline, controlnet=True),
        lambda: {**TEXT, **SIZED, **FEWER, **wide("image"), **wide("control_image")},
        branches=1,
    ),
    "FluxControlNetInpaintPipeline": Tiny(
        lambda: made(FluxControlNetInpaintPipeline, controlnet=True),
        lambda: {**TEXT, **SIZED, **FEWER, **painted(), **wide("control_image")},
        branches=1,
    ),
    "FluxFillPipeline": Tiny(
        lambda: made(FluxFillPipeline, in_channels=384), lambda: {**TEXT, **SIZED, **painted()}, branches=1
    ),
    "FluxKontextPipeline": Tiny(
        lambda: made(FluxKontextPipeline),
        lambda: {**TEXT, **TRUE, **SIZED, "image": picture(80, 64), "max_area": 48 * 80, "_auto_resize": False},
    ),
    "FluxKontextInpaintPipeline": Tiny(
        lambda: made(FluxKontextInpaintPipeline),
        lambda: {
            **TEXT,
            **TRUE,
            **SIZED,
            **FEWER,
            **painted(),
            "image_reference": picture(80, 64, seed=50),
            "max_area": 48 * 80,
            "_auto_resize": False,
        },
    ),
    "VisualClozeGenerationPipeline": Tiny(
        lambda: made(VisualClozeGenerationPipeline, in_channels=384, resolution=48),
        lambda: {**GRID, **examples()},
        branches=1,
    ),
    "VisualClozePipeline": Tiny(
        lambda: made(VisualClozePipeline, in_channels=384, resolution=48),
        lambda: {**GRID, **examples(), "upsampling_height": 48, "upsampling_width": 80, "upsampling_strength": 0.75},
        branches=1,
    ),
    "ChromaPipeline": Tiny(lambda: chroma(ChromaPipeline), lambda: {**TEXT, **GUIDED, **SIZED}),
    "ChromaImg2ImgPipeline": Tiny(
        lambda: chroma(ChromaImg2ImgPipeline), lambda: {**TEXT, **GUIDED, **SIZED, **FEWER, **wide("image")}
    ),
    "ChromaInpaintPipeline": Tiny(
        lambda: chroma(ChromaInpaintPipeline), lambda: {**TEXT, **GUIDED, **SIZED, **FEWER, **painted()}
    ),
    "Flux2Pipeline": Tiny(flux2, lambda: {**LAYERED, **SIZED, "max_sequence_length": 256}, branches=1),
    "Flux2Pipeline:references": Tiny(
        flux2, lambda: {**LAYERED, **SIZED, **references(2), "max_sequence_length": 256}, branches=1
    ),
    "Flux2KleinPipeline": Tiny(lambda: klein(Flux2KleinPipeline), lambda: {**LAYERED, **SIZED}),
    "Flux2KleinPipeline:reference": Tiny(
        lambda: klein(Flux2KleinPipeline), lambda: {**LAYERED, **SIZED, **references(1)}
    ),
    "Flux2KleinInpaintPipeline": Tiny(
        lambda: klein(Flux2KleinInpaintPipeline),
        lambda: {**LAYERED, **SIZED, **FEWER, **painted(), "image_reference": picture(seed=40)},
    ),
    "Flux2KleinKVPipeline": Tiny(
        lambda: klein(Flux2KleinKVPipeline, is_distilled=True),
        lambda: {**LAYERED, **SIZED, **references(1)},
        branches=1,
    ),
}
LEFT_OUT: dict[str, str] = {}
