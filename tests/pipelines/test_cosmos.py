"""Cosmos 3: each of its modes is what diffusers' pipeline makes, on one device as on two."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import Cosmos3OmniPipeline, UniPCMultistepScheduler
from PIL import Image as Pillow

from latentloom.nodes import decode_audio, decode_video, denoise, empty_latents, encode_image, encode_text
from latentloom.pipelines import stages
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.forecast.memory import work_of
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import Image, Latents, Model, Sampling, from_plain, to_plain
from latentloom.pipelines.whole.assembled import load_pipeline
from support.tiny_parts import fill
from support.tiny_rows import NEGATIVE, PROMPT, SEED, cosmos_3
from support.told import Told

SIZE: dict[str, Any] = {"width": 80, "height": 48}
STEPS = 3


@pytest.fixture(scope="module")
def cosmos(model: Any) -> Model:
    return from_plain(Model, model("cosmos_3"))


@pytest.fixture(scope="module")
def whole(tiny: Any) -> Cosmos3OmniPipeline:
    pipe: Any = load_pipeline(str(tiny("cosmos_3")), dtype="fp32")
    pipe.set_progress_bar_config(disable=True)
    return pipe


def frame(seed: int) -> Pillow.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (6, 10, 3), "uint8")
    return Pillow.fromarray(noise).resize((80, 48), Pillow.Resampling.BICUBIC)


def canvas(cosmos: Model, frames: int, *first: int) -> Latents:
    if not first:
        return empty_latents(cosmos, **SIZE, frames=frames)
    return encode_image(cosmos, Image.from_pil(*map(frame, first)), **SIZE, frames=frames)


@pytest.mark.parametrize(
    ("frames", "first", "sound", "guidance"),
    [
        pytest.param(9, (), False, 6.0, id="text to video"),
        pytest.param(9, (1,), False, 6.0, id="first frame to video"),
        pytest.param(9, (1,), True, 6.0, id="first frame to video with sound"),
        pytest.param(1, (), False, 6.0, id="text to picture"),
        pytest.param(5, (), False, 1.0, id="without guidance"),
    ],
)
def test_each_mode_is_what_the_classic_pipeline_makes(
    frames: int, first: tuple[int, ...], sound: bool, guidance: float, cosmos: Model, whole: Any
) -> None:
    text = encode_text(cosmos, PROMPT, negative_prompt=NEGATIVE)
    how: dict[str, Any] = {"seed": SEED, "steps": STEPS, "guidance": guidance, "sound": sound}
    made = denoise(cosmos, text, canvas(cosmos, frames, *first), **how)
    wanted = whole(
        prompt=PROMPT,
        negative_prompt=NEGATIVE,
        image=frame(first[0]) if first else None,
        num_frames=frames,
        **SIZE,
        num_inference_steps=STEPS,
        guidance_scale=guidance,
        enable_sound=sound,
        generator=generators([SEED])[0],
        output_type="pt",
    )
    assert torch.equal(decode_video(cosmos, made).pixels[0], wanted.video.movedim(1, -1))
    assert (made.sound is not None) == sound
    if sound:
        heard = decode_audio(cosmos, made)
        assert heard.rate == 2000 and torch.equal(heard.waveform[0], wanted.sound.clamp(-1, 1))


def test_the_shift_that_its_makers_take_for_videos_is_a_sampler_option(cosmos: Model, whole: Any) -> None:
    text = encode_text(cosmos, PROMPT)
    made = denoise(cosmos, text, canvas(cosmos, 5), seed=SEED, steps=STEPS, sampling=Sampling(shift=10.0))
    config = {"flow_shift": 10.0, "use_karras_sigmas": False}
    shifted = Cosmos3OmniPipeline(**{**whole.components, "scheduler": None}, enable_safety_checker=False)
    shifted.scheduler = UniPCMultistepScheduler.from_config(whole.scheduler.config, **config)
    shifted.set_progress_bar_config(disable=True)
    call: dict[str, Any] = {"num_frames": 5, **SIZE, "num_inference_steps": STEPS, "output_type": "latent"}
    assert torch.equal(made.tensor, shifted(prompt=PROMPT, **call, generator=generators([SEED])[0]).video)


def test_each_video_of_a_batch_has_its_own_first_frame_seed_and_sound(cosmos: Model) -> None:
    text, told = encode_text(cosmos, PROMPT), Told()
    how: dict[str, Any] = {"steps": 2, "sound": True}
    both = denoise(cosmos, text, canvas(cosmos, 5, 1, 2), seed=SEED, progress=told, **how)
    alone = denoise(cosmos, text, canvas(cosmos, 5, 2), seed=SEED + 1, **how)
    assert told.steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert torch.equal(both.tensor[1:], alone.tensor) and torch.equal(both.sound[1:], alone.sound)
    shown, heard = decode_video(cosmos, both).pixels, decode_audio(cosmos, both).waveform
    assert shown.shape == (2, 5, 48, 80, 3) and heard.shape == (2, 2, 480)
    assert float((shown[1] - decode_video(cosmos, alone).pixels[0]).abs().max()) <= 1e-5


def test_two_ranks_continue_a_picture_as_one_does(cosmos: Model, pair: Any) -> None:
    request = {
        "model": to_plain(cosmos),
        "conditioning": to_plain(encode_text(cosmos, PROMPT, negative_prompt=NEGATIVE)),
        "latents": to_plain(canvas(cosmos, 9, 1)),
        "seed": SEED,
        "steps": 2,
        "guidance": 6.0,
    }
    one, two = pair.run("bodies.rows:denoise_each_way", request, ("ulysses=2", "ring=2", "cfg=2"))
    assert [each["calls"] for each in one] == [4, 4, 4, 2]
    for mine, other in zip(one[1:], two[1:], strict=True):
        assert mine["sum"] == other["sum"] and mine["difference"] <= 1e-5


def test_sound_that_was_not_asked_for_or_cannot_be_made_is_told(cosmos: Model, tmp_path: Path) -> None:
    text = encode_text(cosmos, PROMPT)
    silent = denoise(cosmos, text, canvas(cosmos, 1), steps=1)
    with pytest.raises(ValueError, match="the latents have no sound; turn on sound in Denoise, or take Decode Audio"):
        decode_audio(cosmos, silent)
    pipe = cosmos_3(hears=False)
    fill(pipe)
    pipe.save_pretrained(tmp_path)
    mute = describe_model(str(tmp_path), device="cpu")
    with pytest.raises(ValueError, match=r"makes no sound; turn sound off in Denoise"):
        stages.denoise(model=mute, conditioning=text, latents=canvas(mute, 1), sound=True)


def test_a_canvas_is_counted_in_whole_tokens(cosmos: Model) -> None:
    """A token is two latents of eight pixels wide; what is missing of one is padded."""
    size = dataclasses.replace(canvas(cosmos, 9), width=72, height=40)
    assert work_of(cosmos, canvas=size, text_length=0).tokens == 3 * 5 * 3


def test_a_folder_is_read_as_nano_and_super_are_published(tiny: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny("cosmos_3"), tmp_path / "nano")
    index = json.loads((folder / "model_index.json").read_text())
    index |= {"_class_name": "Cosmos3OmniDiffusersPipeline", "safety_checker": [None, None]}
    (folder / "model_index.json").write_text(json.dumps(index))
    nano = describe_model(str(folder), device="cpu")
    assert nano.family == "cosmos_3"
    assert denoise(nano, encode_text(nano, PROMPT), canvas(nano, 1), steps=1).tensor is not None


def test_a_step_cache_is_refused(cosmos: Model) -> None:
    with pytest.raises(ValueError, match="diffusers has no step cache for Cosmos3OmniTransformer"):
        denoise(cosmos, encode_text(cosmos, PROMPT), canvas(cosmos, 1), steps=1, step_cache="taylorseer")
