"""Run Pipeline with masks, and with pictures and clips that hold at a place: by wires, also those of ComfyUI."""

import json
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

from latentloom.nodes import run_pipeline
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.nodes.steps.whole.node import choose
from latentloom.nodes.steps.whole.sockets import arguments_of
from latentloom.pipelines.signatures.table import conditioned, signature_of
from latentloom.pipelines.spreading.handed import from_wire, to_wire
from latentloom.pipelines.values import Image, Mask, Video
from zoo.pipelines import ltx
from zoo.pipelines.tiny import build


def pictures(count: int, *, width: int = ltx.WIDTH, height: int = ltx.HEIGHT) -> Image:
    return Image(pixels=torch.rand(count, height, width, 3, generator=torch.Generator().manual_seed(1)))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # diffusers' own
def test_pictures_at_their_frames_make_what_the_stock_pipeline_makes_of_conditions(tmp_path: Path) -> None:
    tiny = ltx.TINY["LTXConditionPipeline"]
    pipe = build(tiny)
    pipe.save_pretrained(tmp_path)
    text = {name: value for name, value in tiny.call().items() if name != "conditions"} | {"num_inference_steps": 1}
    wires = {"conditions": pictures(2), "conditions_index": [0, 16], "conditions_strength": [1.0, 0.5]}
    found = run_pipeline(str(tmp_path), **text, **wires)[1]
    first, last = ((each * 255).round().to(torch.uint8).numpy() for each in pictures(2).pixels)
    stock = [
        ltx.LTXVideoCondition(image=ltx_picture(first), frame_index=0),
        ltx.LTXVideoCondition(image=ltx_picture(last), frame_index=16, strength=0.5),
    ]
    wanted = pipe(**text, conditions=stock, generator=torch.Generator().manual_seed(0), output_type="np").frames
    assert np.array_equal(found.pixels.numpy(), wanted)


def ltx_picture(pixels: Any) -> Any:
    from PIL import Image as Pillow

    return Pillow.fromarray(pixels)


def test_each_class_gets_conditions_of_its_own_class() -> None:
    clip = Video(pixels=torch.rand(1, 9, 8, 8, 3), fps=24.0)
    given = {"prompt": "a", "conditions": pictures(2), "reference_conditions": clip, "conditions_index": [0, -1]}
    signature = signature_of("LTX2InContextPipeline")
    sent = from_wire(to_wire(arguments_of(signature, {**given, "reference_conditions_strength": [0.5]})))
    made = conditioned(object.__new__(diffusers.LTX2InContextPipeline), sent)
    assert [(type(each), each.index, each.strength) for each in made["conditions"]] == [
        (ltx.LTX2VideoCondition, 0, 1.0),
        (ltx.LTX2VideoCondition, -1, 1.0),
    ]
    (reference,) = made["reference_conditions"]
    assert type(reference) is ltx.LTX2ReferenceCondition
    assert len(reference.frames) == 9 and reference.strength == 0.5
    words = "conditions are 3 and conditions_index 2; give one for each, or none"
    with pytest.raises(ValueError, match=words):
        arguments_of(signature, {"prompt": "a", "conditions": pictures(3), "conditions_index": [0, 8]})


def test_the_sockets_of_conditions_and_masks_are_wires() -> None:
    spec = choose({"pipeline": "LTX2ConditionPipeline"})
    assert spec is not None
    kinds = {each.name: each.type for each in spec.inputs if each.name.startswith("conditions")}
    assert kinds == {"conditions": "Image", "conditions_index": "list[int]", "conditions_strength": "list[float]"}
    optional = NODE_CLASS_MAPPINGS["LoomRunPipeline"].INPUT_TYPES()["optional"]
    assert {name for name, each in optional.items() if each[0] == "MASK"} == {"control_mask", "mask", "mask_image"}
    assert optional["conditions"][0] == "IMAGE" and optional["reference_conditions"][0] == "LOOM_VIDEO"


def test_one_mask_holds_for_a_whole_clip_and_several_for_a_frame_each() -> None:
    clip, signature = Video(pixels=torch.rand(1, 5, 8, 8, 3), fps=16.0), signature_of("WanVACEPipeline")
    for count in (1, 5):
        mask = Mask(pixels=torch.ones(count, 8, 8))
        found = arguments_of(signature, {"prompt": "a", "video": clip, "mask": mask})
        assert len(found["mask"]) == 5 and {each.mode for each in found["mask"]} == {"L"}


def test_a_mask_of_comfyui_s_wire_is_that_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start, half = pictures(1, width=96, height=96), torch.zeros(1, 96, 96)
    half[..., 48:] = 1
    small: dict[str, Any] = {"height": 96, "width": 96, "num_inference_steps": 2, "strength": 1.0}
    given = {"pipeline": "FluxInpaintPipeline", "prompt": "a red star"}
    ours, *_ = run_pipeline("builtin:bobbin", **given, **small, image=start, mask_image=Mask(pixels=half))
    assert (ours.pixels[..., 64:, :] - start.pixels[..., 64:, :]).abs().max() > 0.1
    node: Any = NODE_CLASS_MAPPINGS["LoomRunPipeline"]()
    wires = {"image": start.pixels, "mask_image": half}
    pixels, *_ = node.run(source="builtin:bobbin", **given, **wires, arguments=json.dumps(small))
    assert torch.equal(pixels, ours.pixels)
