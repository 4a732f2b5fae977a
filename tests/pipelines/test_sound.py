"""Latents of picture and sound: from a denoise to what is seen and heard, and what is refused on the way."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from bodies.guided import forwards
from latentloom.nodes import decode_audio, empty_latents, encode_image, encode_text, reference_pictures
from latentloom.pipelines import stages
from latentloom.pipelines.failures import NotFinite
from latentloom.pipelines.forecast.memory import work_of
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import Image, Latents, Model, Sampling, from_plain, to_plain
from support.tiny_rows import TINY_ROWS, request_of
from support.told import Told

NAME = "minimax_h3"
ROW = TINY_ROWS[NAME]


@pytest.fixture(scope="module")
def h3(model: Any) -> Model:
    return from_plain(Model, model(NAME))


@pytest.fixture(scope="module")
def asked(h3: Model) -> dict[str, Any]:
    return request_of(to_plain(h3), ROW)


def test_each_video_of_a_batch_is_the_one_that_its_seed_makes_alone(h3: Model, asked: dict[str, Any]) -> None:
    counted = Told()
    both = stages.denoise({**asked, "latents": {**asked["latents"], "batch": 2}}, counted)
    second = stages.denoise({**asked, "seed": both.seeds[1]})
    assert counted.steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert both.tensor is not None and both.sound is not None
    assert second.tensor is not None and second.sound is not None
    assert torch.equal(both.tensor[1:], second.tensor) and torch.equal(both.sound[1:], second.sound)
    heard = stages.decode_audio(model=h3, latents=both)
    assert heard.waveform.shape == (2, 2, 41400) and heard.rate == 8000
    assert not torch.equal(heard.waveform[0], heard.waveform[1])
    seen = stages.decode(model=h3, latents=both)
    assert seen.pixels.shape == (2, 124, 32, 48, 3) and seen.fps == 24


def test_a_sound_that_is_no_number_is_told_where_it_is_made(h3: Model) -> None:
    broken = Latents(family=NAME, width=48, height=32, sound=torch.full((1, 2, 6, 207), torch.nan))
    with pytest.raises(NotFinite, match="of the decoded sound"):
        stages.decode_audio(model=h3, latents=broken)


def test_what_has_no_sound_is_refused(h3: Model, model: Any) -> None:
    with pytest.raises(ValueError, match="the latents are an empty canvas, which sounds like nothing"):
        decode_audio(h3, empty_latents(h3))
    silent = from_plain(Model, model("ltx"))
    with pytest.raises(ValueError, match=r"LTX-Video makes no sound; take Decode Audio away, .*: LTX-2, MiniMax H3"):
        decode_audio(silent, empty_latents(silent))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"steps": 1}, "steps is 1; MiniMax H3 needs 2 or more"),
        ({"guidance": 3.0}, "set guidance to 1"),
        ({"step_cache": "taylorseer"}, "diffusers has no step cache for MiniMaxH3Transformer3DModel"),
        ({"sampling": Sampling(scheduler="euler")}, "no other solver follows; set scheduler to model"),
        ({"fps": 30.0}, "MiniMax H3 makes 24 frames a second, and its sound to them; set fps to 0"),
        ({"frames": 100}, r"17k \+ 5 frames, from 124 to 345, such as 124 or 141"),
        ({"frames": 999}, "such as 328 or 345"),
        ({"frames": 130}, "such as 124 or 141"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(asked: dict[str, Any], changed: dict[str, Any], words: str) -> None:
    canvas = {name: changed.pop(name) for name in ("fps", "frames") if name in changed}
    with pytest.raises(ValueError, match=words):
        stages.denoise({**asked, **changed, "latents": {**asked["latents"], **canvas}})


def test_a_first_frame_goes_to_the_text_and_to_the_canvas(
    h3: Model, asked: dict[str, Any], picture: torch.Tensor
) -> None:
    first = encode_image(h3, Image(pixels=picture), width=48, height=32)
    with pytest.raises(ValueError, match="Denoise has a first frame, and Encode Text has none; give both"):
        stages.denoise({**asked, "latents": first})
    saw = encode_text(h3, "a", first_frame=first)
    with pytest.raises(ValueError, match="Encode Text has a first frame, and Denoise has none; give both"):
        stages.denoise({**asked, "conditioning": saw})
    with pytest.raises(ValueError, match="2 first frames: MiniMax H3 reads a text with one of them; give one"):
        encode_image(h3, Image(pixels=picture.repeat(2, 1, 1, 1)), width=48, height=32)


def test_reference_pictures_are_painted_by_a_transformer_of_their_own_and_counted(
    h3: Model, tmp_path: Path, picture: torch.Tensor
) -> None:
    canvas = dataclasses.replace(empty_latents(h3), width=48, height=32)
    without, seen = (work_of(h3, canvas=canvas, text_length=0, num_references=num) for num in (0, 2))
    assert seen.tokens == without.tokens + 2 * (2048 // 16) ** 2
    assert len(without.transformers) == len(seen.transformers) == 1
    pictures = reference_pictures(Image(pixels=picture))
    first = encode_image(h3, Image(pixels=picture), width=48, height=32)
    with pytest.raises(ValueError, match="a first frame and reference pictures, and the model takes one of both"):
        encode_text(h3, "a", references=pictures, first_frame=first)
    with pytest.raises(
        ValueError, match="picture 1 is 64 x 320; give one of at least 64 pixels a side, at most 4 times"
    ):
        encode_text(h3, "a", references=reference_pictures(Image(pixels=torch.zeros(1, 320, 64, 3))))
    folder = shutil.copytree(h3.folder, tmp_path / "h3", ignore=shutil.ignore_patterns("transformer_ref"))
    alone = describe_model(str(folder), device="cpu")
    assert stages.encode_text(model=alone, prompt="a").positive
    with pytest.raises(ValueError, match=r"looks at reference pictures with transformer_ref, which .* lacks; pull"):
        encode_text(alone, "a", references=pictures)


def test_a_model_that_reads_the_text_alone_refuses_a_first_frame(model: Any) -> None:
    wan = from_plain(Model, model("wan_i2v"))
    with pytest.raises(ValueError, match="Wan reads the text alone; take first_frame away from Encode Text"):
        encode_text(wan, "a", first_frame=empty_latents(wan))


def test_guidance_of_one_turns_off_all_that_guides_picture_and_sound(model: Any) -> None:
    row = TINY_ROWS["ltx_2"]
    asked = {**request_of(model("ltx_2"), row), "steps": 1}
    calls = []
    for guidance in (3.0, 1.0):
        calls.append(forwards(lambda guidance=guidance: stages.denoise({**asked, "guidance": guidance}))[1])
    assert calls == [4, 1]


def test_a_solver_of_two_turns_is_refused_where_guiders_count_once(model: Any) -> None:
    asked = request_of(model("ltx_2"), TINY_ROWS["ltx_2"])
    with pytest.raises(ValueError, match="scheduler heun asks the model twice in a step, and LTX-2's guiders count"):
        stages.denoise({**asked, "sampling": Sampling(scheduler="heun")})


def test_five_latents_are_counted_for_seventeen_frames(h3: Model) -> None:
    canvas = dataclasses.replace(empty_latents(h3), width=48, height=32)
    assert work_of(h3, canvas=canvas, text_length=0).tokens == 37 * 2 * 3
