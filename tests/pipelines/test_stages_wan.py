"""Wan's stages give what diffusers' Wan pipelines give, bit for bit in fp32; see route_differences.md."""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from PIL import Image as PilImage
from torch.utils._python_dispatch import TorchDispatchMode

from latentloom.pipelines import stages
from latentloom.pipelines.components.store import store
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.families.wan_blocks import ExpertDenoiser
from latentloom.pipelines.models.describe import card_of, describe_model
from latentloom.pipelines.shape import size_multiple
from latentloom.pipelines.values import Conditioning, Image, Latents, Model, Sampling, from_plain, to_plain
from support.told import Told, counted_calls

KIND = pytest.mark.parametrize("kind", ["wan", "wan_i2v", "wan22", "wan22_i2v"])
OTHERS = [pytest.param("wan_i2v", marks=pytest.mark.by_hand), pytest.param("wan22", marks=pytest.mark.by_hand)]
# Of what `test_a_video_equals_the_classic_pipeline` asks of all: the least that a model has, and the most.
ENDS = pytest.mark.parametrize("kind", ["wan", *OTHERS, "wan22_i2v"])
GUIDED = pytest.mark.parametrize("guidance", [1.0, 4.0])
SIZE = {"width": 64, "height": 32}
FRAMES = 9
EMPTY = Latents(family="wan", **SIZE, frames=FRAMES)
STEPS = 4
PIXELS, LAST = torch.randint(0, 256, (2, 32, 64, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


@KIND
@pytest.mark.parametrize(
    ("guidance", "batch"),
    [(1.0, 1), (4.0, 2), *(pytest.param(*cell, marks=pytest.mark.by_hand) for cell in ((1.0, 2), (4.0, 1)))],
)
def test_a_video_equals_the_classic_pipeline(kind: str, guidance: float, batch: int, film: Any, stock: Any) -> None:
    second = 1.0 if guidance == 1 else 2.5
    ours = film(kind, guidance=guidance, guidance_2=second if "22" in kind else 0.0, batch=batch)
    theirs = stock(kind)(
        **stock_options(kind, batch), guidance_scale=guidance, **({"guidance_scale_2": second} if "22" in kind else {})
    ).frames
    assert ours.shape == (batch, FRAMES, 32, 64, 3)
    assert (ours - theirs.movedim(2, -1)).abs().max() == 0.0


@pytest.mark.parametrize(("kind", "guidance", "batch"), [("wan_flf2v", 4.0, 2), ("wan22_i2v", 4.0, 1)])
def test_a_video_from_a_first_to_a_last_frame_equals_the_classic_pipeline(
    kind: str, guidance: float, batch: int, film: Any, stock: Any
) -> None:
    second = {"guidance_scale_2": 2.5} if "22" in kind else {}
    ours = film(kind, guidance=guidance, guidance_2=second.get("guidance_scale_2", 0.0), batch=batch, has_last=True)
    options = {**stock_options("wan_i2v", batch), "last_image": PilImage.fromarray(LAST.numpy())}
    theirs = stock(kind)(**options, guidance_scale=guidance, **second).frames
    assert (ours - theirs.movedim(2, -1)).abs().max() == 0.0
    if "22" in kind:
        assert (ours - film(kind, guidance=guidance, guidance_2=2.5, batch=batch)).abs().max() > 1e-3


def test_each_of_two_videos_has_its_own_first_and_last_frame(model: Any, film: Any) -> None:
    both = torch.stack([PIXELS, LAST])
    pair = film("wan_flf2v", batch=2, latents=first_frame(model("wan_flf2v"), pixels=both, last=both.flip(0)))
    alone = first_frame(model("wan_flf2v"), pixels=LAST[None], last=PIXELS[None])
    assert (pair[1:] - film("wan_flf2v", latents=alone, seed=6)).abs().max() <= 1e-5


@ENDS
def test_a_video_equals_the_modular_pipeline(kind: str, film: Any, stock: Any) -> None:
    ours = film(kind, guidance=4.0, guidance_2=2.5 if "22" in kind else 0.0)
    assert (ours - modular(kind, stock(kind), guidance=4.0, guidance_2=2.5)).abs().max() == 0.0


def test_the_modular_pipeline_still_fails_without_guidance(stock: Any) -> None:
    with pytest.raises(UnboundLocalError):  # the day it does not, the text stage can use its block
        modular("wan", stock("wan"), guidance=1.0, guidance_2=1.0)


def test_in_bf16_a_step_is_nearer_to_fp32_than_the_modular_pipeline(model: Any) -> None:
    """Its block rounds the timestep to bf16; without that a step is at least 5 times nearer."""
    text = torch.randn(2, 1, 16, 32, generator=torch.Generator().manual_seed(0)).bfloat16()  # both prompts, B S C
    exact, rough = model("wan"), model("wan", dtype="bf16")
    ours, theirs = (step(rough, text) - one_step(exact, text) for step in (one_step, modular_step))
    assert 5 * ours.norm() < theirs.norm()


@ENDS
@GUIDED
def test_each_step_asks_the_right_expert_and_is_reported_once(
    kind: str, guidance: float, model: Any, film: Any
) -> None:
    progress = Told()
    with counted_calls(model(kind)) as calls:
        film(kind, guidance=guidance, guidance_2=guidance if "22" in kind else 0.0, progress=progress)
    asked = 2 if guidance > 1 else 1
    both = {"transformer": 2 * asked, "transformer_2": 2 * asked}  # of the 4 steps, 2 are above the boundary
    assert calls == (both if "22" in kind else {"transformer": STEPS * asked})
    assert progress.steps == [(done, STEPS) for done in range(1, STEPS + 1)]
    assert [each.dtype for each in progress.previews] == [torch.uint8] * STEPS


class NoLook(TorchDispatchMode):
    """Refuses what would wait for a device: a look at a tensor's value."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_a_later_step_looks_at_no_timestep_to_find_its_expert() -> None:
    guider = MagicMock(side_effect=lambda branches: SimpleNamespace(pred=branches[0].noise_pred))
    guider.prepare_inputs.side_effect = lambda inputs: [SimpleNamespace(text=None)]
    parts = SimpleNamespace(transformer=lambda **_: ("high",), transformer_2=lambda **_: ("low",))
    parts.guider = parts.guider_2 = guider
    state = MagicMock(timesteps=torch.tensor([900.0, 500.0, 499.0]), latents=torch.zeros(2), boundary=500.0)
    denoiser, found = ExpertDenoiser(), []
    for step, timestep in enumerate(state.timesteps):
        with NoLook() if step else nullcontext():
            found.append(denoiser(parts, state, step, timestep)[1].noise_pred)
    assert found == ["high", "high", "low"]


def test_each_expert_has_its_own_guidance(model: Any, film: Any) -> None:
    with counted_calls(model("wan22")) as calls:
        film("wan22", guidance=4.0, guidance_2=1.0)
    assert calls == {"transformer": 4, "transformer_2": 2}


def test_without_a_second_guidance_the_published_share_is_taken(film: Any) -> None:
    assert torch.equal(film("wan22", guidance=4.0), film("wan22", guidance=4.0, guidance_2=3.0))


def test_given_noise_levels_replace_the_number_of_steps(model: Any, film: Any) -> None:
    progress, sampling = Told(), to_plain(Sampling(sigmas=(1.0, 0.6, 0.3), guidance_stop=0.4))
    with counted_calls(model("wan22")) as calls:
        film("wan22", guidance=4.0, sampling=sampling, progress=progress)
    assert progress.steps == [(1, 3), (2, 3), (3, 3)]
    assert calls == {"transformer": 2, "transformer_2": 2}


def test_the_card_tells_the_models_apart(model: Any) -> None:
    models = [from_plain(Model, model(kind)) for kind in ("wan", "wan_i2v", "wan22", "wan22_i2v")]
    cards = [card_of(each) for each in models]
    assert [(card.name, card.steps, card.guidance) for card in cards] == [
        ("Wan 2.1 text to video", 50, 5.0),
        ("Wan 2.1 image to video", 50, 5.0),
        ("Wan 2.2 text to video", 40, 4.0),
        ("Wan 2.2 image to video", 40, 3.5),
    ]
    sizes = {(card.width, card.height, card.frames, card.fps, card.text_length) for card in cards}
    assert sizes == {(832, 480, 81, 16.0, 512)}
    assert {size_multiple(each) for each in models} == {16}


def test_a_picture_for_a_text_model_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match=r"makes videos from text only, .* choose an image-to-video"):
        first_frame(model("wan"))


@pytest.mark.parametrize(
    ("kind", "given", "change", "words"),
    [
        ("wan_i2v", "wan", {}, "continues a picture, but got none"),
        ("wan_i2v", "wan22_i2v", {}, r"continues a picture, but got none \(image_embeds\)"),
        ("wan", "wan_i2v", {}, "from text only, but got a first frame"),
        ("wan_i2v", "wan_i2v", {"frames": 5}, "needs 20 x 2 x 4 x 8"),
        ("wan", "wan", {"tensor": torch.zeros(1, 16, 3, 4, 8)}, "starts from noise"),
    ],
)
def test_latents_that_do_not_fit_are_refused(
    kind: str, given: str, change: Any, words: str, model: Any, paint: Any
) -> None:
    latents = first_frame(model(given)) if "i2v" in given else EMPTY
    with pytest.raises(ValueError, match=words):
        paint(model(kind), replace(latents, **change))


def test_what_clip_saw_is_ignored_by_a_model_without_clip(model: Any, film: Any, paint: Any) -> None:
    latents = paint(model("wan22_i2v"), first_frame(model("wan_i2v")), steps=STEPS)
    assert torch.isfinite(latents.tensor).all()


@pytest.mark.parametrize(
    ("kind", "has_last", "words"),
    [
        ("wan_i2v", True, "ends its videos with no picture that it is given; take last_image away"),
        ("wan_flf2v", False, "makes videos from a first to a last picture; give Encode Image a last_image"),
        ("minimax_h3", True, "take last_image away"),
    ],
)
def test_a_last_frame_too_many_or_too_few_is_refused(kind: str, has_last: bool, words: str, model: Any) -> None:
    with pytest.raises(ValueError, match=words):
        first_frame(model(kind), last=LAST[None] if has_last else None)


def test_a_last_frame_of_another_size_and_frames_of_another_model_are_refused(model: Any, paint: Any) -> None:
    with pytest.raises(ValueError, match="the last picture is 1 x 16 x 64 x 3, and the first 1 x 32 x 64 x 3"):
        first_frame(model("wan22_i2v"), last=LAST[None, :16])
    with pytest.raises(ValueError, match="but got one picture; encode both with it"):
        paint(model("wan_flf2v"), first_frame(model("wan_i2v")))


def test_a_length_between_latent_frames_is_refused(model: Any, canvas: Any, paint: Any) -> None:
    with pytest.raises(ValueError, match="such as 5 or 9"):
        paint(model("wan"), canvas("wan", **SIZE, frames=8))


def test_the_5b_model_is_refused_by_name(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("wan"), tmp_path / "wan"))
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"expand_timesteps": True}))
    with pytest.raises(ValueError, match=r"Wan 2\.2 TI2V 5B .* use a Wan 2\.1 model"):
        describe_model(str(folder))


@pytest.mark.parametrize("entry", [[None, None], None])
def test_a_boundary_without_a_second_expert_is_refused(tiny: Callable[[str], Path], tmp_path: Path, entry: Any) -> None:
    folder = Path(shutil.copytree(tiny("wan"), tmp_path / "wan"))
    index = json.loads((folder / "model_index.json").read_text())
    changed = index | {"boundary_ratio": 0.875, "transformer_2": entry}
    (folder / "model_index.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=r"boundary_ratio 0\.875 but no transformer_2"):
        describe_model(str(folder))


@pytest.mark.parametrize("kind", ["wan", "wan_i2v"])
def test_a_video_takes_a_strength_of_one_only(kind: str, film: Any) -> None:
    with pytest.raises(ValueError, match=r"strength is 0\.5, but Wan makes every video from noise.*set strength to 1"):
        film(kind, strength=0.5)


@pytest.mark.parametrize("prompt", ["", "&lt;b&gt; \u201cquotes\u201d \n\t x", "word " * 400])
def test_any_prompt_is_read_as_the_stock_pipeline_reads_it(prompt: str, model: Any, stock: Any) -> None:
    request = {"model": model("wan"), "prompt": prompt, "text_length": 16}
    with torch.no_grad():  # with gradients, attention takes another kernel
        theirs, _ = stock("wan").encode_prompt(prompt, do_classifier_free_guidance=False, max_sequence_length=16)
    assert torch.equal(stages.encode_text(request).positive["prompt_embeds"], theirs)


@ENDS
def test_every_stage_runs_in_bf16(kind: str, film: Any) -> None:
    video = film(kind, guidance=4.0, dtype="bf16")
    assert video.dtype == torch.float32 and 0.05 < video.std() < 0.5


@pytest.fixture
def film(model: Any, paint: Any) -> Callable[..., torch.Tensor]:
    """`film(kind, batch=2, **request)` is a video through our four stages, B F H W C."""

    def run(
        kind: str,
        *,
        batch: int = 1,
        dtype: str = "fp32",
        has_last: bool = False,
        latents: Latents | None = None,
        **request: Any,
    ) -> torch.Tensor:
        wan = model(kind, dtype=dtype)
        if latents is None:
            latents = first_frame(wan, last=LAST[None] if has_last else None) if "i2v" in kind or has_last else EMPTY
        made = paint(wan, replace(latents, batch=batch), steps=STEPS, **request)
        return stages.decode({"model": wan, "latents": made}).pixels

    return run


def first_frame(
    model: Mapping[str, Any], *, pixels: torch.Tensor = PIXELS[None], last: torch.Tensor | None = None
) -> Latents:
    first, end = (None if each is None else Image(pixels=each.float() / 255) for each in (pixels, last))
    return stages.encode_image(model=model, image=first, last_image=end, **SIZE, frames=FRAMES)


def stock_options(kind: str, batch: int) -> dict[str, Any]:
    return {
        "prompt": ["a red circle"] * batch,
        "negative_prompt": ["blue"] * batch,
        "max_sequence_length": 64,
        "num_inference_steps": STEPS,
        "num_frames": FRAMES,
        "generator": generators([5 + i for i in range(batch)]),
        "output_type": "pt",
        **({"image": PilImage.fromarray(PIXELS.numpy())} if "i2v" in kind else {}),
        **SIZE,
    }


def modular(kind: str, pipeline: Any, *, guidance: float, guidance_2: float) -> torch.Tensor:
    """The whole modular pipeline, B F H W C."""
    from diffusers import ClassifierFreeGuidance
    from diffusers.modular_pipelines.wan import (
        modular_blocks_wan,
        modular_blocks_wan22,
        modular_blocks_wan22_i2v,
        modular_blocks_wan_i2v,
    )

    blocks = {
        "wan": modular_blocks_wan.WanBlocks,
        "wan_i2v": modular_blocks_wan_i2v.WanImage2VideoAutoBlocks,
        "wan22": modular_blocks_wan22.Wan22Blocks,
        "wan22_i2v": modular_blocks_wan22_i2v.Wan22Image2VideoBlocks,
    }
    whole = blocks[kind]().init_pipeline()
    whole.update_components(**{name: part for name, part in pipeline.components.items() if part is not None})
    whole.update_components(guider=ClassifierFreeGuidance(guidance_scale=guidance))
    if "22" in kind:
        whole.update_components(guider_2=ClassifierFreeGuidance(guidance_scale=guidance_2))
        whole.update_components(boundary_ratio=pipeline.config.boundary_ratio)
    whole.set_progress_bar_config(disable=True)
    one = {"prompt": "a red circle", "negative_prompt": "blue", "generator": generators([5])[0]}
    return whole(**stock_options(kind, 1) | one, output="videos").movedim(2, -1)


def one_step(model: Mapping[str, Any], text: torch.Tensor) -> torch.Tensor:
    positive, negative = ({"prompt_embeds": each} for each in text)
    encoded = Conditioning(family="wan", prompt="", negative_prompt="", positive=positive, negative=negative)
    made = stages.denoise(model=model, conditioning=encoded, latents=EMPTY, seed=5, steps=1, guidance=4.0).tensor
    assert made is not None
    return made


def modular_step(model: Mapping[str, Any], text: torch.Tensor) -> torch.Tensor:
    """The same by the modular denoise stage."""
    from diffusers import ClassifierFreeGuidance
    from diffusers.modular_pipelines.wan.modular_blocks_wan import WanCoreDenoiseStep

    stage = WanCoreDenoiseStep().init_pipeline()
    parts = store().load(from_plain(Model, model), ("transformer", "scheduler"))
    stage.update_components(**parts, guider=ClassifierFreeGuidance(guidance_scale=4.0))
    stage.set_progress_bar_config(disable=True)
    size = {**SIZE, "num_frames": FRAMES, "num_inference_steps": 1}
    texts = {"prompt_embeds": text[0], "negative_prompt_embeds": text[1]}
    return stage(**texts, **size, generator=generators([5])[0], output="latents")
