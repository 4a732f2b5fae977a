"""What `check` knows of a workflow's models: what one of them does not take is told before anything runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom.nodes import decode_video, run_pipeline
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.preview.walk import Walk, refused
from latentloom.nodes.registry import SPECS
from latentloom.pipelines import placement, stages
from latentloom.pipelines.families.row import pictures
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.requests import Stage
from latentloom.pipelines.settling import RULES
from latentloom.pipelines.signatures.table import signature_of
from latentloom.pipelines.values import Image, Latents, References
from support.prepared import run

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
H3, EDIT = "minimax_h3/minimax_h3_image_to_video.json", "flux_2/flux_2_edit.json"
TWO = "ltx_25/ltx_25_image_two_passes.json"
Tiny = Callable[[str], Path]


def told(file: str, source: Path, changed: dict[str, Any], overrides: dict[str, Any]) -> list[str]:
    plain = json.loads((WORKFLOWS / file).read_text())
    plain["params"]["source"]["default"] = str(source)
    for name, value in changed.items():
        node, _, socket = name.partition(".")
        inputs = plain["nodes"][node]["inputs"]
        inputs.pop(socket) if value is None else inputs.update({socket: value})
    plain["nodes"]["how"] = {"type": "LoomSamplerOptions", "version": 1, "inputs": {}}
    found = refused(Walk(ready(graph_from_plain(plain), SPECS, overrides), workspace=Workspace(roots=(source,))))
    return [f"{each.node}.{each.socket}: {each.message}" for each in found if each.code != "no_file"]


@pytest.mark.parametrize(
    ("file", "family", "changed", "overrides", "words"),
    [
        (H3, "minimax_h3", {"encode_text.first_frame": None}, {}, "denoise.latents: Denoise has a first frame, and En"),
        (H3, "minimax_h3", {"encode_text.text_length": 5}, {}, "encode_text.text_length: text length 5: MiniMax H3 re"),
        (H3, "minimax_h3", {}, {"steps": 1}, "denoise.steps: steps is 1; MiniMax H3 needs 2 or more"),
        (H3, "minimax_h3", {"denoise.sampling": {"from": "how.sampling"}}, {"steps": 1}, "denoise.steps: steps is 1"),
        (H3, "minimax_h3", {}, {"frames": 100}, "encode_image.frames: frames is 100; "),
        (H3, "minimax_h3", {}, {"width": 50, "height": 32}, "encode_image.width: 50 x 32 is no size that "),
        (H3, "minimax_h3", {"encode_image.fps": 30.0}, {}, "encode_image.fps: fps is 30, but MiniMax H3 makes 24 fra"),
        (
            "minimax_h3/minimax_h3.json",
            "minimax_h3",
            {},
            {"prompt": ""},
            "encode_text.prompt: the prompt is empty, and M",
        ),
        (TWO, "ltx_25_larger", {"second_pass.sampling": None}, {}, "second_pass.sampling: LTX-2 got finished latents"),
        (TWO, "ltx_25", {}, {}, "upscale.model: "),
        (H3, "ltx", {}, {}, "encode_image.model: LTX-Video makes videos from text only here"),
        (H3, "wan_i2v", {}, {}, "encode_text.first_frame: Wan reads the text alone; take first_frame away from Encode"),
        (H3, "wan_i2v", {}, {}, "decode_audio.model: Wan makes no sound; take Decode Audio away"),
        (H3, "flux_2", {}, {}, "decode.model: "),
        (EDIT, "ltx", {}, {}, "decode.model: "),
        (EDIT, "flux_2", {}, {"width": 50, "height": 48}, "empty_latents.width: 50 x 48 is no size that "),
    ],
)
def test_what_a_model_does_not_take_is_told_at_the_socket(
    file: str, family: str, changed: dict[str, Any], overrides: dict[str, Any], words: str, tiny: Tiny
) -> None:
    found = told(file, tiny(family), changed, overrides)
    assert any(each.startswith(words) for each in found), found


@pytest.mark.parametrize(
    ("stage", "type"),
    [
        ("encode_text", "LoomEncodeText"),
        ("encode_image", "LoomEncodeImage"),
        ("denoise", "LoomDenoise"),
        ("upscale", "LoomUpscaleByModel"),
        ("decode", "LoomDecode"),
        ("decode_audio", "LoomDecodeAudio"),
    ],
)
def test_what_a_stage_refuses_has_a_socket_at_its_node(stage: Stage, type: str) -> None:
    assert {field for field, _ in RULES[stage]} <= {socket.name for socket in SPECS[type].inputs}


def test_two_models_of_which_one_reads_the_text_are_told(tiny: Tiny) -> None:
    plain = json.loads((WORKFLOWS / EDIT).read_text())
    plain["params"]["source"]["default"] = str(tiny("flux_2"))
    plain["nodes"]["other"] = {"type": "LoomLoadModel", "version": 1, "inputs": {"source": "builtin:bobbin"}}
    for node in ("denoise", "decode"):
        plain["nodes"][node]["inputs"]["model"] = {"from": "other.model"}
    found = list(refused(Walk(ready(graph_from_plain(plain), SPECS), workspace=Workspace(roots=(tiny("flux_2"),)))))
    told = [each for each in found if each.code != "no_file"]
    assert [(each.node, each.socket) for each in told] == [("denoise", "conditioning"), ("denoise", "latents")]
    assert "the text was encoded with FLUX.2 (flux_2), but the model is FLUX.1 (flux)" in told[0].message


def test_shipped_workflows_ask_their_models_for_nothing_that_they_do_not_take(tiny: Tiny) -> None:
    assert not told(H3, tiny("minimax_h3"), {}, {"steps": 50, "frames": 141, "width": 48, "height": 32})
    assert not told(EDIT, tiny("flux_2"), {}, {"width": 64, "height": 48})
    assert not told("ltx_2/ltx_2_image_to_video.json", tiny("ltx_2"), {}, {"width": 64, "height": 64})
    assert not told(TWO, tiny("ltx_25_larger"), {}, {"width": 64, "height": 64})
    for name in ("references", "continuation"):
        assert not told(f"minimax_h3/minimax_h3_{name}.json", tiny("minimax_h3"), {}, {"width": 48, "height": 32})


def test_pictures_for_a_model_without_the_transformer_for_them_are_told_before_a_run(
    tiny: Tiny, tmp_path: Path
) -> None:
    ignored = shutil.ignore_patterns("transformer_ref")
    folder = Path(shutil.copytree(tiny("minimax_h3"), tmp_path / "h3", ignore=ignored))
    found = told("minimax_h3/minimax_h3_references.json", folder, {}, {"width": 48, "height": 32})
    assert any("MiniMax H3 looks at reference pictures with transformer_ref, which" in each for each in found), found


def test_decode_video_of_pictures_decodes_none(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_loaded", lambda *args, **kwargs: pytest.fail("something was loaded"))
    latents = Latents(family="flux", width=64, height=64, tensor=torch.zeros(1, 16, 8, 8))
    with pytest.raises(ValueError, match="builtin:bobbin makes pictures; use Decode instead of Decode Video"):
        decode_video(describe_model("builtin:bobbin", device="cpu"), latents)


def test_a_text_length_and_a_second_first_frame_are_refused_before_anything_is_loaded(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_loaded", lambda *args, **kwargs: pytest.fail("something was loaded"))
    h3 = describe_model(str(tiny("minimax_h3")), device="cpu")
    with pytest.raises(ValueError, match="text length 5: MiniMax H3 reads all of a text"):
        stages.encode_text(model=h3, prompt="a", text_length=5)
    with pytest.raises(ValueError, match="the prompt is empty, and MiniMax H3 adds nothing to a text; write one, or"):
        stages.encode_text(model=h3, prompt="")
    with pytest.raises(ValueError, match="2 first frames: MiniMax H3 reads a text with one"):
        stages.encode_image(model=h3, image=Image(pixels=torch.zeros(2, 32, 48, 3)))


def test_a_picture_beyond_white_stays_white_and_one_of_nan_is_refused(tiny: Tiny) -> None:
    [found] = pictures([torch.full((64, 64, 3), 1.01)], {})
    assert found.getpixel((0, 0)) == (255, 255, 255)
    model = describe_model(str(tiny("flux_2")), device="cpu")
    seen = References(pictures=(torch.full((64, 64, 3), torch.nan),))
    with pytest.raises(ValueError, match="reference picture 1 has values that are no numbers"):
        placement.encode_text(stages.EncodeText(model=model, prompt="a", references=seen))


def test_a_run_starts_no_node_of_a_workflow_whose_decoder_its_model_lacks(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_loaded", lambda *args, **kwargs: pytest.fail("something was loaded"))
    plain = json.loads((WORKFLOWS / "bobbin" / "first_picture.json").read_text())
    [decode] = [name for name, node in plain["nodes"].items() if node["type"] == "LoomDecode"]
    plain["nodes"]["sound"] = {
        "type": "LoomDecodeAudio",
        "version": 1,
        "inputs": {name: plain["nodes"][decode]["inputs"][name] for name in ("model", "latents")},
    }
    plain["nodes"]["save_sound"] = {"type": "LoomSaveAudio", "version": 1, "inputs": {"audio": {"from": "sound.audio"}}}
    made = run(graph_from_plain(plain), SPECS, workspace=Workspace(output_dir=tmp_path))
    assert made.state == "failed" and list(made.nodes) == ["sound"]
    assert made.nodes["sound"].message.startswith("FLUX.1 makes no sound; take Decode Audio away")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"lora_scales": [1.0]}, "run_pipeline.lora_scales: loras are 0 and lora_scales 1; give one for each"),
        ({"plan": "ulyses=2"}, "run_pipeline.plan: "),
    ],
)
def test_run_pipeline_is_checked_for_what_its_sockets_say_together(changed: dict[str, Any], words: str) -> None:
    plain = json.loads((WORKFLOWS / "bobbin" / "run_pipeline.json").read_text())
    plain["nodes"]["run_pipeline"]["inputs"] |= changed
    [found] = refused(Walk(ready(graph_from_plain(plain), SPECS), workspace=Workspace()))
    assert f"{found.node}.{found.socket}: {found.message}".startswith(words)


@pytest.mark.parametrize("entry", [5, ["diffusers"], {"a": 1}, [None, 5]])
def test_an_index_of_nonsense_fits_or_not_without_a_crash(entry: Any) -> None:
    assert signature_of("FluxPipeline").why_not_of({"_class_name": "Mine", "transformer": entry}) == ""


def test_a_class_that_is_not_in_the_table_is_not_offered_to_run_pipeline() -> None:
    index = {"_class_name": "SanaWMModularPipeline", "transformer": ["diffusers", "SanaWMTransformer3DModel"]}
    assert (
        signature_of("FluxPipeline").why_not_of(index).endswith("takes a FluxTransformer2DModel; choose another model")
    )


def test_run_pipeline_paints_over_no_picture_of_nan() -> None:
    nothing = Image(pixels=torch.full((1, 64, 64, 3), torch.nan))
    with pytest.raises(ValueError, match="a picture has values that are no numbers"):
        run_pipeline("builtin:bobbin", pipeline="FluxImg2ImgPipeline", prompt="a", image=nothing)
