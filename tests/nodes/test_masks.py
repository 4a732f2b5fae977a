"""Masks: from a picture's channel, grown and blurred, for outpainting, shown as pictures, and on ComfyUI's wires."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from latentloom.__main__ import main
from latentloom.nodes import blur_mask, crop_image, denoise, load_mask, outpaint, paste_image
from latentloom.nodes.execution.attempt import shown
from latentloom.nodes.execution.records import NodeRecord, RunResult
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.pipelines import placement
from latentloom.pipelines.requests import Denoise
from latentloom.pipelines.values import Conditioning, Image, Latents, Mask, Model
from support.alive import Alive
from support.previews import preview

ROOT = Path(__file__).resolve().parents[2]
COLOURS = np.array([[[255, 0, 0, 255], [0, 255, 0, 0]], [[0, 0, 255, 51], [255, 255, 255, 255]]], np.uint8)  # 2 2 4
EXPECTED = {
    "alpha": [[0.0, 1.0], [0.8, 0.0]],  # what is transparent is painted anew
    "red": [[1.0, 0.0], [0.0, 1.0]],
    "green": [[0.0, 1.0], [0.0, 1.0]],
    "blue": [[0.0, 0.0], [1.0, 1.0]],
    "luminance": [[76 / 255, 1.0], [210 / 255, 1.0]],  # over white, as Load Image shows it
}


def dot(height: int = 9, width: int = 9) -> Mask:
    pixels = torch.zeros(1, height, width)
    pixels[0, height // 2, width // 2] = 1
    return Mask(pixels=pixels)


# ---- Load Mask


@pytest.mark.parametrize("channel", EXPECTED)
def test_a_mask_is_the_channel_that_is_named(channel: Any, tmp_path: Path) -> None:
    Pillow.fromarray(COLOURS).save(tmp_path / "a.png")
    mask = load_mask("a.png", channel=channel, workspace=Workspace(roots=(tmp_path,)))
    torch.testing.assert_close(mask.pixels, torch.tensor([EXPECTED[channel]]), atol=0.003, rtol=0)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "I;16"])
def test_a_drawn_mask_of_any_mode_is_read_by_its_luminance(mode: str, tmp_path: Path) -> None:
    drawn = Pillow.fromarray(np.array([[0, 255], [255, 0]], np.uint8))
    made = Pillow.fromarray(np.array(drawn, np.uint16) * 257) if mode == "I;16" else drawn.convert(mode)
    made.save(tmp_path / "a.png")
    mask = load_mask("a.png", channel="luminance", workspace=Workspace(roots=(tmp_path,)))
    assert mask.pixels.tolist() == [[[0, 1], [1, 0]]]


@pytest.mark.parametrize(
    ("mode", "options"), [("RGB", {}), ("I;16", {}), ("I;16", {"transparency": 7})], ids=["RGB", "16 bits", "one grey"]
)
def test_a_picture_without_alpha_says_so(mode: str, options: dict[str, int], tmp_path: Path) -> None:
    Pillow.new(mode, (4, 4)).save(tmp_path / "a.png", **options)  # one grey of 16 bits may stand for what is not there
    with pytest.raises(ValueError, match=r"a\.png has no alpha channel.*choose another channel"):
        load_mask("a.png", workspace=Workspace(roots=(tmp_path,)))


# ---- Grow and Blur Mask


def test_a_mask_grows_shrinks_and_comes_back() -> None:
    grown = blur_mask(dot(), grow=2)
    assert grown.pixels.sum() == 25 and grown.pixels[0, 2:7, 2:7].min() == 1
    assert torch.equal(blur_mask(grown, grow=-2).pixels, dot().pixels)
    assert blur_mask(dot(), grow=-1).pixels.max() == 0
    assert blur_mask(Mask(pixels=torch.ones(1, 4, 4)), grow=-3).pixels.min() == 1  # nothing lies beyond the border


def test_a_blurred_edge_is_that_of_a_gaussian() -> None:
    edge = torch.zeros(2, 8, 64)
    edge[..., 32:] = 1
    soft = blur_mask(Mask(pixels=edge), blur=4.0).pixels
    expected = 0.5 * (1 + torch.erf((torch.arange(64) - 31.5) / (4 * 2**0.5)))
    torch.testing.assert_close(soft, expected.expand(2, 8, 64), atol=0.01, rtol=0)
    torch.testing.assert_close(blur_mask(Mask(pixels=edge.mT), blur=4.0).pixels, soft.mT)
    for narrow in (0.0, 1e-50):
        assert torch.equal(blur_mask(Mask(pixels=edge), blur=narrow).pixels, edge)
    wide = blur_mask(dot(), blur=170.0).pixels  # far wider than the mask itself
    assert wide.shape == (1, 9, 9) and 0 <= wide.min() <= wide.max() <= 1


# ---- Outpaint


def comfyui_mask(tall: int, wide: int, left: int, top: int, right: int, bottom: int, feathering: int) -> torch.Tensor:
    """By the rule of ComfyUI's ImagePadForOutpaint, pixel by pixel."""
    mask = torch.ones(top + tall + bottom, left + wide + right)
    inside = torch.zeros(tall, wide)
    for i in range(tall):
        for j in range(wide):
            rows = (i if top else tall, tall - i if bottom else tall)
            distances = (*rows, j if left else wide, wide - j if right else wide)
            if min(distances) < feathering:
                inside[i, j] = ((feathering - min(distances)) / feathering) ** 2
    mask[top : top + tall, left : left + wide] = inside
    return mask


