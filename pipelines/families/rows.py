"""The families that are rows: lines of models whose stages are diffusers' own modular blocks.

Numbers are those of the makers' model cards and of the classic pipelines' signatures.
"""

from __future__ import annotations

from .card import Card
from .row import Row, Variant

Z_IMAGE = Row(
    name="z_image",
    title="Z-Image",
    pipelines=("ZImagePipeline", "ZImageImg2ImgPipeline"),
    variants=(
        Variant(
            card=Card(name="Z-Image Turbo", licence="Apache-2.0", steps=9, guidance=1.0),
            blocks="ZImageModularPipeline",
            when={"scheduler.shift": 3.0},
        ),
        Variant(
            card=Card(name="Z-Image", licence="Apache-2.0", steps=50, guidance=4.0), blocks="ZImageModularPipeline"
        ),
    ),
    longest_text=1024,
    takes_image="start",
    adds_guidance=True,
)

KREA_2 = Row(
    name="krea_2",
    title="Krea 2",
    pipelines=("Krea2Pipeline",),
    variants=(
        Variant(
            card=Card(name="Krea 2 Turbo", licence="Krea 2 Community License", steps=8, guidance=1.0),
            blocks="Krea2TurboModularPipeline",
            when={"is_distilled": True},
        ),
        Variant(
            card=Card(name="Krea 2", licence="Krea 2 Community License", steps=28, guidance=4.5),
            blocks="Krea2ModularPipeline",
        ),
    ),
    longest_text=512,
    adds_guidance=True,
    fixed={"text_encoder_select_layers": [2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35]},
)

FLUX_2_SYSTEM = (
    "You are an AI that reasons about image descriptions. You give structured responses focusing on object "
    "relationships, object\nattribution and actions without speculation."
)
"""What FLUX.2 dev was made with, line break included; the modular block has a space there."""

FLUX_2 = Row(
    name="flux_2",
    title="FLUX.2",
    pipelines=("Flux2Pipeline", "Flux2KleinPipeline"),
    variants=(
        Variant(
            card=Card(
                name="FLUX.2 dev", licence="FLUX.2 [dev] Non-Commercial License", steps=50, distilled_guidance=4.0
            ),
            blocks="Flux2ModularPipeline",
            when={"transformer.guidance_embeds": True},
        ),
        Variant(
            card=Card(name="FLUX.2 klein", licence="Apache-2.0 (4B), FLUX Non-Commercial License (9B)", steps=4),
            blocks="Flux2KleinModularPipeline",
            when={"is_distilled": True},
        ),
        Variant(
            card=Card(
                name="FLUX.2 klein base",
                licence="Apache-2.0 (4B), FLUX Non-Commercial License (9B)",
                steps=50,
                guidance=4.0,
            ),
            blocks="Flux2KleinBaseModularPipeline",
        ),
    ),
    longest_text=512,
    distilled="guidance_scale",
    settings={"DEFAULT_SYSTEM_MESSAGE": FLUX_2_SYSTEM},
)

QWEN_IMAGE_21 = Row(
    name="qwen_image_21",
    title="Qwen-Image 2.1",
    pipelines=("QwenImage21Pipeline",),
    variants=(
        Variant(
            card=Card(name="Qwen-Image 2.1 Turbo", licence="Apache-2.0", steps=8, text_length=1024),
            blocks="QwenImage21TurboModularPipeline",
            marked_by="sample_sigmas",
        ),
        Variant(
            card=Card(name="Qwen-Image 2.1", licence="Apache-2.0", steps=40, guidance=4.0, text_length=1024),
            blocks="QwenImage21ModularPipeline",
        ),
    ),
    longest_text=1024,
    text_is_fixed=True,
    text=("processor", "text_encoder"),
)

ERNIE_IMAGE = Row(
    name="ernie_image",
    title="ERNIE-Image",
    pipelines=("ErnieImagePipeline",),
    variants=(
        Variant(
            card=Card(name="ERNIE-Image", licence="Apache-2.0", steps=50, guidance=4.0, text_length=2048),
            blocks="ErnieImageModularPipeline",
        ),
    ),
    longest_text=2048,
    text_is_fixed=True,
)

HUNYUAN_VIDEO_15 = Row(
    name="hunyuan_video_15",
    title="HunyuanVideo 1.5",
    pipelines=("HunyuanVideo15Pipeline",),
    variants=(
        Variant(
            card=Card(
                name="HunyuanVideo 1.5",
                licence="Tencent Hunyuan Community License",
                width=848,
                height=480,
                frames=121,
                fps=24.0,
                steps=50,
                guidance=6.0,
                text_length=1000,
            ),
            blocks="HunyuanVideo15ModularPipeline",
        ),
    ),
    longest_text=1000,
    text_is_fixed=True,
    output="video",
    text=("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2"),
    patch=1,
    frame_multiple=4,
)

LTX = Row(
    name="ltx",
    title="LTX-Video",
    pipelines=("LTXPipeline",),
    variants=(
        Variant(
            card=Card(
                name="LTX-Video",
                licence="LTX-Video Open Weights License",
                width=704,
                height=512,
                frames=161,
                fps=25.0,
                steps=50,
                guidance=3.0,
                text_length=128,
            ),
            blocks="LTXModularPipeline",
        ),
    ),
    longest_text=512,
    output="video",
    patch=1,
    frame_multiple=8,
)

ROWS: dict[str, Row] = {
    row.name: row for row in (Z_IMAGE, QWEN_IMAGE_21, KREA_2, FLUX_2, ERNIE_IMAGE, HUNYUAN_VIDEO_15, LTX)
}
