"""Masked denoising: as diffusers' inpaint pipelines, on any number of ranks; what lies outside the mask is kept. And a
mask of the text that hides nothing is left out."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from latentloom.pipelines import placement, stages
from latentloom.pipelines.denoising.guidance import unmasked
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.requests import Denoise
from latentloom.pipelines.values import Conditioning, Image, Latents, Mask, Place, to_plain

STOCK = {
    "flux": "FluxInpaintPipeline",
    "sd3": "StableDiffusion3InpaintPipeline",
    "qwen_image": "QwenImageInpaintPipeline",
}
FAMILY = pytest.mark.parametrize("family", STOCK)
NEAR = {"flux": 0.0, "sd3": 2e-5, "qwen_image": 0.0}  # with guidance; see route_differences.md


def box(batch: int = 1) -> Mask:
    """A box whose sides lie inside latents; that of a second picture is higher."""
    pixels = torch.zeros(batch, 64, 64)
    for index in range(batch):
        pixels[index, 12 - 8 * index : 45, 20:51] = 1
    return Mask(pixels=pixels)


def start(model: Any, picture: torch.Tensor, batch: int = 1) -> Latents:
    return replace(stages.encode_image(model=model, image=Image(pixels=picture), seed=1), batch=batch)


def inpainted_by_diffusers(stock: Any, family: str, latents: Latents, mask: torch.Tensor, **options: Any) -> Any:
    """Latents B C H W. Latents in the picture's place are taken as they are, so that both have the same noise."""
    pipeline, batch = stock(family, STOCK[family]), latents.batch
    found = pipeline(
        prompt="a red circle",
        negative_prompt="blue",
        max_sequence_length=64,
        num_images_per_prompt=batch,
        generator=generators([5 + i for i in range(batch)]),
        height=64,
        width=64,
        image=latents.tensor,
        masked_image_latents=latents.tensor,
        mask_image=mask[:, None],
        output_type="latent",
        **options,
    ).images
    if family != "sd3":
        found = pipeline._unpack_latents(found, 64, 64, pipeline.vae_scale_factor).reshape(batch, 16, 8, 8)
    return found


@FAMILY
@pytest.mark.parametrize(("guidance", "batch", "strength"), [(1.0, 1, 1.0), (3.0, 2, 0.5)])
def test_inpainting_equals_the_stock_pipeline_which_rounds_the_mask(
    family: str, guidance: float, batch: int, strength: float, model: Any, stock: Any, paint: Any, picture: torch.Tensor
) -> None:
    latents, mask = start(model(family), picture, batch), box(batch)
    distilled = 3.5 if family == "flux" else 0.0
    own = {"guidance": guidance, "distilled_guidance": distilled, "steps": 4}
    ours = paint(model(family), latents, mask=mask, strength=strength, **own).tensor
    scale = {"guidance_scale": guidance} if family == "sd3" else {"true_cfg_scale": guidance}
    options = {**scale, "strength": strength, "num_inference_steps": 4}
    if distilled:
        options["guidance_scale"] = distilled
    soft = 0.2 + 0.5 * mask.pixels
    theirs = inpainted_by_diffusers(stock, family, latents, soft, **options)
    assert (ours - theirs).abs().max() <= (NEAR[family] if guidance > 1 else 0.0)


@pytest.mark.parametrize("scheduler", ["euler", "heun", "unipc", "dpm++2m"])
def test_what_lies_outside_is_kept_by_every_solver(
    scheduler: str, model: Any, paint: Any, picture: torch.Tensor
) -> None:
    latents = start(model("flux"), picture)
    options = {"strength": 0.75, "steps": 4, "distilled_guidance": 3.5, "sampling": {"scheduler": scheduler}}
    painted = paint(model("flux"), latents, mask=box(), **options).tensor
    is_inside = box().pixels[0, ::8, ::8] == 1  # of a latent's pixels the first counts
    moved = (painted - latents.tensor).abs().amax((0, 1))  # H W
    assert is_inside.sum() == 16 and moved[is_inside].min() > 0.01 and moved[~is_inside].max() == 0


