"""FLUX's, Qwen-Image's and Stable Diffusion 3's stages give what diffusers' pipelines give, bit for bit in fp32.

StableDiffusion3Pipeline puts both branches of guidance into one call of the transformer, and its modular pipeline, as
we, asks twice: with guidance they differ by rounding. See route_differences.md.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import (
    ClassifierFreeGuidance,
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
    FluxImg2ImgPipeline,
    FluxPipeline,
    StableDiffusion3Pipeline,
)
from diffusers.modular_pipelines.flux.modular_blocks_flux import FluxAutoBlocks
from diffusers.modular_pipelines.modular_pipeline import LoopSequentialPipelineBlocks
from diffusers.modular_pipelines.qwenimage.modular_blocks_qwenimage import QwenImageAutoBlocks
from diffusers.modular_pipelines.stable_diffusion_3.modular_blocks_stable_diffusion_3 import StableDiffusion3AutoBlocks

from latentloom.pipelines import stages
from latentloom.pipelines.denoising.blocks import _nested
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.models.describe import card_of, describe_model
from latentloom.pipelines.shape import size_multiple
from latentloom.pipelines.values import Image, Latents, Model, Sampling, from_plain, to_plain
from support.by_hand import cells
from support.told import Told, counted_calls

NEAR = {"sd3": 2e-5}  # with guidance, from the classic pipeline, where it is not 0
# Those that ask the transformer as we do.
MODULAR: dict[str, Any] = {"qwen_image": QwenImageAutoBlocks, "sd3": StableDiffusion3AutoBlocks}
FROM_PICTURE = {
    "flux": "FluxImg2ImgPipeline",
    "qwen_image": "QwenImageImg2ImgPipeline",
    "sd3": "StableDiffusion3Img2ImgPipeline",
}
SIZE = {"width": 64, "height": 96}
STEPS = 4


def options_of(family: str, *, guidance: float = 1.0, batch: int = 1, steps: int = STEPS, **more: Any) -> Any:
    """What the classic pipeline's call is given."""
    scale = {"guidance_scale": guidance} if family == "sd3" else {"true_cfg_scale": guidance}
    return {
        **{"prompt": "a red circle", "negative_prompt": "blue", "max_sequence_length": 64, "output_type": "pt"},
        **{"num_images_per_prompt": batch, "num_inference_steps": steps},
        **scale,
        **({"guidance_scale": 3.5} if family.startswith("flux") else {}),
        "generator": generators([5 + i for i in range(batch)]),
        **{"width": 64, "height": 64},
        **more,
    }


def distilled(family: str) -> dict[str, float]:
    return {"distilled_guidance": 3.5} if family == "flux" else {}


def channels_last(found: torch.Tensor) -> torch.Tensor:
    return found.movedim(1, -1)


def modular(stock: Any, family: str, blocks: Any = None, **options: Any) -> torch.Tensor:
    """The whole modular pipeline, B H W C; guidance is its guider's."""
    whole = (blocks or MODULAR[family])().init_pipeline()
    whole.update_components(**{name: part for name, part in stock(family).components.items() if part is not None})
    if blocks is None:
        guidance = options.pop("guidance_scale" if family == "sd3" else "true_cfg_scale")
        whole.update_components(guider=ClassifierFreeGuidance(guidance_scale=guidance, enabled=guidance > 1))
    for block in _nested(whole._blocks):
        if isinstance(block, LoopSequentialPipelineBlocks):
            block.set_progress_bar_config(disable=True)
    return channels_last(whole(**options, output="images"))


def pixels(model: Mapping[str, Any], latents: Latents) -> torch.Tensor:
    return stages.decode({"model": model, "latents": latents}).pixels


def encoded(model: Mapping[str, Any], picture: torch.Tensor, seed: int = 1) -> Latents:
    return stages.encode_image(model=model, image=Image(pixels=picture), width=64, height=64, seed=seed)


@pytest.mark.parametrize("family", ["flux", "flux_schnell", "qwen_image", "sd3"])
@pytest.mark.parametrize(("guidance", "batch"), cells((1.0, 4.0), (1, 2), here=[(1.0, 1), (4.0, 2)]))
def test_text_to_image_equals_the_stock_pipelines(
    family: str, guidance: float, batch: int, model: Any, stock: Any, canvas: Any, paint: Any
) -> None:
    blank = canvas(model(family)["family"], **SIZE, batch=batch)
    ours = pixels(model(family), paint(model(family), blank, guidance=guidance, steps=STEPS, **distilled(family)))
    options = {"guidance": guidance, "batch": batch, **SIZE}
    assert ours.shape == (batch, 96, 64, 3)
    classic = channels_last(stock(family)(**options_of(family, **options)).images)
    assert (ours - classic).abs().max() <= (NEAR.get(family, 0.0) if guidance > 1 else 0.0)
    if family in MODULAR:
        assert (ours - modular(stock, family, **options_of(family, **options))).abs().max() == 0.0


