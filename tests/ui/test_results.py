"""Results: newest first, found by words, in pages, by id only, and gone when their file is deleted."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from latentloom.nodes.execution.attempt import shown
from latentloom.nodes.execution.records import NodeRecord, RunResult
from latentloom.nodes.files.audio_files import write_audio
from latentloom.nodes.files.thumbnails import video_facts, video_thumbnail
from latentloom.nodes.files.video_files import write_video
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import read_graph
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.registry import SPECS as REAL
from latentloom.pipelines.values import Audio, Video
from latentloom.pipelines.values import Image as Pixels
from latentloom.ui.errors import NotHere
from latentloom.ui.live.state import MadeFile
from latentloom.ui.runs.results import ResultFilter, Results
from latentloom.ui.runs.runs import Runs
from latentloom.ui.worker.work import behind, made_by, told_of
from support.checkout import ROOT
from support.toy_server import DEADLINE_S, OPEN, REACHED, SPECS, finished, gated, graph, pictured, settings_in


@pytest.fixture
def results(runs: Runs, tmp_path: Path) -> Results:
    return Results(settings_in(tmp_path), runs)


def make(runs: Runs, user: str = "ada", **parts: Any) -> list[str]:
    return [finished(runs, user, id).id for id in runs.submit(user, pictured(), **parts).runs]


def test_a_result_says_what_made_it(runs: Runs, results: Results) -> None:
    [run] = make(runs, sweep=["value=5,6"])[:1]
    [result] = [each for each in results.list("ada", ResultFilter()) if each.run == run]
    assert (result.kind, result.name, result.width, result.height) == ("image", "star.png", 8, 8)
    assert (result.workflow_name, result.params, result.varied) == ("toy", {"value": 5}, {"value": 5})
    assert result.bytes > 0 and "path" not in result.model_dump()


def test_they_come_newest_first_in_pages_and_by_batch(runs: Runs, results: Results) -> None:
    old = make(runs, sweep=["value=1..3"])
    new = make(runs)
    listed = results.list("ada", ResultFilter())
    assert [each.run for each in listed] == [*new, *reversed(old)]
    assert results.list("ada", ResultFilter(limit=2)) == listed[:2]
    assert results.list("ada", ResultFilter(limit=2, before=listed[1].id)) == listed[2:]
    assert results.list("ada", ResultFilter(batch=listed[1].batch)) == listed[1:]


def test_every_word_of_a_search_must_be_there(runs: Runs, results: Results) -> None:
    make(runs, sweep=["value=11,22"])
    assert [each.params["value"] for each in results.list("ada", ResultFilter(search="STAR 22"))] == [22]
    assert results.list("ada", ResultFilter(search="star moon")) == []


def test_the_thumbnail_is_a_webp_that_is_made_once(runs: Runs, results: Results, tmp_path: Path) -> None:
    make(runs)
    [result] = results.list("ada", ResultFilter())
    data = results.thumbnail("ada", result.id)
    assert Image.open(io.BytesIO(data)).format == "WEBP"
    [kept] = (tmp_path / "data").glob("users/*/thumbs/*.webp")
    kept.write_bytes(b"kept")
    assert results.thumbnail("ada", result.id) == b"kept"


def test_the_frame_that_is_chosen_stands_for_a_video(runs: Runs, results: Results, tmp_path: Path) -> None:
    make(runs)
    [picture] = results.list("ada", ResultFilter())
    with pytest.raises(ValueError, match="is no video, so no frame of it can stand for it; choose a video"):
        results.set_poster("ada", picture.id, 0)
    [run] = runs.submit("ada", gated("gate")).runs
    assert REACHED["gate"].wait(DEADLINE_S)
    path = f"{runs.book.get('ada', run).folder}/clip.mp4"
    frames = torch.stack([torch.zeros(16, 24, 3), torch.ones(16, 24, 3)])
    write_video(frames, tmp_path / "out" / path, fps=8.0, quality=20, metadata={})
    facts = {"name": "clip.mp4", "width": 24, "height": 16, "bytes": 1, "time": 1.0}
    runs.book.add_made(run, MadeFile(id="1" * 16, node="gate", kind="video", path=path, **facts))

    def light() -> Any:
        return Image.open(io.BytesIO(results.thumbnail("ada", "1" * 16))).convert("L").getpixel((0, 0))

    assert light() < 50 and results.set_poster("ada", "1" * 16, 1).poster == 1 and light() > 200
    OPEN["gate"].set()


def test_deleting_removes_the_file_the_thumbnail_and_the_entry(runs: Runs, results: Results, tmp_path: Path) -> None:
    [run] = make(runs)
    [result] = results.list("ada", ResultFilter())
    path = results.path("ada", result.id)
    results.thumbnail("ada", result.id)
    results.delete("ada", result.id)
    assert not path.exists() and results.list("ada", ResultFilter()) == []
    assert list((tmp_path / "data").glob("users/*/thumbs/*")) == []
    assert runs.get("ada", run).nodes["save"].files == ()
    with pytest.raises(NotHere, match="no result"):
        results.delete("ada", result.id)


def test_a_file_that_became_a_link_is_not_given(runs: Runs, results: Results, tmp_path: Path) -> None:
    make(runs)
    [result] = results.list("ada", ResultFilter())
    path = results.path("ada", result.id)
    secret = tmp_path / "secret.png"
    path.rename(secret)
    path.symlink_to(secret)
    with pytest.raises(NotHere, match="not in the output folder"):
        results.path("ada", result.id)
    results.delete("ada", result.id)
    assert secret.exists()


def test_only_sound_files_of_the_run_become_results(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "run"
    folder.mkdir(parents=True)
    Image.new("RGB", (3, 5)).save(folder / "good.png")
    Image.new("RGB", (3, 5)).save(tmp_path / "outside.png")
    (folder / "link.png").symlink_to(folder / "good.png")
    (folder / "damaged.png").write_bytes(b"no picture")
    (folder / "notes.txt").write_text("words")
    os.mkfifo(folder / "pipe.png")
    names = [folder / name for name in ("good.png", "link.png", "damaged.png", "notes.txt", "pipe.png", "gone.png")]
    record = NodeRecord(key="", state="ok", files=tuple(map(str, [*names, tmp_path / "outside.png"])))
    result = RunResult(run="r", state="ok", outputs={}, nodes={"save": record}, seconds=0.0)
    workflow = graph({"save": ("Picture", {})})
    made = made_by(result, ready(workflow, SPECS), folder=folder, output_dir=tmp_path / "out")
    assert [(each.path, each.width, each.height) for each in made] == [("run/good.png", 3, 5)]


def test_prompt_and_seed_are_those_behind_the_node() -> None:
    workflow = read_graph(ROOT / "workflows" / "bobbin" / "first_picture.json")
    told = told_of(behind(ready(workflow, REAL), "save"))
    assert (told["prompt"], told["seed"], told["models"]) == ("a red star", 7, ("builtin:bobbin",))
    assert told_of(behind(ready(workflow, REAL), "load_model"))["seed"] is None


def test_a_seed_that_was_left_as_it_is_is_told() -> None:
    denoise = {"conditioning": {"from": "encode_text.conditioning"}}
    nodes = {"encode_text": ("LoomEncodeText", {"prompt": "a blue cube"}), "denoise": ("LoomDenoise", denoise)}
    workflow = graph(nodes | {"decode": ("LoomDecode", {"latents": {"from": "denoise.latents"}})})
    told = told_of(behind(ready(workflow, REAL), "decode", {"denoise": {"steps": 16}}))
    assert (told["prompt"], told["seed"]) == ("a blue cube", 0)
    assert "denoise.steps=16" in told["words"].split("\n")


def test_a_seed_of_a_node_that_is_bypassed_is_not_told() -> None:
    """It is of another Denoise than the picture's."""
    nodes = {
        "first": ("LoomDenoise", {"seed": 3}),
        "second": ("LoomDenoise", {"latents": {"from": "first.latents"}, "seed": 4}),
        "decode": ("LoomDecode", {"latents": {"from": "second.latents"}}),
    }
    workflow = graph(nodes)
    off = workflow.nodes["second"].model_copy(update={"mode": "bypass"})
    workflow = workflow.model_copy(update={"nodes": {**workflow.nodes, "second": off}})
    assert told_of(behind(ready(workflow, REAL), "decode"))["seed"] == 3


