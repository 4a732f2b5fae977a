"""FLUX's stages give what diffusers' FLUX pipelines give, bit for bit in fp32."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, FluxImg2ImgPipeline, FluxPipeline

from latentloom.pipelines import stages
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.values import Image, Latents, to_plain
from support.by_hand import cells

PAIRS = pytest.mark.parametrize(("guidance", "batch"), cells((1.0, 3.0), (1, 2), here=[(1.0, 1), (3.0, 2)]))
FAMILY = pytest.mark.parametrize("family", ["flux", "flux_schnell"])


def stock_options(batch: int, guidance: float) -> dict[str, Any]:
    return {
        "prompt": "a red circle",
        "negative_prompt": "blue",
        "max_sequence_length": 64,
        "true_cfg_scale": guidance,
        "guidance_scale": 3.5,
        "num_images_per_prompt": batch,
        "generator": generators([5 + i for i in range(batch)]),
        "output_type": "np",
    }


@FAMILY
@PAIRS
def test_text_to_image_equals_the_stock_pipeline(
    family: str, guidance: float, batch: int, model: Any, stock: Any, canvas: Any, paint: Any
) -> None:
    size = {"width": 64, "height": 96}
    distilled = 3.5 if family == "flux" else 0.0
    latents = paint(model(family), canvas("flux", batch=batch, **size), guidance=guidance, distilled_guidance=distilled)
    ours = stages.decode({"model": model(family), "latents": latents}).pixels
    theirs = stock(family)(**stock_options(batch, guidance), **size, num_inference_steps=3).images
    assert ours.shape == (batch, 96, 64, 3)
    assert (ours - torch.from_numpy(theirs)).abs().max() == 0.0


@pytest.mark.parametrize(
    ("guidance", "batch", "strength"),
    cells((1.0, 3.0), (1, 2), (0.5, 1.0), here=[(1.0, 1, 1.0), (3.0, 2, 0.5)]),
)
def test_image_to_image_equals_the_stock_pipeline(
    guidance: float, batch: int, strength: float, model: Any, stock: Any, paint: Any, picture: torch.Tensor
) -> None:
    start = encoded(model("flux"), picture)
    options = {"guidance": guidance, "strength": strength, "steps": 4, "distilled_guidance": 3.5}
    latents = paint(model("flux"), replace(start, batch=batch), **options)
    ours = stages.decode({"model": model("flux"), "latents": latents}).pixels
    # Latents in the picture's place are taken as they are, so that both have the same noise.
    pipeline, same = stock("flux", "FluxImg2ImgPipeline"), {"image": start.tensor, "height": 64, "width": 64}
    theirs = pipeline(**stock_options(batch, guidance), **same, strength=strength, num_inference_steps=4).images
    assert (ours - torch.from_numpy(theirs)).abs().max() == 0.0


@pytest.mark.parametrize("seed", [0, 7])
def test_the_picture_is_encoded_as_the_stock_pipeline_does(
    seed: int, model: Any, stock: Any, picture: torch.Tensor
) -> None:
    pictures = torch.cat([picture, picture.flip(2)])
    ours = encoded(model("flux"), pictures, seed=seed).tensor
    theirs = stock("flux", "FluxImg2ImgPipeline")._encode_vae_image(
        2.0 * pictures.movedim(-1, 1) - 1.0, generators([seed, seed + 1])
    )
    assert (ours - theirs).abs().max() == 0.0


def test_given_sigmas_are_those_of_the_stock_pipeline(model: Any, stock: Any, canvas: Any, paint: Any) -> None:
    # flux_schnell's scheduler shifts nothing, so the stock pipeline leaves the sigmas as they are too.
    latents = paint(model("flux_schnell"), canvas("flux"), sampling={"sigmas": (1.0, 0.6, 0.3)})
    ours = stages.decode({"model": model("flux_schnell"), "latents": latents}).pixels
    theirs = stock("flux_schnell")(**stock_options(1, 1.0), width=64, height=64, sigmas=[1.0, 0.6, 0.3]).images
    assert (ours - torch.from_numpy(theirs)).abs().max() == 0.0


def test_a_given_shift_is_that_of_the_stock_pipeline(model: Any, stock: Any, canvas: Any, paint: Any) -> None:
    latents = paint(model("flux"), canvas("flux"), distilled_guidance=3.5, sampling={"shift": 2.0})
    ours = stages.decode({"model": model("flux"), "latents": latents}).pixels
    shifted = FluxPipeline(**{**stock("flux").components, "scheduler": FlowMatchEulerDiscreteScheduler(shift=2.0)})
    shifted.set_progress_bar_config(disable=True)
    theirs = shifted(**stock_options(1, 1.0), width=64, height=64, num_inference_steps=3).images
    assert (ours - torch.from_numpy(theirs)).abs().max() == 0.0


def test_in_bf16_too_every_bit_is_the_stock_pipelines_by_its_noise(
    model: Any, tiny: Any, canvas: Any, paint: Any, picture: torch.Tensor
) -> None:
    half = FluxPipeline.from_pretrained(tiny("flux"), dtype=torch.bfloat16)
    half.set_progress_bar_config(disable=True)
    described = model("flux", dtype="bf16")
    latents = paint(described, canvas("flux"), guidance=3.0, distilled_guidance=3.5, noise="diffusers")
    ours = stages.decode({"model": described, "latents": latents}).pixels
    theirs = half(**stock_options(1, 3.0), width=64, height=64, num_inference_steps=3).images
    assert latents.tensor.dtype == torch.bfloat16 and ours.dtype == torch.float32
    assert (ours - torch.from_numpy(theirs)).abs().max() == 0.0
    start = stages.encode_image(model=described, image=Image(pixels=picture), seed=7, noise="diffusers").tensor
    pixels = (2.0 * picture.movedim(-1, 1) - 1.0).bfloat16()
    assert torch.equal(start, FluxImg2ImgPipeline(**half.components)._encode_vae_image(pixels, generators([7])))


def test_modular_flux_differs_a_little_in_a_batch(model: Any, stock: Any, canvas: Any, paint: Any) -> None:
    # It hands the transformer one timestep for both pictures; FluxPipeline, and we, one each. See route_differences.md.
    from diffusers.modular_pipelines.flux.modular_blocks_flux import FluxAutoBlocks

    modular = FluxAutoBlocks().init_pipeline()
    modular.update_components(**{k: v for k, v in stock("flux").components.items() if v is not None})
    modular.blocks.sub_blocks["denoise"].sub_blocks["denoise"].set_progress_bar_config(disable=True)
    options = stock_options(2, 1.0)
    for name in ("negative_prompt", "true_cfg_scale"):
        del options[name]
    theirs = modular(**options, width=64, height=64, num_inference_steps=3, output="images")
    latents = paint(model("flux"), canvas("flux", batch=2), distilled_guidance=3.5)
    ours = stages.decode({"model": model("flux"), "latents": latents}).pixels
    assert 0.0 <= (ours - torch.from_numpy(theirs)).abs().max() < 1e-5


def test_schnell_takes_no_distilled_guidance(model: Any, canvas: Any, paint: Any) -> None:
    with pytest.raises(ValueError, match=r"distilled_guidance is 3\.5, but .* takes none; set distilled_guidance to 0"):
        paint(model("flux_schnell"), canvas("flux"), distilled_guidance=3.5)


def test_distilled_guidance_changes_the_picture_of_dev(model: Any, canvas: Any, paint: Any) -> None:
    first = paint(model("flux"), canvas("flux"), distilled_guidance=1.0).tensor
    assert not torch.equal(first, paint(model("flux"), canvas("flux"), distilled_guidance=9.0).tensor)


def test_text_of_another_flux_is_refused(model: Any, canvas: Any) -> None:
    conditioning = stages.encode_text({"model": bobbin(), "prompt": "a red sphere", "text_length": 0})
    with pytest.raises(ValueError, match="encode the text with the model that denoises"):
        stages.denoise({"model": model("flux"), "conditioning": conditioning, "latents": canvas("flux")})


def test_text_longer_than_t5_reads_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="from 1 to 512 tokens"):
        stages.encode_text({"model": model("flux"), "prompt": "a", "text_length": 513})


def bobbin() -> dict[str, Any]:
    from latentloom.pipelines.models.describe import describe_model

    return to_plain(describe_model("builtin:bobbin", device="cpu"))


def encoded(model: dict[str, Any], pixels: torch.Tensor, seed: int = 1) -> Latents:
    return stages.encode_image(model=model, image=Image(pixels=pixels), width=64, height=64, seed=seed)