@pytest.mark.parametrize("family", FROM_PICTURE)
@pytest.mark.parametrize(
    ("guidance", "batch", "strength"), cells((1.0, 4.0), (1, 2), (0.5, 1.0), here=[(1.0, 1, 1.0), (4.0, 2, 0.5)])
)
def test_image_to_image_equals_the_stock_pipelines(
    family: str, guidance: float, batch: int, strength: float, model: Any, stock: Any, paint: Any, picture: torch.Tensor
) -> None:
    start = encoded(model(family), picture)
    request = {"guidance": guidance, "strength": strength, "steps": STEPS, **distilled(family)}
    ours = pixels(model(family), paint(model(family), replace(start, batch=batch), **request))
    options = {"guidance": guidance, "batch": batch, "strength": strength}
    # Latents in the picture's place are taken as they are, so that both have the same noise.
    classic = stock(family, FROM_PICTURE[family])(**options_of(family, **options, image=start.tensor)).images
    assert (ours - channels_last(classic)).abs().max() <= (NEAR.get(family, 0.0) if guidance > 1 else 0.0)
    if family == "sd3":
        theirs = modular(stock, family, **options_of(family, **options, image_latents=start.tensor))
        assert (ours - theirs).abs().max() == 0.0
    if family == "qwen_image":  # whose start depends on no seed: its encoder may be given the picture
        shown = {"image": torch.cat([picture] * batch).movedim(-1, 1), "num_images_per_prompt": 1}
        given = options_of(family, **options, **shown)
        given |= {"prompt": ["a red circle"] * batch, "negative_prompt": ["blue"] * batch}
        if batch == 1:  # with a list of generators it wants as many pictures
            given["generator"] = given["generator"][0]
        assert (ours - modular(stock, family, **given)).abs().max() == 0.0
        # The classic one draws the start with the generator that makes the noise next; so both differ.
        drawn = stock(family, FROM_PICTURE[family])(**options_of(family, **options, image=picture.movedim(-1, 1)))
        assert (ours - channels_last(drawn.images)).abs().max() > 0.1


@pytest.mark.parametrize("seed", [0, 7])
def test_the_picture_is_encoded_as_the_stock_pipeline_does(
    seed: int, model: Any, stock: Any, picture: torch.Tensor
) -> None:
    pictures = torch.cat([picture, picture.flip(2)])
    theirs = stock("flux", "FluxImg2ImgPipeline")._encode_vae_image(
        2.0 * pictures.movedim(-1, 1) - 1.0, generators([seed, seed + 1])
    )
    assert torch.equal(encoded(model("flux"), pictures, seed=seed).tensor, theirs)


def test_given_sigmas_are_those_of_the_stock_pipeline(model: Any, stock: Any, canvas: Any, paint: Any) -> None:
    # flux_schnell's scheduler shifts nothing, so the stock pipeline leaves the sigmas as they are too.
    latents = paint(model("flux_schnell"), canvas("flux"), sampling={"sigmas": (1.0, 0.6, 0.3)})
    theirs = stock("flux_schnell")(**options_of("flux_schnell", steps=3, sigmas=[1.0, 0.6, 0.3])).images
    assert torch.equal(pixels(model("flux_schnell"), latents), channels_last(theirs))


@pytest.mark.parametrize("family", ["flux", "qwen_image", "sd3"])
def test_sigmas_that_are_shifted_are_those_of_a_stock_pipeline_that_shifts(
    family: str, model: Any, stock: Any, canvas: Any, paint: Any
) -> None:
    how = {"sigmas": (1.0, 0.6, 0.3), "shift_sigmas": True}
    theirs = stock(family)(**options_of(family, steps=3, sigmas=[1.0, 0.6, 0.3])).images
    assert torch.equal(pixels(model(family), paint(model(family), canvas(family), sampling=how)), channels_last(theirs))


