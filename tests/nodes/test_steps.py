"""The nodes that need no model: text, seeds, grids, sizes, paths."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from latentloom.nodes import (
    choose_text,
    decode,
    denoise,
    encode_text,
    image_grid,
    join_text,
    layout_prompt,
    load_image,
    load_model,
    resize_image,
    sampler_options,
    save_audio,
    save_image,
    save_video,
    seed,
    upscale_latents,
)
from latentloom.nodes.files import resize
from latentloom.nodes.files.workspace import ALLOW, Workspace
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.values import Audio, Conditioning, Image, Latents, Model, Video

MODEL = Model(source="builtin:none", folder="", family="flux")
LATENTS = Latents(family="flux", width=64, height=64)
TEXT = Conditioning(family="flux", prompt="a", negative_prompt="", positive={})


def flat(value: float, *, batch: int = 1, height: int = 4, width: int = 6) -> Image:
    return Image(pixels=torch.full((batch, height, width, 3), float(value)))


def test_join_leaves_empty_parts_out() -> None:
    assert join_text("a", "", "c") == "a, c"


def test_choose_counts_on_from_the_start() -> None:
    assert [choose_text("a\n\n b \nc", index=i) for i in range(4)] == ["a", "b", "c", "a"]


WRONG_ARGUMENTS: dict[str, tuple[Callable[[], Any], str]] = {
    "a prompt that is None": (lambda: encode_text(MODEL, None), "prompt is None; it takes text"),  # type: ignore[arg-type]
    "a list of prompts": (lambda: encode_text(MODEL, ["a", "b"]), r"prompt is \['a', 'b'\]; .* call once for each"),  # type: ignore[arg-type]
    "a number as the negative prompt": (lambda: encode_text(MODEL, "a", negative_prompt=3), "negative_prompt is 3"),  # type: ignore[arg-type]
    "a name as the model": (lambda: encode_text("builtin:bobbin", "a"), "model is a str; .* load_model returns"),  # type: ignore[arg-type]
    "swapped": (lambda: decode(LATENTS, MODEL), "model is a Latents; it takes a Model"),  # type: ignore[arg-type]
    "a tensor as the picture": (lambda: save_image(torch.zeros(1, 2, 2, 3)), "image is a Tensor; it takes a Image"),  # type: ignore[arg-type]
    "a picture without a batch": (lambda: image_grid(Image(pixels=torch.zeros(2, 2, 3))), "image holds 2 x 2 x 3 of"),
    "a picture of bytes": (
        lambda: resize_image(Image(pixels=torch.zeros(1, 2, 2, 3, dtype=torch.uint8))),
        "image holds 1 x 2 x 2 x 3 of torch.uint8; it takes floats B H W C",
    ),
    "a sound of whole numbers": (
        lambda: save_audio(Audio(waveform=torch.zeros(1, 2, 9, dtype=torch.int16), rate=8000)),
        r"audio holds 1 x 2 x 9 of torch.int16; it takes floats B C S in -1..1",
    ),
    "a sound without a sample": (
        lambda: save_audio(Audio(waveform=torch.zeros(1, 2, 0), rate=8000)),
        "audio holds 1 x 2 x 0 samples; give 1 or more sounds of 1 to 8 channels",
    ),
    "a sound of no rate": (
        lambda: save_audio(Audio(waveform=torch.zeros(1, 2, 9), rate=44100.5)),  # type: ignore[arg-type]
        "audio has 44100.5 samples a second; give a whole number of 1,000 to 384,000",
    ),
    "too few sounds": (
        lambda: save_video(
            Video(pixels=torch.zeros(3, 2, 8, 8, 3), fps=8.0), Audio(waveform=torch.zeros(2, 1, 9), rate=8000)
        ),
        "audio holds 2 sounds for 3 videos; give one for all, or one for each",
    ),
    "text as a number": (lambda: denoise(MODEL, TEXT, LATENTS, steps="4"), "steps is '4'; it takes a whole number"),  # type: ignore[arg-type]
    "true as a number": (lambda: seed(True), "value is True; it takes a whole number"),
    "no finite number": (lambda: denoise(MODEL, TEXT, LATENTS, guidance=float("nan")), "guidance is nan"),
    "an unknown choice": (lambda: load_model(dtype="f64"), "dtype is 'f64'; choose one of auto"),  # type: ignore[arg-type]
    "no text to choose": (lambda: choose_text(" \n"), "one text a line"),
    "no noise levels": (lambda: sampler_options(sigmas="one"), "falling numbers"),
    "several sizes": (lambda: image_grid(flat(0), flat(0, width=8)), r"6 x 4, 8 x 4.*Resize Image"),
    "nothing to enlarge": (
        lambda: upscale_latents(load_model(), Latents(family="flux", width=64, height=64)),
        "set its size in Empty Latents",
    ),
}


def test_a_prompt_with_boxes_is_as_flux_3_reads_it() -> None:
    boxes = "cup_1 100 50 400 600 a red cup\n\nsky, 0, 0, 1000, 300: 'blue'"
    made = layout_prompt("A cup <cup_1> by a window. ", boxes=boxes)
    caption, table = made.split(" [", 1)
    assert caption == "A cup <cup_1> by a window."
    assert json.loads(f"[{table}") == [  # top, left, bottom, right
        {"id": "cup_1", "bbox": [50, 100, 600, 400], "desc": "a red cup"},
        {"id": "sky", "bbox": [0, 0, 300, 1000], "desc": "'blue'"},
    ]
    assert layout_prompt("As it is. ") == "As it is. "


@pytest.mark.parametrize(
    ("boxes", "words"),
    [
        ("cup 1 2 3 a cup", "boxes has the line 'cup 1 2 3 a cup'; write a name, four whole numbers"),
        ("1 2 3 4 5 a cup", "write a name, four whole numbers"),
        ("cup 1 2 3 4", "write a name, four whole numbers"),
        ("cup 400 0 100 50 a cup", "the box cup goes from 400 0 to 100 50; its left and top are below"),
        ("cup 0 0 1001 50 a cup", "all of them from 0 to 1000"),
        ("cup 0 0 1 1 a\ncup 0 0 1 1 b", "boxes has cup more than once; give each box a name of its own"),
    ],
)
def test_boxes_that_are_none_are_refused(boxes: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        layout_prompt("a", boxes=boxes)


@pytest.mark.parametrize("case", WRONG_ARGUMENTS)
def test_a_node_called_by_hand_names_the_argument_that_it_does_not_take(case: str) -> None:
    call, words = WRONG_ARGUMENTS[case]
    with pytest.raises(ValueError, match=words):
        call()


def test_a_node_called_by_hand_takes_paths_and_the_numbers_of_other_libraries(tmp_path: Path) -> None:
    name = save_image(flat(0.5), name="a", workspace=Workspace(output_dir=tmp_path)).files[0]
    assert load_image(Path(name)).pixels.shape == (1, 4, 6, 3)  # type: ignore[arg-type]
    assert seed(np.int64(7)) == 7  # type: ignore[arg-type]


def test_every_node_is_checked() -> None:
    assert [id for id, spec in SPECS.items() if not hasattr(spec.call, "__wrapped__")] == []


@pytest.mark.parametrize("id", ["LoomLoadImage", "LoomLoadLora"])
def test_a_pipe_is_refused_before_a_run_reads_it(id: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    fingerprint = SPECS[id].fingerprint
    assert fingerprint is not None
    with pytest.raises(ValueError, match=r"'pipe\.png' is a pipe or a device"):
        fingerprint({"path": "pipe.png"}, Workspace(roots=(tmp_path,)))


@pytest.mark.parametrize("id", ["LoomLoadImage", "LoomLoadLora"])
def test_a_file_far_longer_than_what_it_should_be_is_not_read_to_its_end(id: str, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    fingerprint = SPECS[id].fingerprint
    assert fingerprint is not None
    with pytest.raises(ValueError, match=r"1,099,511,627,776 bytes, more than a picture|header"):
        fingerprint({"path": "huge"}, Workspace(roots=(tmp_path,)))


def test_links_in_a_circle_are_no_input_and_no_output(tmp_path: Path) -> None:
    (tmp_path / "loop.png").symlink_to("loop.png")
    workspace = Workspace(output_dir=tmp_path, roots=(tmp_path,))
    with pytest.raises(ValueError, match=r"path 'loop\.png' does not exist"):
        load_image("loop.png", workspace=workspace)
    with pytest.raises(ValueError, match=r"loop\.png.* cannot be written"):
        save_image(flat(0.5), name="loop.png/a", workspace=workspace)


def test_resizing_keeps_to_the_limit_of_the_run() -> None:
    small = Workspace(max_pixels=100, host="command line")
    with pytest.raises(ValueError, match=r"11 x 10 pixels, more than the 100 that are made.*--max-pixels"):
        resize_image(flat(0.5), width=11, height=10, workspace=small)
    assert resize_image(flat(0.5), width=10, height=10, workspace=small).pixels.shape == (1, 10, 10, 3)
    with pytest.raises(ValueError, match="the grid would be"):
        image_grid(flat(0.5, batch=9), workspace=small)


def test_seed_wraps_instead_of_leaving_its_range() -> None:
    assert seed(2**64 - 1, offset=1) == 0
    assert seed(2**53 - 1, offset=1) == 2**53


def test_sigmas_are_read_from_text() -> None:
    assert sampler_options(sigmas="1, .5 0.25").sigmas == (1.0, 0.5, 0.25)


def test_grid_runs_row_by_row_over_all_inputs() -> None:
    sheet = image_grid(flat(0.0, batch=2), flat(0.5), columns=2, gap=1).pixels
    assert sheet.shape == (1, 9, 13, 3)
    assert sheet[0, 0, 0, 0] == 0
    assert sheet[0, 5, 0, 0] == 0.5
    assert sheet[0, 5, 7, 0] == 1  # nothing there: white


def test_cover_keeps_the_middle_and_contain_adds_black() -> None:
    assert resize_image(flat(0.5), width=16, height=8, fit="stretch").pixels.shape == (1, 8, 16, 3)
    assert resize_image(flat(1.0), width=16, height=4, fit="cover").pixels.min() > 0.999
    assert resize_image(flat(1.0), width=16, height=4, fit="contain").pixels.min() == 0


@pytest.mark.parametrize(("width", "height"), [(32, 32), (96, 40), (20, 64), (7, 5)])
def test_cover_equals_scaling_first_and_cutting_then_but_for_the_border_of(width: int, height: int) -> None:
    rows, columns = torch.linspace(0, 1, 48)[:, None], torch.linspace(0, 1, 64)[None, :]
    pixels = (0.5 + 0.3 * torch.sin(6 * rows + 4 * columns))[None, :, :, None].repeat(1, 1, 1, 3)
    scale = max(width / 64, height / 48)
    large = resize.stretch(pixels, max(width, round(64 * scale)), max(height, round(48 * scale)))
    top, left = (large.shape[1] - height) // 2, (large.shape[2] - width) // 2
    expected = large[:, top : top + height, left : left + width]
    assert (resize.cover(pixels, width, height) - expected).abs().max() < 0.05


@pytest.mark.parametrize(("wide", "tall"), [(100_000, 1), (1, 100_000)])
def test_cover_of_a_line_takes_no_more_memory_than_its_result(wide: int, tall: int) -> None:
    assert resize_image(flat(0.5, width=wide, height=tall), width=64, height=48).pixels.shape == (1, 48, 64, 3)


@pytest.mark.parametrize("fit", ["cover", "contain", "stretch"])
def test_a_size_beyond_reason_is_refused(fit: Any) -> None:
    with pytest.raises(ValueError, match="16384 x 16384 pixels, more than the 64,000,000 that are made"):
        resize_image(flat(0.5), width=16384, height=16384, fit=fit)


@pytest.mark.parametrize(("size", "scale"), [(4000, 16), (1000, 16)])
def test_a_grid_beyond_reason_is_refused_before_memory_is_asked_for(size: int, scale: int) -> None:
    tile = Image(pixels=torch.zeros(1, 1, 1, 3).expand(1, size, size, 3))
    with pytest.raises(ValueError, match=r"the grid would be \d+ x \d+ pixels.*use fewer or smaller pictures"):
        image_grid(tile, scale=scale)


def test_grid_enlarges_without_smoothing() -> None:
    sheet = image_grid(flat(0.0, width=1, height=1), flat(0.5, width=1, height=1), gap=0, scale=3).pixels
    assert sheet.shape == (1, 3, 6, 3)
    assert sheet[0, :, :3].max() == 0 and sheet[0, :, 3:].unique().tolist() == [0.5]


def test_batch_is_saved_with_numbers(tmp_path: Path) -> None:
    saved = save_image(flat(0, batch=12), name="a/b", workspace=Workspace(output_dir=tmp_path))
    assert [Path(f).name for f in saved.files][:2] == ["b-00.png", "b-01.png"]
    assert all(Path(f).is_file() for f in saved.files)


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "a/../../evil", "", ".", "x\0y", "a/.git/hooks/post", "link/evil"]
)
def test_save_stays_in_the_output_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="name inside the output folder"):
        save_image(flat(0), name=name, workspace=Workspace(output_dir=tmp_path / "out"))
    assert not list(tmp_path.rglob("*.png"))


@pytest.mark.parametrize("path", ["../secret.png", "link.png", "{outside}/secret.png"])
def test_load_stays_in_the_roots(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    save_image(flat(0), name="secret", workspace=Workspace(output_dir=tmp_path))
    root.mkdir()
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(ValueError, match="outside the allowed folders"):
        load_image(path.format(outside=tmp_path), workspace=Workspace(roots=(root,)))


@pytest.mark.parametrize(("host", "words"), [*ALLOW.items()])
def test_who_may_allow_a_folder_is_said_for_each_host(host: Any, words: str, tmp_path: Path) -> None:
    folders = "" if host == "page" else f" ({tmp_path})"  # which lie on the server
    with pytest.raises(ValueError, match=re.escape(f"outside the allowed folders{folders}; {words}")):
        load_image(str(Path(__file__)), workspace=Workspace(roots=(tmp_path,), host=host))
    assert ("--allow" in words) == (host == "command line")


def test_missing_picture_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'no\.png' does not exist \(looked in "):
        load_image("no.png", workspace=Workspace(roots=(tmp_path,)))


def test_saved_picture_loads_again(tmp_path: Path) -> None:
    save_image(flat(0.2), workspace=Workspace(output_dir=tmp_path))
    loaded = load_image("picture.png", workspace=Workspace(roots=(tmp_path,)))
    assert torch.allclose(loaded.pixels, torch.full_like(loaded.pixels, 0.2), atol=1 / 255)


@pytest.mark.parametrize("method", ["bicubic", "bilinear", "nearest"])
@pytest.mark.parametrize("shape", [(2, 16, 8, 12), (2, 16, 3, 8, 12)])
def test_upscaled_latents_are_each_frame_enlarged(method: str, shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    small = Latents(family="flux", width=96, height=64, batch=2, tensor=tensor)
    large = upscale_latents(load_model(), small, scale=2.0, method=method)  # type: ignore[arg-type]
    assert (large.width, large.height) == (192, 128)
    assert large.tensor is not None
    assert large.tensor.shape == (*shape[:-2], 16, 24)
    frames, wanted = large.tensor.movedim(1, -3).reshape(-1, 16, 16, 24), tensor.movedim(1, -3).reshape(-1, 16, 8, 12)
    smooth = {} if method == "nearest" else {"antialias": True, "align_corners": False}
    assert torch.equal(frames, torch.nn.functional.interpolate(wanted, size=(16, 24), mode=method, **smooth))
