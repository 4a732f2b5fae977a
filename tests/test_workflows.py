"""The workflows that ship: written as we write files, free of problems, and good for a result on tiny models."""

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from bench.shipped import CLIP, FRAMES, STEPS, TINY, write_lora
from latentloom.__main__ import main
from latentloom.nodes import blur_mask, load_mask
from latentloom.nodes.files.resize import cover
from latentloom.nodes.graph.graph import Link, graph_text, read_graph
from latentloom.nodes.registry import SPECS
from support.prepared import check
from support.tiny_rows import small_references

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "workflows").glob("*/*.json"))
BY_NAME = {file.stem: file for file in FILES}
# What they make with the model that ships; first_picture has tests of its own.
BUILT_IN = {
    "prompt_grid": ["grid.png"],
    "prompt_list": ["picture.png"],
    "seed_grid": [*(f"picture-{i}.png" for i in range(9)), "seeds.png"],
    "compare_prompts": ["comparison.png"],
    "compare_guidance": ["guidance.png"],
    "upscale_and_refine": ["before_and_after.png", "refined.png"],
}
# Of these by hand: another workflow runs their family, or another family their workflow, and what an edit needs beside
# it is that of `flux_kontext` and `qwen_image_edit_plus`.
SECOND = {
    "wan_text_to_video": ["wan22"],
    "wan_image_to_video": ["wan_i2v"],
    "wan_first_last_frame": ["wan_flf2v"],
    "flux_2_edit": ["flux_2"],
    "flux_3_edit": ["flux_3_distilled"],
    "minimax_h3_image_to_video": ["minimax_h3"],
    "minimax_h3_turbo": ["minimax_h3"],
    "minimax_h3_image_to_video_turbo": ["minimax_h3"],
    "qwen_image_21_edit": ["qwen_image_21_turbo"],
    "qwen_image_edit": ["qwen_image_edit"],
    "ltx_25_image_to_video": ["ltx_25"],
    "ltx_25_image_two_passes": ["ltx_25_larger"],
    "ltx_2_two_passes": ["ltx_2_larger"],
}
LAYERS = ["layer-0.png", "layer-1.png"]
# What is saved has a sound as long as the video.
SOUND = {
    *(name for name in TINY if name.startswith("minimax_h3")),
    "cosmos_3_video_with_sound",
    "ltx_2_image_to_video",
}


def test_all_of_them_are_here() -> None:
    others = {"first_picture", "image_to_image", "inpaint", "run_pipeline", "several_devices"}
    assert {f.stem for f in FILES} == {*others, *BUILT_IN, *TINY}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_file_has_no_problem_and_is_written_as_we_write_files(file: Path) -> None:
    graph = read_graph(file)
    assert check(graph, SPECS) == []
    assert graph.name == file.stem
    assert graph.description
    assert file.read_text() == graph_text(graph)
    notes = [str(n.inputs["text"]) for n in graph.nodes.values() if n.type == "LoomNote"]
    says_source = any("source" in note and "latentloom models pull" in note for note in notes)
    assert says_source or file.stem not in TINY  # one of a big model


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of ERNIE's own blocks
@pytest.mark.parametrize(
    ("name", "family"),
    [
        pytest.param(n, f, marks=[pytest.mark.by_hand] * (f in SECOND.get(n, ())))
        for n, families in TINY.items()
        for f in families
    ],
)
def test_workflow_for_a_big_model_runs_on_a_tiny_one_of_its_family(
    name: str, family: str, tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    params = json.loads(BY_NAME[name].read_text())["params"]
    settings = {"source": tiny(family), "width": 64, "height": 64}
    if "steps" in params:
        settings["steps"] = STEPS.get(name, 2)
    if "lora" in params:
        settings["lora"] = write_lora(tmp_path / "lora.safetensors", family)
    if "sigmas" in params:
        settings["sigmas"] = "1, 0.5"
    if "frames" in params:
        settings["frames"] = FRAMES.get(name, 9)
    for param in {"image", "image_2"} & params.keys():
        Image.linear_gradient("L").resize((128, 128)).convert("RGB").save(tmp_path / f"{param}.png")
        settings[param] = f"{param}.png"
    if "video" in params:
        settings["video"] = shutil.copy(CLIP, tmp_path)
    options = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
    with small_references():
        assert main(["run", str(BY_NAME[name]), "--no-cache", *options]) == 0
    made = sorted(p.name for p in (tmp_path / "output").iterdir())
    made_of = LAYERS if name == "qwen_image_layered" else ["picture.png"], ["video.mp4"]
    assert made in [sorted(["manifest.json", *each]) for each in made_of]
    if name in SOUND:
        with av.open(str(tmp_path / "output" / "video.mp4")) as file:
            video, audio = file.streams.video[0], file.streams.audio[0]
            assert audio.duration * audio.time_base == pytest.approx(video.duration * video.time_base, abs=0.1)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.by_hand] * each.startswith("compare_")) for each in BUILT_IN]
)
def test_workflow_for_the_built_in_model_makes_its_pictures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = BY_NAME[name]
    size = 96 if name == "upscale_and_refine" else 64  # which takes one and a half times as much
    small = {"LoomDenoise": ["steps=2"], "LoomEmptyLatents": [f"width={size}", f"height={size}"]}
    nodes = read_graph(file).nodes.items()
    options = [f"--set={name}.{each}" for name, node in nodes for each in small.get(node.type, ())]
    assert main(["run", str(file), "--no-cache", *options]) == 0
    made = sorted(p.name for p in (tmp_path / "output").iterdir())
    assert made == sorted(["manifest.json", *BUILT_IN[name]])


