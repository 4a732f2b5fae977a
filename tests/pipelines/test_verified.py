"""`latentloom verify` for pipelines that are no family of ours: the call that it makes, and what it finds."""

import json
from pathlib import Path
from typing import Any

import pytest

from latentloom.__main__ import main
from latentloom.pipelines.whole.verified import FRAMES, calls_of
from support.ranks import RankError, Ranks

SIZE = "80x48"


@pytest.mark.usefixtures("warm_pools")
def test_a_pipeline_of_no_family_passes_from_the_command_line(saved: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["verify", "--model", str(saved("ZImagePipeline")), "--size", SIZE, "--json"]
    code = main([*asked, "--plan", "ulysses=2", "--plan", "cfg=2"])
    ulysses, cfg = json.loads(capsys.readouterr().out)
    assert code == 0
    assert ulysses["is_equal"] and cfg["is_equal"] and not cfg["note"]
    assert ulysses["largest"] > 0 and ulysses["sent_bytes"][0] > 0 < cfg["calls"][0]


def test_pictures_are_given_where_a_text_is_refused(pair: Ranks, saved: Any) -> None:
    found = pair.run("bodies.spreading:verified", str(saved("FluxFillPipeline")), SIZE, "ring=2 cfg=2")
    for ring, cfg in found:
        assert ring["largest"] > 0 and ring["difference"] <= 1e-5 * max(1.0, ring["largest"])
        assert cfg["note"] == "guidance is not shared out, because a step asks the transformer for one branch"
    assert found[0][0]["mark"] == found[1][0]["mark"]


def test_a_rank_with_other_weights_is_found(pair: Ranks, saved: Any) -> None:
    found = pair.run("bodies.spreading:verified", str(saved("FluxFillPipeline")), SIZE, "ulysses=2", True)
    assert max(each[0]["difference"] for each in found) > 1e-4


def test_a_pipeline_that_refuses_both_calls_says_why_and_with_what(pair: Ranks, saved: Any) -> None:
    with pytest.raises(RankError, match=r"ZImagePipeline refuses a call .*\(.*width.*\): .*divisible by"):
        pair.run("bodies.spreading:verified", str(saved("ZImagePipeline")), "81x47", "ulysses=2")


def test_a_transformer_without_a_split_plan_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    assert main(["verify", "--model", str(tmp_path), "--plan", "ulysses=2"]) == 2
    said = capsys.readouterr().err
    assert "there is no split plan for UNet2DConditionModel" in said and said.count("\n") == 1


class Painter:
    def __call__(
        self, prompt: str, num_frames: int = 81, strength: float = 0.5, image: Any = None, video: Any = None
    ) -> None: ...


class Sharpener:
    def __call__(self, latents: Any, prompt: str = "", height: int = 0, width: int = 0) -> None: ...


def test_a_call_is_made_of_its_signature() -> None:
    text, pictures, longer, *_ = calls_of(Painter, width=0, height=0)
    assert text == {"prompt": text["prompt"], "num_frames": FRAMES}
    assert pictures == {**text, "image": pictures["image"]} and longer == {"prompt": text["prompt"]}


def test_steps_that_a_strength_leaves_out_are_made_up_for() -> None:
    class Repainter:
        def __call__(self, image: Any, num_inference_steps: int = 50, strength: float = 0.5) -> None: ...

    [text] = calls_of(Repainter, width=0, height=0)
    assert text["num_inference_steps"] == 4 and text["image"].width != text["image"].height


@pytest.mark.parametrize(
    ("kind", "size", "words"),
    [
        (Painter, 64, "--size is 64x64, but Painter takes no width and height; leave --size out"),
        (Sharpener, 0, "the call of Sharpener needs latents, which verify cannot make up; call it from Python"),
    ],
)
def test_what_a_call_cannot_be_made_of_is_one_sentence(kind: type, size: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        calls_of(kind, width=size, height=size)
