"""FLUX.1 and what is made from it (VisualCloze, Chroma), and FLUX.2."""

from functools import partial
from typing import Any

import diffusers
import transformers

from support.tiny_models import FLUX, flux, flux_parts
from support.tiny_parts import chat_parts, euler, image_vae, mistral3, qwen3, t5_parts
from zoo import flux as zoo
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import FEWER, GUIDED, PROMPT, SIZED, Tiny, painted, picture, table, wide


def made(kind: Any, *, in_channels: int = 64, controlnet: bool = False, **settings: int) -> Any:
    """A FLUX.1 pipeline; of its transformer's channels 64 are the picture, the others what conditions it."""
    parts = flux_parts(in_channels=in_channels, heads=3, out_channels=64)
    if controlnet:
        known = {"in_channels": 64, "num_attention_heads": 3, "guidance_embeds": True}
        parts["controlnet"] = diffusers.FluxControlNetModel(**FLUX, **known)
    return kind(**parts, **settings)


def chroma(kind: Any) -> Any:
    transformer = tiny_transformer(zoo.chroma, in_channels=64, approximator_layers=2)
    transformer.register_to_config(guidance_embeds=False)  # the inpainting pipeline asks for it, the class has none
    return kind(
        **t5_parts(),
        scheduler=euler(),
        vae=image_vae(scaling_factor=0.3611, shift_factor=0.1159),
        transformer=transformer,
    )


def flux2(kind: Any, *, layers: int = 3) -> Any:
    """A tokenizer is the processor, which wants torchvision: pictures go past it."""
    text = chat_parts(mistral3, transformers.Mistral3ForConditionalGeneration, layers=layers)
    return kind(**text, **_flux2_parts(guidance=True))


def klein(kind: Any, *, is_distilled: bool = False, layers: int = 3) -> Any:
    text = chat_parts(qwen3, transformers.Qwen3ForCausalLM, width=16, layers=layers)
    return kind(**text, **_flux2_parts(guidance=False), is_distilled=is_distilled)


def _flux2_parts(*, guidance: bool) -> dict[str, Any]:
    return {
        "scheduler": euler(dynamic=True),
        "vae": image_vae(diffusers.AutoencoderKLFlux2, latents=32),
        "transformer": tiny_transformer(
            zoo.flux2, in_channels=128, joint_attention_dim=48, guidance_embeds=guidance, axes_dims_rope=(4, 4, 4, 4)
        ),
    }


TEXT: dict[str, Any] = {"prompt": PROMPT, "max_sequence_length": 32}
TRUE: dict[str, Any] = {"negative_prompt": "bad", "true_cfg_scale": 2.0}  # two calls in each step, one after the other
# Three layers of the text encoder are stacked: published ones are deeper.
LAYERED: dict[str, Any] = {"prompt": PROMPT, "max_sequence_length": 64, "text_encoder_out_layers": (1, 2, 3), **SIZED}
LONG: dict[str, Any] = {**LAYERED, "max_sequence_length": 256}
# What VisualCloze is asked; without its own long sentence on the layout being cut off.
GRID = {"task_prompt": "a circle from a square", "content_prompt": PROMPT, "num_inference_steps": 4}
FIXED: dict[str, Any] = {"max_area": 48 * 80, "_auto_resize": False}


def controlled(**more: Any) -> dict[str, Any]:
    return {**TEXT, **SIZED, **wide("control_image"), **more}


def examples(**more: Any) -> dict[str, Any]:
    """Two rows of examples and one to complete: each of three pictures, 3 x 3 tokens."""
    rows: list[list[Any]] = [[picture(seed=8 * row + column) for column in range(3)] for row in range(3)]
    rows[-1][-1] = None
    return {**GRID, "image": rows, **more}


def references(count: int) -> dict[str, Any]:
    """The smallest that FLUX.2 takes: 4 x 5 tokens each."""
    return {"image": [picture(80, 64, seed=40 * number) for number in range(count)]}


CONTROL, NET, CLOZE = (
    partial(made, in_channels=128),
    partial(made, controlnet=True),
    partial(made, in_channels=384, resolution=48),
)
TINY = table(
    Tiny("FluxPipeline", lambda _: flux(), lambda: {**TEXT, **TRUE, **SIZED}),
    Tiny("FluxImg2ImgPipeline", made, lambda: {**TEXT, **TRUE, **SIZED, **FEWER, **wide("image")}),
    Tiny("FluxInpaintPipeline", made, lambda: {**TEXT, **TRUE, **SIZED, **FEWER, **painted()}),
    Tiny("FluxControlPipeline", CONTROL, controlled, branches=1),
    Tiny("FluxControlImg2ImgPipeline", CONTROL, lambda: controlled(**FEWER, **wide("image")), branches=1),
    Tiny("FluxControlInpaintPipeline", CONTROL, lambda: controlled(**FEWER, **painted()), branches=1),
    Tiny("FluxControlNetPipeline", NET, lambda: controlled(**TRUE, controlnet_conditioning_scale=0.6)),
    Tiny("FluxControlNetImg2ImgPipeline", NET, lambda: controlled(**FEWER, **wide("image")), branches=1),
    Tiny("FluxControlNetInpaintPipeline", NET, lambda: controlled(**FEWER, **painted()), branches=1),
    Tiny("FluxFillPipeline", partial(made, in_channels=384), lambda: {**TEXT, **SIZED, **painted()}, branches=1),
    Tiny("FluxKontextPipeline", made, lambda: {**TEXT, **TRUE, **SIZED, **FIXED, "image": picture(80, 64)}),
    Tiny(
        "FluxKontextInpaintPipeline",
        made,
        lambda: {**TEXT, **TRUE, **SIZED, **FEWER, **FIXED, **painted(), "image_reference": picture(80, 64, seed=50)},
    ),
    Tiny("VisualClozeGenerationPipeline", CLOZE, examples, branches=1),
    Tiny(
        "VisualClozePipeline",
        CLOZE,
        lambda: examples(upsampling_height=48, upsampling_width=80, upsampling_strength=0.75),
        branches=1,
    ),
    Tiny("ChromaPipeline", chroma, lambda: {**TEXT, **GUIDED, **SIZED}),
    Tiny("ChromaImg2ImgPipeline", chroma, lambda: {**TEXT, **GUIDED, **SIZED, **FEWER, **wide("image")}),
    Tiny("ChromaInpaintPipeline", chroma, lambda: {**TEXT, **GUIDED, **SIZED, **FEWER, **painted()}),
    Tiny("Flux2Pipeline", flux2, lambda: LONG, branches=1),
    Tiny("Flux2Pipeline:references", flux2, lambda: {**LONG, **references(2)}, branches=1),
    Tiny("Flux2KleinPipeline", klein, lambda: LAYERED),
    Tiny("Flux2KleinPipeline:reference", klein, lambda: {**LAYERED, **references(1)}),
    Tiny(
        "Flux2KleinInpaintPipeline",
        klein,
        lambda: {**LAYERED, **FEWER, **painted(), "image_reference": picture(seed=40)},
    ),
    Tiny("Flux2KleinKVPipeline", partial(klein, is_distilled=True), lambda: {**LAYERED, **references(1)}, branches=1),
)
