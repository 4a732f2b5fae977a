"""Stable Diffusion 3's stages give what diffusers' modular pipeline gives, bit for bit in fp32.

StableDiffusion3Pipeline puts both branches of guidance into one call of the transformer, and the modular one, as we,
makes two calls: they differ by rounding only when guidance is on. See route_differences.md.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import FlowMatchHeunDiscreteScheduler, StableDiffusion3Pipeline

from latentloom.pipelines import stages
from latentloom.pipelines.denoising.guidance import guider
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import Image, Latents, Sampling, to_plain
from support.by_hand import cells

PAIRS = pytest.mark.parametrize(("guidance", "batch"), cells((1.0, 4.0), (1, 2), here=[(1.0, 1), (4.0, 2)]))
BATCH = pytest.mark.parametrize("batch", [1, 2])


def stock_options(batch: int) -> dict[str, Any]:
    return {
        "prompt": "a red circle",
        "negative_prompt": "blue",
        "max_sequence_length": 64,
        "num_images_per_prompt": batch,
        "generator": generators([5 + i for i in range(batch)]),
        "output_type": "np",
        "height": 64,
        "width": 64,
    }


def modular(stock: Any, guidance: float) -> Any:
    from diffusers.modular_pipelines.modular_pipeline import LoopSequentialPipelineBlocks
    from diffusers.modular_pipelines.stable_diffusion_3.modular_blocks_stable_diffusion_3 import (
        StableDiffusion3AutoBlocks,
    )

    from latentloom.pipelines.denoising.blocks import _nested

    made = StableDiffusion3AutoBlocks().init_pipeline()
    made.update_components(**{name: part for name, part in stock("sd3").components.items() if part is not None})
    made.update_components(guider=guider(guidance, Sampling()))
    for block in _nested(made._blocks):
        if isinstance(block, LoopSequentialPipelineBlocks):
            block.set_progress_bar_config(disable=True)
    return made


def decoded(model: Any, latents: Any) -> torch.Tensor:
    return stages.decode({"model": model, "latents": latents}).pixels


@PAIRS
def test_text_to_image_equals_the_modular_pipeline(
    guidance: float, batch: int, model: Any, stock: Any, canvas: Any, paint: Any
) -> None:
    ours = decoded(model("sd3"), paint(model("sd3"), canvas("sd3", batch=batch), guidance=guidance))
    theirs = modular(stock, guidance)(**stock_options(batch), num_inference_steps=3, output="images")
    assert (ours - torch.from_numpy(theirs)).abs().max() == 0.0


@PAIRS
def test_text_to_image_is_near_the_classic_pipeline(
    guidance: float, batch: int, model: Any, stock: Any, canvas: Any, paint: Any
) -> None:
    ours = decoded(model("sd3"), paint(model("sd3"), canvas("sd3", batch=batch), guidance=guidance))
    theirs = stock("sd3")(**stock_options(batch), guidance_scale=guidance, num_inference_steps=3).images
    assert (ours - torch.from_numpy(theirs)).abs().max() <= (0.0 if guidance == 1.0 else 2e-5)


@pytest.mark.parametrize(
    ("guidance", "batch", "strength"),
    cells((1.0, 4.0), (1, 2), (0.5, 1.0), here=[(1.0, 1, 1.0), (4.0, 2, 0.5)]),
)
def test_image_to_image_equals_the_modular_and_is_near_the_classic_pipeline(
    guidance: float, batch: int, strength: float, model: Any, stock: Any, paint: Any, picture: torch.Tensor
) -> None:
    start = encoded(model("sd3"), picture)
    ours = decoded(
        model("sd3"),
        paint(model("sd3"), replace(start, batch=batch), guidance=guidance, strength=strength, steps=4),
    )
    options = {"strength": strength, "num_inference_steps": 4}
    latents = {"image_latents": start.tensor}
    theirs = modular(stock, guidance)(**stock_options(batch), **options, **latents, output="images")
    assert (ours - torch.from_numpy(theirs)).abs().max() == 0.0
    classic = stock("sd3", "StableDiffusion3Img2ImgPipeline")
    others = classic(**stock_options(batch), **options, image=start.tensor, guidance_scale=guidance).images
    assert (ours - torch.from_numpy(others)).abs().max() <= (0.0 if guidance == 1.0 else 2e-5)


@BATCH
def test_heun_equals_the_classic_pipeline_with_its_heun(
    batch: int, model: Any, stock: Any, canvas: Any, paint: Any
) -> None:
    sampling = to_plain(Sampling(scheduler="heun"))
    ours = decoded(model("sd3"), paint(model("sd3"), canvas("sd3", batch=batch), sampling=sampling))
    heun = FlowMatchHeunDiscreteScheduler(shift=3.0)
    pipeline = StableDiffusion3Pipeline(**{**stock("sd3").components, "scheduler": heun})
    pipeline.set_progress_bar_config(disable=True)
    theirs = pipeline(**stock_options(batch), guidance_scale=1.0, num_inference_steps=3).images
    assert (ours - torch.from_numpy(theirs)).abs().max() == 0.0


def test_a_model_without_t5_reads_the_prompt_with_clip_alone(tiny: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("sd3"), tmp_path / "sd3"))
    index = json.loads((folder / "model_index.json").read_text())
    for name in ("text_encoder_3", "tokenizer_3"):
        index[name] = [None, None]
        shutil.rmtree(folder / name)
    (folder / "model_index.json").write_text(json.dumps(index))
    model = to_plain(describe_model(str(folder), device="cpu"))
    positive = stages.encode_text({"model": model, "prompt": "a red circle", "text_length": 64}).positive
    assert positive["prompt_embeds"].shape == (1, 77 + 64, 64)  # as wide as the transformer reads
    assert positive["prompt_embeds"][:, :77].any() and not positive["prompt_embeds"][:, 77:].any()


def encoded(model: dict[str, Any], pixels: torch.Tensor) -> Latents:
    return stages.encode_image(model=model, image=Image(pixels=pixels), width=64, height=64, seed=1)
