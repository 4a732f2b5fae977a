"""Running diffusers' modular blocks by hand."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers.configuration_utils import FrozenDict
from diffusers.modular_pipelines.flux.denoise import FluxLoopDenoiser
from diffusers.modular_pipelines.flux.encoders import FluxTextEncoderStep
from diffusers.modular_pipelines.flux.modular_blocks_flux import FluxCoreDenoiseStep

from latentloom.pipelines.denoising.blocks import Assembly, assembled, replaced, run
from latentloom.pipelines.denoising.noise import generators

TEXT = {"prompt_embeds": torch.ones(1, 8, 32), "pooled_prompt_embeds": torch.ones(1, 32)}
INPUTS = {**TEXT, "height": 64, "width": 64, "num_inference_steps": 3}


@pytest.fixture
def parts(tiny: Any, stock: Any) -> dict[str, Any]:
    config = json.loads((Path(tiny("flux")) / "vae" / "config.json").read_text())
    components = stock("flux").components
    return {
        "transformer": components["transformer"],
        "scheduler": components["scheduler"],
        "shells": {"vae": vae_of(config)},
    }


def vae_of(config: dict[str, Any]) -> Any:
    """As much of a VAE as a denoise block asks for."""
    return SimpleNamespace(config=FrozenDict(config))


def denoise(parts: dict[str, Any], block: Any = None, **options: Any) -> torch.Tensor:
    inputs = {**INPUTS, "generator": generators([1])}
    return run(Assembly(block or FluxCoreDenoiseStep()), parts, inputs=inputs, outputs=("latents",), **options)[
        "latents"
    ]


def test_a_watched_run_gives_the_same_as_an_unwatched_one(parts: dict[str, Any]) -> None:
    steps: list[Any] = []
    watched = denoise(parts, on_step=lambda *step: steps.append(step))
    assert [step[:2] for step in steps] == [(1, 3), (2, 3), (3, 3)]
    assert torch.equal(watched, denoise(parts))
    assert len(steps) == 3, "the block that watches was left in diffusers' shared blocks"


def test_the_last_estimate_is_the_result(parts: dict[str, Any]) -> None:
    steps: list[Any] = []
    result = denoise(parts, on_step=lambda done, total, current: steps.append(current()), unpack=lambda packed: packed)
    assert steps[0].shape == (1, 16, 64)
    assert steps[-1].sum() == pytest.approx(result.sum().item(), abs=1e-3)


def test_nothing_is_printed(parts: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    denoise(parts)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_the_size_of_a_latent_comes_from_the_config_of_the_vae(parts: dict[str, Any], levels: int) -> None:
    shape = {**parts["shells"]["vae"].config, "block_out_channels": [8] * levels}
    side = 64 // 2 ** (levels - 1)
    assert denoise({**parts, "shells": {"vae": vae_of(shape)}}).shape == (1, 16, side, side)


def test_no_block_looks_for_offloading_at_every_module(parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    monkeypatch.setattr("diffusers.hooks.group_offloading._get_top_level_group_offload_hook", looked.append)
    denoise(parts)
    assert not looked
    for given in (parts, {"scheduler": parts["scheduler"]}):  # of what has no weights it is diffusers that knows
        assert Assembly(FluxCoreDenoiseStep()).pipeline(given).device == torch.device("cpu")


def test_errors_are_one_sentence_with_the_blocks_name(parts: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FluxLoopDenoiser):
        def __call__(self, *_: Any, **__: Any) -> Any:
            raise ValueError("no such\nthing")

    with pytest.raises(RuntimeError, match="diffusers' FluxCoreDenoiseStep failed: no such thing"):
        denoise(parts, replaced(FluxCoreDenoiseStep(), denoiser=Broken()))
    assert not caplog.records


def test_inputs_that_a_block_does_not_know_are_our_mistake(parts: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=r"FluxTextEncoderStep takes no \['promt'\]"):
        run(assembled(FluxTextEncoderStep), parts, inputs={"promt": "a"}, outputs=())


def test_replacing_a_leaf_leaves_the_block_alone_and_needs_its_name() -> None:
    block = FluxCoreDenoiseStep()
    changed = replaced(block, denoiser=FluxLoopDenoiser())
    inner = [b.sub_blocks["denoise"].sub_blocks["denoiser"] for b in (block, changed)]
    assert inner[0] is not inner[1]
    with pytest.raises(AssertionError, match="has a block called denoyser"):
        replaced(block, denoyser=FluxLoopDenoiser())