def test_a_mask_of_ones_changes_nothing_and_a_soft_one_mixes(model: Any, paint: Any, picture: torch.Tensor) -> None:
    latents, options = start(model("flux"), picture), {"distilled_guidance": 3.5, "steps": 1}
    whole = paint(model("flux"), latents, **options).tensor
    assert torch.equal(paint(model("flux"), latents, mask=Mask(pixels=torch.ones(1, 64, 64)), **options).tensor, whole)
    half = paint(model("flux"), latents, mask=Mask(pixels=torch.full((1, 64, 64), 0.5)), **options).tensor
    torch.testing.assert_close(half, 0.5 * whole + 0.5 * latents.tensor)


@pytest.mark.parametrize("family", ["flux", "qwen_image"])
def test_two_ranks_inpaint_as_one_process(family: str, pair: Any, model: Any) -> None:
    plans = ["ulysses=2", "ring=2", "cfg=2"]
    first, second = pair.run("bodies.masked:inpaint", model(family), plans)
    for plan, (difference, largest, bits), (_, _, others) in zip(plans, first, second, strict=True):
        assert difference <= 1e-5 * max(1.0, largest), plan
        assert bits == others, plan


REFUSED = {
    "an empty canvas": ("flux", {"tensor": None}, (1, 64, 64), "the canvas is empty; put a picture on it"),
    "another size": ("flux", {}, (1, 32, 64), "the mask is 1 x 32 x 64, but the pictures are 1 x 64 x 64; give it"),
    "another number": ("flux", {"batch": 3}, (2, 64, 64), "the mask is 2 x 64 x 64, but the pictures are 3 x 64 x 64"),
    "a model of videos": ("wan", {"frames": 5}, (1, 64, 64), "Wan cannot keep a part .* families: FLUX.1, Qwen-Image"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("where", ["here", "in ranks"])
def test_a_mask_that_cannot_be_is_refused_before_anything_is_loaded(
    case: str, where: str, tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, changes, shape, sentence = REFUSED[case]
    monkeypatch.setattr(stages, "_loaded", None)
    monkeypatch.setattr(placement, "POOLS", None)
    place = Place(devices=("cpu",) * 2) if where == "in ranks" else Place()
    given = {"family": family, "width": 64, "height": 64, "tensor": torch.zeros(1, 16, 8, 8)}
    request = Denoise(
        model=replace(describe_model(str(tiny(family)), device="cpu"), place=place),
        conditioning=Conditioning(family=family, prompt="", negative_prompt="", positive={}, negative={}),
        latents=Latents(**{**given, **changes}),
        mask=Mask(pixels=torch.zeros(shape)),
    )
    with pytest.raises(ValueError, match=sentence):
        placement.denoise(request)


def test_a_request_with_a_mask_is_plain_data_too() -> None:
    request = {"model": describe_model("builtin:bobbin", device="cpu"), "mask": box()}
    text = Conditioning(family="flux", prompt="", negative_prompt="", positive={})
    made = Denoise(**request, conditioning=text, latents=Latents(family="flux", width=64, height=64))
    assert torch.equal(stages.made(Denoise, to_plain(made), {}).mask.pixels, box().pixels)  # type: ignore[union-attr]


TOKENS, SOME = torch.arange(5.0), torch.tensor([[1, 0, 1, 0, 0]])


class Asked(nn.Module):
    """Tells whether it was given a mask."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> bool:
        return mask is not None


def test_a_mask_is_left_out_only_if_neither_text_hides_anything() -> None:
    asked, whole = Asked(), torch.ones(1, 5)
    texts = {"prompt_embeds_mask": whole, "negative_prompt_embeds_mask": whole}
    with unmasked(asked, "mask", texts):
        assert not asked(TOKENS, mask=whole)
    for argument, given in (("", texts), ("mask", {**texts, "negative_prompt_embeds_mask": SOME})):
        with unmasked(asked, argument, given):
            assert asked(TOKENS, mask=whole)
    assert asked(TOKENS, mask=whole)


def test_another_thread_that_shares_the_transformer_keeps_its_mask() -> None:
    asked = Asked()
    with unmasked(asked, "mask", {"prompt_embeds_mask": torch.ones(1, 5)}), ThreadPoolExecutor(1) as other:
        assert other.submit(asked, TOKENS, mask=SOME).result()