def test_values_of_nodes_that_no_node_saved_become_files(tmp_path: Path) -> None:
    workspace = Workspace(output_dir=tmp_path, claims={tmp_path / "a.png": object()})
    values = {"a": Pixels(pixels=torch.zeros(2, 4, 4, 3)), "clip": Video(pixels=torch.zeros(1, 3, 8, 6, 3), fps=4.0)}
    values |= {"bell": Audio(waveform=torch.zeros(1, 1, 800), rate=8000)}
    odd = {"odd": Video(pixels=torch.zeros(1, 1, 5, 5, 3), fps=4.0), "text": "words"}
    records = {name: NodeRecord(key="", state="ok") for name in ("a", "video", "bell", "odd", "text")}
    result = RunResult(run="r", state="ok", outputs={**values, **odd}, nodes=records, seconds=0.0)
    result, problem = shown(result, {"clip": "video"}, workspace)
    assert [Path(file).name for file in result.nodes["a"].files] == ["a-0.png", "a-1.png"]
    assert [Path(file).name for file in result.nodes["video"].files] == ["video.mp4"]
    assert [Path(file).name for file in result.nodes["bell"].files] == ["bell.flac"]
    assert str(problem).startswith("odd has nothing to show") and "even numbers" in str(problem)


def test_a_sound_is_a_result_with_its_length_and_outline(tmp_path: Path) -> None:
    write_audio(torch.rand(2, 12000), tmp_path / "out" / "bell.wav", rate=8000, metadata={})
    (tmp_path / "out" / "noise.wav").write_bytes(b"no sound")
    files = tuple(str(tmp_path / "out" / name) for name in ("bell.wav", "noise.wav"))
    record = NodeRecord(key="", state="ok", files=files)
    result = RunResult(run="r", state="ok", outputs={}, nodes={"save": record}, seconds=0.0)
    folder = tmp_path / "out"
    [made] = made_by(result, ready(graph({"save": ("Picture", {})}), SPECS), folder=folder, output_dir=folder)
    assert (made.kind, made.name, made.width, made.rate, made.channels) == ("audio", "bell.wav", 0, 8000, 2)
    assert made.length_s == 1.5


def test_a_video_is_told_by_its_header(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    write_video(torch.rand(5, 16, 24, 3), clip, fps=8.0, quality=20, metadata={})
    facts = video_facts(clip)
    assert (facts.width, facts.height, facts.frames, facts.fps) == (24, 16, 5, 8.0)
    assert Image.open(io.BytesIO(video_thumbnail(clip, side=12, frame=4))).size == (12, 8)
    with pytest.raises(ValueError, match="the video has no frame 5; choose an earlier one"):
        video_thumbnail(clip, side=12, frame=5)
    clip.write_bytes(b"no video")
    with pytest.raises(ValueError, match="not a video"):
        video_facts(clip)


def test_a_file_that_is_deleted_while_it_is_asked_for_is_told_in_a_sentence(
    client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Results, "path", lambda self, user, id: tmp_path / "star.png")
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    answer = client.get("/loom/files/0123456789abcdef")
    assert answer.status_code == 404 and "run its workflow again" in answer.json()["error"]