@pytest.mark.parametrize("sides", [(3, 0, 5, 2), (0, 4, 0, 0), (0, 0, 0, 0)])
@pytest.mark.parametrize("feathering", [0, 4])
def test_outpainting_pads_and_masks_as_comfyui_does(sides: tuple[int, int, int, int], feathering: int) -> None:
    left, top, right, bottom = sides
    image = Image(pixels=torch.rand(2, 12, 10, 3))
    made, mask = outpaint(image, left=left, top=top, right=right, bottom=bottom, feathering=feathering)
    assert made.pixels.shape == (2, 12 + top + bottom, 10 + left + right, 3)
    assert torch.equal(made.pixels[:, top : top + 12, left : left + 10], image.pixels)
    assert made.pixels.sum().item() == pytest.approx(
        image.pixels.sum().item() + 0.5 * (made.pixels.numel() - image.pixels.numel()), rel=1e-5
    )
    torch.testing.assert_close(mask.pixels[0], comfyui_mask(12, 10, *sides, feathering))


def test_outpainting_keeps_to_the_limits() -> None:
    image = Image(pixels=torch.rand(1, 12, 10, 3))
    with pytest.raises(ValueError, match="feathering is 5, but the picture is 10 x 12; give less than half"):
        outpaint(image, left=1, feathering=5)
    with pytest.raises(
        ValueError, match=r"the picture would be 8202 x 8204 pixels, more than the 64,000,000.*add less"
    ):
        outpaint(image, left=8192, top=8192)


# ---- a part by itself, and put back


def test_what_was_painted_lies_where_it_was_taken_from_and_the_rest_stays_to_the_bit() -> None:
    below, mask = Image(pixels=torch.rand(1, 40, 30, 3)), torch.zeros(1, 40, 30)
    mask[:, 12:20, 10:20], mask[:, 20] = 1.0, 0.25
    painted = Image(pixels=torch.full((2, 64, 64, 3), 0.5))  # a square: 30 x 30 of the middle were encoded
    made = paste_image(painted, below, Mask(pixels=mask)).pixels
    assert made.shape == (2, 40, 30, 3) and torch.equal(
        made[:, mask[0] == 0], below.pixels[:, mask[0] == 0].repeat(2, 1, 1)
    )
    torch.testing.assert_close(made[:, 12:20, 10:20], torch.full((2, 8, 10, 3), 0.5))
    torch.testing.assert_close(made[:1, 20], below.pixels[:, 20] * 0.75 + 0.125)
    whole = paste_image(painted, below).pixels
    assert torch.equal(whole[:1, :5], below.pixels[:, :5]) and whole[:, 5:35].std() < 1e-6  # what the model never saw


def test_a_part_comes_back_to_its_place() -> None:
    below, mask = Image(pixels=torch.rand(1, 24, 32, 3)), Mask(pixels=torch.rand(1, 12, 16))
    place = {"left": 5, "top": 3, "width": 16, "height": 8}
    part, over = crop_image(below, mask, **place)
    assert torch.equal(part.pixels, below.pixels[:, 3:11, 5:21]) and over.pixels.shape == (1, 8, 16)
    assert torch.equal(paste_image(part, below, **place).pixels, below.pixels)
    dark = paste_image(Image(pixels=part.pixels * 0), below, **place).pixels
    assert dark[:, 3:11, 5:21].max() == 0 and torch.equal(dark[:, 11:], below.pixels[:, 11:])
    assert torch.equal(crop_image(below, left=8)[0].pixels, below.pixels[:, :, 8:])
    with pytest.raises(ValueError, match="the part is 30 x 24 pixels from 5, 0, but the picture is 32 x 24"):
        crop_image(below, left=5, width=30)
    with pytest.raises(ValueError, match="image is 1 of 4 channels and onto is 1 of 3 channels; give one picture"):
        paste_image(Image(pixels=torch.rand(1, 8, 8, 4)), below)
    with pytest.raises(ValueError, match="masks are 2 for 1 pictures; give one for all or one for each"):
        paste_image(below, below, Mask(pixels=torch.rand(2, 8, 8)))


