"""Previews: small pictures of latents, in colours fitted to the model's VAE."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from diffusers.configuration_utils import FrozenDict

from latentloom.parallel.recent import Recent
from latentloom.pipelines import preview
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import Model, from_plain, to_plain
from support.told import Told


class LinearVae:
    """Latents are mixtures of the mean colours of 8 x 8 pixels: what a matrix can undo exactly."""

    device, dtype = torch.device("cpu"), torch.float32
    config = FrozenDict(block_out_channels=(1, 1, 1, 1), scaling_factor=0.5, shift_factor=0.25)
    mixing = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))

    def encode(self, pixels: torch.Tensor) -> Any:
        latents = torch.einsum("lc,bchw->blhw", self.mixing, F.avg_pool2d(pixels, 8)) + 0.1
        return SimpleNamespace(latent_dist=SimpleNamespace(mode=lambda: latents))


def test_the_fit_gives_back_the_colours_of_a_linear_vae() -> None:
    vae = LinearVae()
    chart = preview.colour_charts(64)[3]
    latents = (vae.encode(2 * chart[None] - 1).latent_dist.mode() - 0.25) * 0.5
    shown = preview.picture(latents, preview.fit(vae)).float() / 255
    wanted = F.avg_pool2d(chart, 8).movedim(0, -1)
    torch.testing.assert_close(shown, wanted, atol=0.004, rtol=0)


def test_bobbins_preview_is_near_its_picture(canvas: Any) -> None:
    from latentloom.pipelines import stages

    model = describe_model("builtin:bobbin", device="cpu")
    conditioning = stages.encode_text({"model": to_plain(model), "prompt": "a red sphere", "text_length": 0})
    latents = canvas("flux", width=128, height=128)
    request = {"model": to_plain(model), "conditioning": conditioning, "latents": latents, "seed": 3, "steps": 4}
    latents = stages.denoise(request)
    shown = preview.picture(latents.tensor, preview.matrix(model)).float() / 255
    pixels = stages.decode({"model": to_plain(model), "latents": latents}).pixels
    small = F.avg_pool2d(pixels.movedim(-1, 1), 128 // len(shown))[0].movedim(0, -1)
    assert (shown - small).abs().mean() < 0.06  # one matrix cannot undo this small VAE any better
    brightness = torch.stack([shown.mean(-1).flatten(), small.mean(-1).flatten()])
    assert torch.corrcoef(brightness)[0, 1] > 0.9


@pytest.mark.parametrize(
    "shape, expected",
    [
        ((1, 16, 8, 12), (8, 12, 3)),
        ((3, 16, 8, 8), (8, 24, 3)),
        ((9, 16, 8, 8), (8, 32, 3)),
        ((1, 16, 5, 8, 8), (8, 8, 3)),
    ],
)
@pytest.mark.parametrize("matrix", [None, torch.rand(17, 3)])
def test_pictures_are_small_bytes(shape: tuple[int, ...], expected: tuple[int, ...], matrix: Any) -> None:
    shown = preview.picture(torch.randn(shape), matrix)
    assert shown.dtype == torch.uint8 and shown.shape == expected


def test_broken_latents_still_give_a_picture() -> None:
    assert preview.picture(torch.full((1, 16, 4, 4), float("nan")), torch.rand(17, 3)).shape == (4, 4, 3)


@pytest.mark.parametrize("family", ["flux", "sd3", "qwen_image", "wan"])
def test_every_familys_vae_can_be_fitted_once_a_model(family: str, model: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(preview, "_MATRICES", Recent(preview.MAX_MATRICES))
    described = from_plain(Model, model(family))
    first = preview.matrix(described)
    assert first is not None and first.shape == (17, 3) and torch.isfinite(first).all()
    monkeypatch.setattr(preview, "fit", None)
    assert preview.matrix(described) is first


def test_a_preview_loads_the_vae_alone_and_drops_nothing_in_use(model: Any, monkeypatch: Any) -> None:
    kept = ComponentStore(budget_bytes=1)
    monkeypatch.setattr(preview, "_MATRICES", Recent(preview.MAX_MATRICES))
    monkeypatch.setattr("latentloom.pipelines.components.store.store", lambda: kept)
    described, progress = from_plain(Model, model("flux")), Told()
    assert preview.matrix(described) is not None
    vae = kept.num_bytes
    kept.load(described, ("transformer",))
    both = vae + kept.num_bytes
    monkeypatch.setattr(preview, "_MATRICES", Recent(preview.MAX_MATRICES))
    assert preview.matrix(described) is not None and kept.num_bytes == both
    kept.load(described, ("transformer",), progress)
    assert progress.phases == []


def test_a_vae_that_fails_costs_the_colours_not_the_run(
    model: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(vae: Any) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(preview, "_MATRICES", Recent(preview.MAX_MATRICES))
    monkeypatch.setattr(preview, "fit", broken)
    with caplog.at_level(logging.WARNING):
        found = [preview.matrix(from_plain(Model, model("flux"))) for _ in range(2)]
    assert found == [None, None] and len(caplog.records) == 1