@pytest.mark.parametrize(
    ("family", "kind", "scheduler", "sampling", "batch"),
    [
        ("flux", FluxPipeline, FlowMatchEulerDiscreteScheduler(shift=2.0), Sampling(shift=2.0), 1),
        ("sd3", StableDiffusion3Pipeline, FlowMatchHeunDiscreteScheduler(shift=3.0), Sampling(scheduler="heun"), 1),
        ("sd3", StableDiffusion3Pipeline, FlowMatchHeunDiscreteScheduler(shift=3.0), Sampling(scheduler="heun"), 2),
    ],
)
def test_sampler_options_are_those_of_the_stock_pipeline_with_such_a_scheduler(
    family: str,
    kind: Any,
    scheduler: Any,
    sampling: Sampling,
    batch: int,
    model: Any,
    stock: Any,
    canvas: Any,
    paint: Any,
) -> None:
    latents = paint(model(family), canvas(family, batch=batch), sampling=to_plain(sampling), **distilled(family))
    pipeline = kind(**{**stock(family).components, "scheduler": scheduler})
    pipeline.set_progress_bar_config(disable=True)
    theirs = pipeline(**options_of(family, batch=batch, steps=3)).images
    assert torch.equal(pixels(model(family), latents), channels_last(theirs))


def test_in_bf16_too_every_bit_is_the_stock_pipelines_by_its_noise(
    model: Any, tiny: Any, canvas: Any, paint: Any, picture: torch.Tensor
) -> None:
    half = FluxPipeline.from_pretrained(tiny("flux"), dtype=torch.bfloat16)
    half.set_progress_bar_config(disable=True)
    described = model("flux", dtype="bf16")
    latents = paint(described, canvas("flux"), guidance=3.0, noise="diffusers", **distilled("flux"))
    ours, theirs = pixels(described, latents), half(**options_of("flux", guidance=3.0, steps=3)).images
    assert latents.tensor.dtype == torch.bfloat16 and ours.dtype == torch.float32
    assert (ours - channels_last(theirs)).abs().max() == 0.0
    start = stages.encode_image(model=described, image=Image(pixels=picture), seed=7, noise="diffusers").tensor
    shown = (2.0 * picture.movedim(-1, 1) - 1.0).bfloat16()
    assert torch.equal(start, FluxImg2ImgPipeline(**half.components)._encode_vae_image(shown, generators([7])))


def test_modular_flux_differs_a_little_in_a_batch(model: Any, stock: Any, canvas: Any, paint: Any) -> None:
    # It hands the transformer one timestep for both pictures; FluxPipeline, and we, one each. See route_differences.md.
    options = options_of("flux", batch=2, steps=3)
    for name in ("negative_prompt", "true_cfg_scale"):
        del options[name]
    theirs = modular(stock, "flux", FluxAutoBlocks, **options)
    ours = pixels(model("flux"), paint(model("flux"), canvas("flux", batch=2), **distilled("flux")))
    assert 0.0 <= (ours - theirs).abs().max() < 1e-5


def test_distilled_guidance_changes_the_picture_of_dev_and_is_refused_by_schnell(
    model: Any, canvas: Any, paint: Any
) -> None:
    first = paint(model("flux"), canvas("flux"), distilled_guidance=1.0).tensor
    assert not torch.equal(first, paint(model("flux"), canvas("flux"), distilled_guidance=9.0).tensor)
    with pytest.raises(ValueError, match=r"distilled_guidance is 3\.5, but .* takes none; set distilled_guidance to 0"):
        paint(model("flux_schnell"), canvas("flux"), distilled_guidance=3.5)


def test_text_of_another_flux_is_refused(model: Any, canvas: Any) -> None:
    bobbin = to_plain(describe_model("builtin:bobbin", device="cpu"))
    conditioning = stages.encode_text({"model": bobbin, "prompt": "a red sphere", "text_length": 0})
    with pytest.raises(ValueError, match="encode the text with the model that denoises"):
        stages.denoise({"model": model("flux"), "conditioning": conditioning, "latents": canvas("flux")})


@pytest.mark.parametrize(("family", "most"), [("flux", 512), ("qwen_image", 1024), ("sd3", 512), ("wan", 512)])
def test_text_longer_than_it_reads_is_refused(family: str, most: int, model: Any) -> None:
    with pytest.raises(ValueError, match=f"from 1 to {most} tokens"):
        stages.encode_text({"model": model(family), "prompt": "a", "text_length": most + 1})


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


# ---- Qwen-Image, whose texts are never padded


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


def test_the_card_and_the_size(model: Any) -> None:
    described = from_plain(Model, model("qwen_image"))
    card = card_of(described)
    assert (card.width, card.height, card.steps, card.guidance, card.text_length) == (1328, 1328, 50, 4.0, 1024)
    assert size_multiple(described) == 16


def test_every_stage_runs_in_bf16(model: Any, paint: Any, picture: torch.Tensor) -> None:
    half = model("qwen_image", dtype="bf16")
    repainted = pixels(half, paint(half, encoded(half, picture), guidance=4.0, strength=0.5, steps=STEPS))
    assert repainted.dtype == torch.float32 and 0.05 < repainted.std() < 0.5
