"""Qwen-Image's stages give what diffusers' Qwen-Image pipelines give, bit for bit in fp32; see route_differences.md."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from latentloom.parallel.errors import Cancelled
from latentloom.pipelines import stages
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.models.describe import card_of
from latentloom.pipelines.shape import size_multiple
from latentloom.pipelines.values import Image, Latents, Model, Sampling, from_plain, to_plain
from support.by_hand import cells
from support.told import Told, counted_calls

PAIRS = pytest.mark.parametrize(("guidance", "batch"), cells((1.0, 4.0), (1, 2), here=[(1.0, 1), (4.0, 2)]))
CELLS = pytest.mark.parametrize(
    ("guidance", "batch", "strength"),
    cells((1.0, 4.0), (1, 2), (0.5, 1.0), here=[(1.0, 1, 1.0), (4.0, 2, 0.5)]),
)
SIZE = {"width": 64, "height": 96}
STEPS = 4


@PAIRS
def test_text_to_image_equals_both_stock_pipelines(
    guidance: float, batch: int, model: Any, stock: Any, canvas: Any, paint: Any
) -> None:
    latents = paint(model("qwen_image"), canvas("qwen_image", **SIZE, batch=batch), guidance=guidance, steps=STEPS)
    ours, options = pixels(model("qwen_image"), latents), {**stock_options(batch), **SIZE}
    classic = stock("qwen_image")(**options, true_cfg_scale=guidance).images.movedim(1, -1)
    assert ours.shape == (batch, 96, 64, 3)
    assert (ours - classic).abs().max() == 0.0
    assert (ours - modular(stock("qwen_image"), guidance, **{**stock_options(batch), **SIZE})).abs().max() == 0.0


@CELLS
def test_image_to_image_equals_the_modular_pipeline(
    guidance: float, batch: int, strength: float, model: Any, stock: Any, paint: Any, picture: torch.Tensor
) -> None:
    ours = repaint(model("qwen_image"), paint, picture, batch=batch, guidance=guidance, strength=strength)
    options = stock_options(batch)
    if batch == 1:  # with a list of generators its encoder wants as many pictures
        options["generator"] = options["generator"][0]
    start = torch.cat([picture] * batch).movedim(-1, 1)
    options |= {"image": start, "width": 64, "height": 64, "strength": strength}
    assert (ours - modular(stock("qwen_image"), guidance, **options)).abs().max() == 0.0


@CELLS
def test_image_to_image_equals_the_classic_pipeline_from_the_same_latents(
    guidance: float, batch: int, strength: float, model: Any, stock: Any, paint: Any, picture: torch.Tensor
) -> None:
    ours = repaint(model("qwen_image"), paint, picture, batch=batch, guidance=guidance, strength=strength)
    start = encoded(model("qwen_image"), picture).tensor  # taken as they are, so that both have the same noise
    theirs = classic(stock, start, batch=batch, guidance=guidance, strength=strength)
    assert (ours - theirs).abs().max() == 0.0


def test_image_to_image_differs_from_the_classic_pipeline_by_how_it_encodes(
    model: Any, stock: Any, paint: Any, picture: torch.Tensor
) -> None:
    # It draws the start from the VAE's distribution with the generator that makes the noise next; so both differ.
    ours = repaint(model("qwen_image"), paint, picture, guidance=4.0, strength=0.5)
    assert (ours - classic(stock, picture.movedim(-1, 1), guidance=4.0, strength=0.5)).abs().max() > 0.1


@pytest.mark.parametrize("guidance", [1.0, 4.0])
@pytest.mark.parametrize(("strength", "steps"), [(None, STEPS), (0.5, 2), (1.0, STEPS)])
def test_each_step_asks_the_transformer_and_is_reported_once(
    guidance: float, strength: float | None, steps: int, model: Any, canvas: Any, paint: Any, picture: torch.Tensor
) -> None:
    progress, options = Told(), {"guidance": guidance, "steps": STEPS, "strength": strength or 1.0}
    start = encoded(model("qwen_image"), picture) if strength else canvas("qwen_image")
    with counted_calls(model("qwen_image")) as calls:
        paint(model("qwen_image"), start, progress=progress, **options)
    assert calls == {"transformer": steps * (2 if guidance > 1 else 1)}
    assert progress.steps == [(done, steps) for done in range(1, steps + 1)]
    assert [each.dtype for each in progress.previews] == [torch.uint8] * steps


@pytest.mark.parametrize(("scheduler", "turns", "guided"), [("euler", 4, 2), ("dpm++2m", 4, 2), ("heun", 7, 4)])
def test_guidance_stops_after_its_share_of_the_steps(
    scheduler: Any, turns: int, guided: int, model: Any, canvas: Any, paint: Any
) -> None:
    progress, sampling = Told(), to_plain(Sampling(scheduler=scheduler, guidance_stop=0.5))
    with counted_calls(model("qwen_image")) as calls:
        paint(
            model("qwen_image"),
            canvas("qwen_image"),
            guidance=4.0,
            steps=STEPS,
            sampling=sampling,
            progress=progress,
        )
    assert calls == {"transformer": turns + guided}
    assert progress.steps == [(done, STEPS) for done in range(1, STEPS + 1)]


@pytest.mark.parametrize("scheduler", ["euler", "unipc", "heun"])
def test_strength_is_its_share_of_the_steps_with_every_solver(
    scheduler: Any, model: Any, paint: Any, picture: torch.Tensor
) -> None:
    progress, sampling = Told(), to_plain(Sampling(scheduler=scheduler))
    start = encoded(model("qwen_image"), picture)
    paint(model("qwen_image"), start, strength=0.5, steps=STEPS, sampling=sampling, progress=progress)
    assert progress.steps == [(1, 2), (2, 2)]


def test_the_prompt_is_cut_and_never_padded(model: Any) -> None:
    conditioning = stages.encode_text({"model": model("qwen_image"), "prompt": "a red circle", "text_length": 8})
    assert conditioning.negative_prompt == " "
    assert conditioning.positive["prompt_embeds"].shape[1] == 8
    assert conditioning.negative["prompt_embeds"].shape[1] < 8


@pytest.mark.parametrize("prompt", ["", "{} \u201cquotes\u201d \n\t x", "word " * 400])
def test_any_prompt_is_read_as_the_stock_pipeline_reads_it(prompt: str, model: Any, stock: Any) -> None:
    request = {"model": model("qwen_image"), "prompt": prompt, "text_length": 64}
    with torch.no_grad():  # with gradients, attention takes another kernel
        theirs, _ = stock("qwen_image").encode_prompt(prompt, max_sequence_length=64)
    assert torch.equal(stages.encode_text(request).positive["prompt_embeds"], theirs)


def test_a_picture_of_a_batch_is_the_picture_its_seed_makes_alone(model: Any, canvas: Any, paint: Any) -> None:
    pair = paint(model("qwen_image"), canvas("qwen_image", batch=2)).tensor
    alone = paint(model("qwen_image"), canvas("qwen_image"), seed=6).tensor
    assert (pair[1:] - alone).abs().max() < 1e-4  # other sums in a batch


def test_the_card_and_the_size(model: Any) -> None:
    described = from_plain(Model, model("qwen_image"))
    card = card_of(described)
    assert (card.width, card.height, card.steps, card.guidance, card.text_length) == (1328, 1328, 50, 4.0, 1024)
    assert size_multiple(described) == 16


def test_text_longer_than_it_reads_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="from 1 to 1024 tokens"):
        stages.encode_text({"model": model("qwen_image"), "prompt": "a", "text_length": 1025})


def test_every_stage_runs_in_bf16(model: Any, paint: Any, picture: torch.Tensor) -> None:
    repainted = repaint(model("qwen_image", dtype="bf16"), paint, picture, guidance=4.0, strength=0.5)
    assert repainted.dtype == torch.float32 and 0.05 < repainted.std() < 0.5


def test_cancel_ends_the_denoise_after_the_step(model: Any, canvas: Any, paint: Any) -> None:
    with counted_calls(model("qwen_image")) as calls, pytest.raises(Cancelled):
        paint(model("qwen_image"), canvas("qwen_image"), progress=Told(cancel_after=2), steps=STEPS)
    assert calls == {"transformer": 2}


def repaint(model: Mapping[str, Any], paint: Any, picture: torch.Tensor, *, batch: int = 1, **request: Any) -> Any:
    return pixels(model, paint(model, replace(encoded(model, picture), batch=batch), steps=STEPS, **request))


def encoded(model: Mapping[str, Any], picture: torch.Tensor) -> Latents:
    return stages.encode_image(model=model, image=Image(pixels=picture), width=64, height=64)


def pixels(model: Mapping[str, Any], latents: Latents) -> torch.Tensor:
    return stages.decode({"model": model, "latents": latents}).pixels


def stock_options(batch: int) -> dict[str, Any]:
    return {
        "prompt": ["a red circle"] * batch,
        "negative_prompt": ["blue"] * batch,
        "max_sequence_length": 64,
        "num_inference_steps": STEPS,
        "generator": generators([5 + i for i in range(batch)]),
        "output_type": "pt",
    }


def classic(stock: Any, image: torch.Tensor, *, batch: int = 1, guidance: float, strength: float) -> torch.Tensor:
    return stock("qwen_image", "QwenImageImg2ImgPipeline")(
        **stock_options(batch), image=image, width=64, height=64, true_cfg_scale=guidance, strength=strength
    ).images.movedim(1, -1)


def modular(pipeline: Any, guidance: float, **options: Any) -> torch.Tensor:
    """The whole modular pipeline, B H W C."""
    from diffusers import ClassifierFreeGuidance
    from diffusers.modular_pipelines.qwenimage.modular_blocks_qwenimage import QwenImageAutoBlocks

    whole = QwenImageAutoBlocks().init_pipeline()
    whole.update_components(**pipeline.components, guider=ClassifierFreeGuidance(guidance_scale=guidance))
    whole.set_progress_bar_config(disable=True)
    return whole(**options, output="images").movedim(1, -1)
