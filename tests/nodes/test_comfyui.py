"""The classes that ComfyUI gets: by its documented rules, and good for a picture."""

import asyncio
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import latentloom
from latentloom.nodes.comfyui import ComfyBorder
from latentloom.nodes.picture_files import read_metadata
from latentloom.nodes.registry import NODE_CLASS_MAPPINGS, SPECS
from latentloom.parallel.border import Cancelled

CASES = sorted(NODE_CLASS_MAPPINGS)


@pytest.mark.parametrize("id", CASES)
def test_class_has_what_comfyui_asks_of_a_node(id: str) -> None:
    node = latentloom.NODE_CLASS_MAPPINGS[id]
    sockets = node.INPUT_TYPES()
    assert set(sockets) <= {"required", "optional", "hidden"}
    assert callable(getattr(node(), node.FUNCTION))
    assert node.CATEGORY.startswith("latentloom/")
    assert len(node.RETURN_TYPES) == len(node.RETURN_NAMES)
    assert id in latentloom.NODE_DISPLAY_NAME_MAPPINGS
    names = [*sockets["required"], *sockets["optional"]]
    assert sorted(names) == sorted(socket.name for socket in SPECS[id].inputs)


@pytest.mark.parametrize("id", CASES)
def test_defaults_lie_in_their_own_ranges(id: str) -> None:
    sockets = NODE_CLASS_MAPPINGS[id].INPUT_TYPES()
    for kind, options in (sockets["required"] | sockets["optional"]).values():
        if isinstance(kind, list):
            assert options["default"] in kind
        elif "default" in options and kind in ("INT", "FLOAT"):
            assert options.get("min", -1e99) <= options["default"] <= options.get("max", 1e99)


def test_registry_is_a_plain_dict_that_scanners_can_read() -> None:
    text = (Path(latentloom.__file__).parent / "nodes" / "registry.py").read_text()
    body = text.split("NODE_CLASS_MAPPINGS = {", 1)[1].split("\n}", 1)[0]
    assert all(f'"{id}":' in body for id in NODE_CLASS_MAPPINGS)


def call(id: str, **inputs: Any) -> Any:
    """As ComfyUI's executor does: defaults of the widgets, then the method, under inference mode in a running loop."""
    node = NODE_CLASS_MAPPINGS[id]
    widgets = {n: o["default"] for n, (_, o) in node.INPUT_TYPES()["optional"].items() if "default" in o}

    async def run() -> Any:
        with torch.inference_mode():
            return getattr(node(), node.FUNCTION)(**widgets | inputs)

    return asyncio.run(run())


def test_picture_through_the_classes_equals_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from latentloom.nodes import decode, denoise, empty_latents, encode_text, load_model

    monkeypatch.chdir(tmp_path)
    (model,) = call("LoomLoadModel")
    (text,) = call("LoomEncodeText", model=model, prompt="a red star")
    (canvas,) = call("LoomEmptyLatents", model=model)
    (latents,) = call("LoomDenoise", model=model, conditioning=text, latents=canvas, seed=7)
    (picture,) = call("LoomDecode", model=model, latents=latents)
    assert picture.shape == (1, canvas.height, canvas.width, 3)  # ComfyUI's IMAGE
    saved = call("LoomSaveImage", image=picture)
    assert saved["ui"]["images"] == [{"filename": "picture.png", "subfolder": "", "type": "output"}]

    by_hand = load_model()
    latents = denoise(by_hand, encode_text(by_hand, "a red star"), empty_latents(by_hand), seed=7)
    assert torch.equal(decode(by_hand, latents).pixels, picture)


def test_saved_picture_carries_what_comfyui_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    picture = torch.zeros(1, 8, 8, 3)
    call("LoomSaveImage", image=picture, comfy_prompt={"1": {}}, comfy_extra={"workflow": {"nodes": ["ä"]}})
    metadata = read_metadata(tmp_path / "output" / "picture.png")
    assert metadata == {"prompt": '{"1": {}}', "workflow": '{"nodes": ["\\u00e4"]}'}


def test_changed_file_changes_what_comfyui_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    node: Any = NODE_CLASS_MAPPINGS["LoomLoadImage"]
    marks = []
    for content in (b"a", b"b", b"a"):
        Path("x.png").write_bytes(content)
        marks.append(node.IS_CHANGED(path="x.png"))
    assert marks[0] == marks[2] != marks[1]


@pytest.mark.parametrize(("id", "inputs"), [("LoomLoadImage", {}), ("LoomLoadImage", {"path": "gone.png"})])
def test_what_cannot_be_compared_yet_always_runs(id: str, inputs: dict[str, Any]) -> None:
    node: Any = NODE_CLASS_MAPPINGS[id]
    first, second = (node.IS_CHANGED(**inputs) for _ in range(2))
    assert first != second


def test_interrupt_of_the_host_ends_the_stage_and_reaches_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    class InterruptProcessingException(Exception):
        pass

    def interrupted() -> None:
        raise InterruptProcessingException

    comfy, management = types.ModuleType("comfy"), types.ModuleType("comfy.model_management")
    management.throw_exception_if_processing_interrupted = interrupted  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comfy", comfy)
    monkeypatch.setitem(sys.modules, "comfy.model_management", management)
    border = ComfyBorder()
    with pytest.raises(Cancelled):
        border.step(1, 4)
    with pytest.raises(InterruptProcessingException):
        border.raise_interrupt()
    with pytest.raises(InterruptProcessingException):
        call("LoomEncodeText", model=call("LoomLoadModel")[0], prompt="a red star")