def test_many_pictures_are_put_back_with_little_beside_them() -> None:
    below, painted = Image(pixels=torch.rand(1, 60, 80, 3)), Image(pixels=torch.rand(40, 3, 4, 3))
    with Alive() as live:
        made = paste_image(painted, below).pixels
    assert made.nbytes <= live.most < made.nbytes + 8 * below.pixels.nbytes
    assert torch.equal(made[:1], paste_image(Image(pixels=painted.pixels[:1]), below).pixels)


# ---- Denoise


def test_the_mask_is_scaled_over_the_picture_as_the_picture_was(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Denoise] = []
    monkeypatch.setattr(placement, "denoise", lambda request, *_, **__: asked.append(request))
    pixels = torch.zeros(1, 32, 128)
    pixels[..., :64] = 1
    model = Model(source="builtin:none", folder="", family="flux")
    text = Conditioning(family="flux", prompt="a", negative_prompt="", positive={})
    latents = Latents(family="flux", width=64, height=64, tensor=torch.zeros(1, 16, 8, 8))
    denoise(model, text, latents, mask=Mask(pixels=pixels))
    denoise(model, text, latents)
    assert asked[0].mask is not None and asked[1].mask is None
    assert asked[0].mask.pixels.shape == (1, 64, 64)  # the middle 32 x 32, scaled
    assert asked[0].mask.pixels[..., :31].min() == 1 and asked[0].mask.pixels[..., 33:].max() == 0


def masked_workflow(source: str) -> dict[str, Any]:
    plain = json.loads((ROOT / "workflows" / "bobbin" / "inpaint.json").read_text())
    plain["nodes"]["load_model"]["inputs"]["source"] = source
    return plain


def test_check_and_the_plan_say_that_a_family_takes_no_mask(
    tiny: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sentence = "Wan cannot keep a part of a picture and takes no mask; take the mask away"
    file = tmp_path / "inpaint.json"
    for name in ("picture.png", "middle.png"):
        Pillow.new("RGBA", (64, 64)).save(tmp_path / name)
    file.write_text(json.dumps(masked_workflow(str(tiny("wan")))))
    assert main(["check", str(file), "--set", f"load_model.source={tiny('wan')}"]) == 2
    assert f"denoise.mask: {sentence}" in capsys.readouterr().out
    assert main(["check", str(file), "--set", "load_model.source=builtin:bobbin"]) == 0
    assert main(["check", str(file), "--set", "load_model.source=nobody/has-it"]) == 2
    assert "load_model.source: model 'nobody/has-it' is not on this machine" in capsys.readouterr().out
    graph = graph_from_plain(masked_workflow(str(tiny("wan"))))
    [node] = preview(graph, {}, workspace=Workspace(roots=(tiny("wan"),)), machine=[])[0]
    assert node.problem.startswith(sentence)


# ---- hosts


def test_a_mask_that_a_run_gives_is_shown_as_a_picture(tmp_path: Path) -> None:
    made = outpaint(Image(pixels=torch.zeros(1, 4, 6, 3)), right=2)
    record = NodeRecord(key="", state="ok")
    result = RunResult(run="", state="ok", outputs={"larger": made}, nodes={"larger": record}, seconds=0.0)
    found, problem = shown(result, {}, Workspace(output_dir=tmp_path, claims={}))
    assert problem is None
    picture, mask = map(Path, found.nodes["larger"].files)
    assert (picture.name, mask.name) == ("larger.png", "larger_2.png")
    row = np.asarray(Pillow.open(mask))[0]
    assert row.tolist() == [[0, 0, 0]] * 6 + [[255, 255, 255]] * 2


def test_comfyui_gives_and_takes_its_own_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    node = NODE_CLASS_MAPPINGS["LoomBlurMask"]
    assert (node.INPUT_TYPES()["required"]["mask"][0], node.RETURN_TYPES) == ("MASK", ("MASK",))  # type: ignore[attr-defined]
    given = dot().pixels
    for theirs in (given, given[0], given[:, None]):  # B H W, and what some nodes give
        (found,) = node().run(mask=theirs, grow=1)
        assert found.shape == (1, 9, 9) and found.sum() == 9
    assert given.sum() == 1
    assert NODE_CLASS_MAPPINGS["LoomOutpaint"].RETURN_TYPES == ("IMAGE", "MASK")  # type: ignore[attr-defined]
    assert NODE_CLASS_MAPPINGS["LoomDenoise"].INPUT_TYPES()["optional"]["mask"][0] == "MASK"  # type: ignore[attr-defined]
