"""Reference pictures: gathered in order, wired to Encode Text, and refused before anything is loaded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image as Pillow

from latentloom.__main__ import main
from latentloom.nodes import empty_latents, reference_pictures
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.pipelines import placement, stages
from latentloom.pipelines.families.row import pictures
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.requests import EncodeText
from latentloom.pipelines.values import Image, References
from support.previews import preview

ROOT = Path(__file__).resolve().parents[2]
Tiny = Callable[[str], Path]


def flat(value: float, *, number: int = 1, height: int = 64, width: int = 96, channels: int = 3) -> Image:
    return Image(pixels=torch.full((number, height, width, channels), value))


def workflow(source: Path, *, references: bool = True) -> dict[str, Any]:
    plain = json.loads((ROOT / "workflows" / "qwen_image_edit" / "qwen_image_edit_plus.json").read_text())
    plain["params"]["source"]["default"] = str(source)
    if not references:
        del plain["nodes"]["encode_text"]["inputs"]["references"]
    return plain


# ---- the node


def test_pictures_keep_their_order_and_their_sizes_and_each_of_a_batch_counts() -> None:
    first = reference_pictures(flat(0.1), flat(0.2, number=2, height=80))
    both = reference_pictures(flat(0.3), image_4=flat(0.4), before=first)
    assert [round(float(each.mean()), 1) for each in both.pictures] == [0.1, 0.2, 0.2, 0.3, 0.4]
    assert [tuple(each.shape) for each in both.pictures][:2] == [(64, 96, 3), (80, 96, 3)]


def test_a_canvas_may_have_the_shape_of_a_picture(tiny: Tiny) -> None:
    model = describe_model(str(tiny("flux_2_klein")), device="cpu")
    found = empty_latents(model, like=flat(0.5, width=128))
    assert (found.width, found.height) == (1456, 720)
    assert empty_latents(model, width=64, height=48, like=flat(0.5)).width == 64


def test_comfyui_has_a_wire_of_its_own_for_them() -> None:
    node = NODE_CLASS_MAPPINGS["LoomReferencePictures"]
    assert node.RETURN_TYPES == ("LOOM_REFERENCES",)  # type: ignore[attr-defined]
    (made,) = node().run(image=flat(0.5).pixels)
    assert len(made.pictures) == 1
    assert NODE_CLASS_MAPPINGS["LoomEncodeText"].INPUT_TYPES()["optional"]["references"][0] == "LOOM_REFERENCES"  # type: ignore[attr-defined]


# ---- what is refused

NONE_TAKEN = (
    "Krea 2 takes no reference pictures; take them away, or choose a model of one of these families: Qwen-Image 2"
)


@pytest.mark.parametrize(
    ("family", "pictures", "words"),
    [
        ("krea_2", flat(0.5), NONE_TAKEN),
        ("qwen_image_edit", flat(0.5, number=2), "Qwen-Image-Edit takes one reference picture, but got 2"),
        (
            "qwen_image_edit_plus",
            None,
            "takes 1 to 3 reference pictures, but got none; give them to Encode Text, by Ref",
        ),
        (
            "flux_2",
            flat(0.5, height=48),
            "reference picture 1 is 96 x 48; give one of at least 64 pixels a side, at most",
        ),
        (
            "flux_2",
            flat(0.5, width=640),
            "reference picture 1 is 640 x 64; give one of at least 64 pixels a side, at mos",
        ),
        ("flux_2", flat(0.5, channels=2), "reference picture 1 is 64 x 96 x 2; give height x width x 3, or 4"),
    ],
)
def test_pictures_that_a_model_cannot_look_at_are_refused_before_it_is_loaded(
    family: str, pictures: Image | None, words: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_loaded", lambda *args, **kwargs: pytest.fail("something was loaded"))
    model = describe_model(str(tiny(family)), device="cpu")
    seen = References(pictures=tuple(pictures.pixels)) if pictures else None
    for encode in (stages.encode_text, placement.encode_text):
        with pytest.raises(ValueError, match=words):
            encode(EncodeText(model=model, prompt="a", references=seen))


def test_a_model_that_looks_at_pictures_paints_over_none(tiny: Tiny) -> None:
    model = describe_model(str(tiny("flux_2")), device="cpu")
    with pytest.raises(
        ValueError, match=r"FLUX\.2 starts from noise and looks at pictures beside it; give this one to Ref"
    ):
        stages.encode_image(model=model, image=flat(0.5))


def test_check_and_the_plan_say_what_a_model_does_not_take(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("picture.png", "second.png"):
        Pillow.new("RGB", (64, 64)).save(tmp_path / name)
    file = tmp_path / "edit.json"
    for source, references, sentence in (
        (tiny("krea_2"), True, NONE_TAKEN),
        (tiny("qwen_image_edit"), True, "Qwen-Image-Edit takes one reference picture, but got 2"),
        (tiny("qwen_image_edit"), False, "Qwen-Image-Edit takes one reference picture, but got none"),
    ):
        plain = workflow(source, references=references)
        file.write_text(json.dumps(plain))
        assert main(["check", str(file), "--models-dir", str(source.parent)]) == 2
        assert f"denoise.conditioning: {sentence}" in capsys.readouterr().out
        [node] = preview(graph_from_plain(plain), {}, workspace=Workspace(roots=(source,)), machine=[])[0]
        assert node.problem.startswith(sentence)
    file.write_text(json.dumps(workflow(tiny("flux_2"))))
    assert main(["check", str(file), "--models-dir", str(tiny("flux_2").parent)]) == 0


def test_a_plan_counts_the_tokens_of_pictures(tiny: Tiny) -> None:
    needs = []
    for references in (True, False):
        graph = graph_from_plain(workflow(tiny("flux_2"), references=references))
        small = {"width": 64, "height": 64}  # a large one needs more to be decoded
        [node] = preview(graph, small, workspace=Workspace(roots=(tiny("flux_2"),)), machine=[])[0]
        needs.append(node.ranks[0]["bytes"])
    assert needs[0] > needs[1]


@pytest.mark.parametrize(("channels", "mode", "value"), [(3, "RGB", 191), (4, "RGBA", 64)])
def test_what_is_transparent_stays_so_for_a_vae_that_knows_it_and_is_white_for_others(
    channels: int, mode: str, value: int
) -> None:
    picture = torch.tensor([0.25, 0.25, 0.25, 1 / 3]).expand(64, 64, 4)
    [found] = pictures([picture], {"in_channels": channels})
    assert (found.mode, found.getpixel((0, 0))[0]) == (mode, value)
