"""Modular pipelines, which diffusers has as blocks alone: read from a folder, called by name, and spread over ranks."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.pipelines import of_all, problems
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.progress import SILENT
from latentloom.pipelines.models.folder import MODULAR_INDEX as INDEX
from latentloom.pipelines.models.folder import read_index
from latentloom.pipelines.signatures.table import signature_of
from latentloom.pipelines.spreading import borders
from latentloom.pipelines.values import Audio
from latentloom.pipelines.whole import called
from latentloom.pipelines.whole.assembled import load_pipeline
from latentloom.pipelines.whole.called import Whole, taken
from support.ranks import Ranks
from zoo.pipelines import blocks, minimax
from zoo.pipelines.tiny import build, picture

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*weight_norm. is deprecated:FutureWarning"
)  # of MiniMax H3's audio VAE
H3, ANIMA = "MiniMaxH3ModularPipeline", "AnimaModularPipeline"


@pytest.fixture(scope="module")
def pipe() -> Any:
    return build(minimax.TINY[H3])


def arguments(row: str = H3, **more: Any) -> dict[str, Any]:
    """A call of one step."""
    fixed = {"generator": torch.Generator().manual_seed(0), "output_type": "np", "num_inference_steps": 2}
    return {**minimax.TINY[row].call(), **fixed, **more}


@pytest.fixture(scope="module")
def h3(saved: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder without the transformer for references, as one that was copied in part; its index names both."""
    folder = tmp_path_factory.mktemp("modular") / "h3"
    shutil.copytree(saved(H3), folder, ignore=shutil.ignore_patterns("transformer_ref"))
    yield folder
    called.forget()


def call(folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    return called.call(Whole(source=str(folder), dtype="fp32", device="cpu"), given, SILENT)


def test_a_folder_gives_the_video_and_the_sound_of_diffusers_own_pipeline(h3: Path, pipe: Any) -> None:
    found = call(h3, arguments())
    wanted = pipe(**arguments(), output=["videos", "audio", "sampling_rate"])
    torch.testing.assert_close(torch.from_numpy(found["videos"]), torch.from_numpy(wanted["videos"]), atol=1e-5, rtol=0)
    torch.testing.assert_close(found["audio"], wanted["audio"], atol=1e-5, rtol=0)
    assert found["sampling_rate"] == 320 and pipe.config.canvas_short_edge == 48


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reference_images": [picture()]}, "this call needs transformer_ref, which the model's folder lacks; copy it"),
        ({"num_frame": 124}, "MiniMaxH3ModularPipeline takes no num_frame; did you mean num_frames"),
        ({"keyframes": []}, "MiniMaxH3ModularPipeline takes no keyframes; "),
    ],
)
def test_a_call_is_refused_for_what_it_lacks_and_what_it_does_not_take(
    h3: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        call(h3, arguments(**given))


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        ("vae", "other/vae", "component 'vae' comes from other/vae, and a modular model is read from one folder only"),
        ("_class_name", "MyModularPipeline", "diffusers .* has no pipeline 'MyModularPipeline'"),
        ("_class_name", "ModularPipeline", "diffusers .* has no pipeline 'ModularPipeline'"),
        ("_class_name", ["mine", "Blocks"], "is code of the model's own, which is refused"),
        ("auto_map", {"Blocks": "mine--Blocks"}, "which is refused"),
    ],
)
def test_a_folder_of_others_parts_or_code_is_refused(
    h3: Path, tmp_path: Path, entry: str, value: Any, words: str
) -> None:
    index = json.loads((h3 / INDEX).read_text())
    if entry == "vae":
        index = {"_class_name": H3, entry: [*index[entry][:2], {"pretrained_model_name_or_path": value}]}
    else:
        index = {"_class_name": H3, entry: value}
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError, match=words):
        load_pipeline(str(tmp_path), dtype="fp32")


def test_what_not_every_call_needs_may_be_elsewhere(h3: Path) -> None:
    index = read_index(h3)
    assert index["transformer"] == ["diffusers", "MiniMaxH3Transformer3DModel"]
    assert index["transformer_ref"] == [None, None]


def test_references_are_made_of_pictures_a_clip_and_a_sound(pipe: Any) -> None:
    sound = Audio(waveform=torch.ones(1, 1, 640), rate=640)
    given = taken(
        pipe, {"prompt": "", "reference_video": [picture()], "reference_video_fps": 8, "reference_audio": sound}
    )
    clip, voice = given.pop("references")
    assert given == {"prompt": ""} and clip.fps == 8 and voice.audio.shape == (1, 320)


def test_its_signature_is_what_its_blocks_do_not_make_themselves() -> None:
    found = signature_of(H3)
    assert {each.name for each in found.parameters if each.is_required} == {"prompt"}
    assert found.outputs == {"video": "videos", "audio": "audio"} and not found.lacks
    assert {each.name: each.kind for each in found.parameters if each.name.startswith("reference")} == {
        "reference_images": "pictures",
        "reference_video": "video",
        "reference_video_fps": "number",
        "reference_audio": "audio",
    }


def test_tokens_are_shared_out(pair: Ranks) -> None:
    found = of_all(pair.run("bodies.spreading:compare", f"{H3}:references", "ulysses=2", True))
    assert not problems(found) and found["sent"] and found["steps"] == [3, 3, 3]


@pytest.mark.by_hand
def test_verify_makes_a_call_of_its_signature(pair: Ranks, saved: Any) -> None:
    for [found] in pair.run("bodies.spreading:verified", str(saved(H3)), "80x48", "ulysses=2"):
        assert found["largest"] > 0 and found["difference"] <= 1e-5 * max(1.0, found["largest"])


def test_a_guider_s_scale_is_an_argument_of_the_call(saved: Any) -> None:
    tiny, found = blocks.TINY[ANIMA], dict[float | None, Any]()
    for scale in (None, 4.0, 1.0):
        fixed = {"generator": torch.Generator().manual_seed(0), "output_type": "np", "num_inference_steps": 1}
        found[scale] = call(saved(ANIMA), {**tiny.call(), **fixed, "guidance_scale": scale})["images"]
    assert np.array_equal(found[None], found[4.0]) and np.abs(found[4.0] - found[1.0]).max() > 1e-3
    assert signature_of(ANIMA).guidance({}) > 1 == signature_of(ANIMA).guidance({"guidance_scale": 1.0})


def test_a_guider_is_shared_out(pair: Ranks) -> None:
    found = of_all(pair.run("bodies.spreading:compare", ANIMA, "cfg=2", True))
    assert not problems(found) and found["calls"] == [8, 4, 4]


def test_segments_of_a_solver_count_on() -> None:
    told: list[tuple[int, int]] = []
    run = borders.Borders(1, on_step=lambda *step: told.append(step), border=None, step_ends=lambda: None)
    run.begin()
    for _ in range(4):
        run.solved(lambda: 2)
    assert told == [(1, 2), (2, 2), (3, 4), (4, 4)]


def test_an_error_of_one_rank_at_its_step_is_raised_once_all_have_voted(monkeypatch: pytest.MonkeyPatch) -> None:
    votes: list[int] = []
    monkeypatch.setattr(borders, "ballot", lambda: None)
    monkeypatch.setattr(borders, "highest", lambda wish, _: votes.append(wish) or 1)
    run = borders.Borders(2, on_step=lambda done, _: 1 // (done - 2), border=None, step_ends=lambda: None)
    run.begin()
    for error in (Cancelled, ZeroDivisionError):
        with pytest.raises(error):
            run.solved(lambda: 2)
    assert votes == [0, 1]