def test_inpainting_paints_inside_the_mask_that_ships_and_keeps_every_byte_beyond_its_soft_edge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.linear_gradient("L").resize((150, 128)).convert("RGB").save("picture.png")  # no size that the model takes
    assert main(["run", str(BY_NAME["inpaint"]), "--set", "denoise.steps=2", "--no-cache"]) == 0
    first, painted = (np.asarray(Image.open(name), float) for name in ("picture.png", "output/inpainted.png"))
    soft = blur_mask(load_mask(str(BY_NAME["inpaint"].with_name("middle.png")), channel="luminance"), blur=2.0)
    mask = cover(soft.pixels[..., None], 150, 128, "bilinear")[0, ..., 0].numpy()
    moved = abs(painted - first).mean(2)
    assert painted.shape == (128, 150, 3)
    assert moved[mask == 0].max() == 0 and moved[mask > 0.99].mean() > 40


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_first_time_users_find_help_at_every_param_and_boxes_that_do_not_overlap(file: Path) -> None:
    graph = read_graph(file)
    assert all(param.help for param in graph.params.values())
    places = {name: (x, y) for name, (x, y) in graph.layout.items()}
    assert set(places) == set(graph.nodes)
    columns: dict[int, list[int]] = {}
    for x, y in places.values():
        columns.setdefault(x, []).append(y)
    assert all(later - x >= 300 for x, later in pairwise(sorted(columns)))
    assert all(lower - y >= 120 for column in columns.values() for y, lower in pairwise(sorted(column)))
    for name, node in graph.nodes.items():  # wires run to the right, or to a row below
        sources = [graph.layout[entry.node] for entry in node.inputs.values() if isinstance(entry, Link)]
        assert all(left < places[name][0] or top < places[name][1] for left, top in sources), name


def test_video_carries_its_workflow(
    tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = [f"source={tiny('wan')}", "steps=1", "width=64", "height=64", "frames=5", "prompt=a fox"]
    sets = [option for value in options for option in ("--set", value)]
    assert main(["run", str(ROOT / "workflows" / "wan" / "wan_text_to_video.json"), "--no-cache", *sets]) == 0
    capsys.readouterr()
    assert main(["show", "output/video.mp4"]) == 0
    assert '"a fox"' in capsys.readouterr().out
    first = (tmp_path / "output" / "video.mp4").read_bytes()
    assert main(["run", "output/video.mp4", "--out", "again", "--no-cache", "--allow", str(tiny("wan"))]) == 0
    assert (tmp_path / "again" / "video.mp4").read_bytes() == first
