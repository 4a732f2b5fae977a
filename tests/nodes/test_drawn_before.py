"""Results that are older than the choice of noise: in half precision they are made again with what diffusers draws."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom.__main__ import main
from latentloom.nodes.execution.manifest import Told, told_by
from latentloom.nodes.files.picture_files import NOISE_KEY, VALUES_KEY, read_metadata, read_picture, write_picture
from latentloom.nodes.graph.graph import Graph
from latentloom.nodes.headless.workflow_files import SHIPPED, read_workflow

FIRST = SHIPPED / "bobbin" / "first_picture.json"
PROMPTS = SHIPPED / "bobbin" / "prompt_list.json"
BLACK = torch.zeros(8, 8, 3)


def carried(path: Path, workflow: dict[str, Any], *, key: str = "latentloom", **more: str) -> Graph:
    """What is read of a picture with this workflow."""
    write_picture(BLACK, path, {key: json.dumps(workflow), **more})
    return read_workflow(path)


def noise_of(graph: Graph) -> set[Any]:
    subs = [sub.nodes for sub in graph.subs.values()]
    nodes = [node for part in (graph.nodes, *subs) for node in part.values()]
    return {node.inputs.get("noise") for node in nodes if node.type in ("LoomDenoise", "LoomEncodeImage")}


def first(name: Path = FIRST, dtype: str = "", noise: str = "") -> dict[str, Any]:
    plain = json.loads(name.read_text())
    if dtype:
        plain["nodes"]["load_model"]["inputs"]["dtype"] = dtype
    if noise:
        plain["nodes"]["denoise"]["inputs"]["noise"] = noise
    return plain


def auto(dtype: str) -> dict[str, str]:
    return {VALUES_KEY: json.dumps({"load_model": {"dtype": dtype}})}


@pytest.mark.parametrize("workflow", [FIRST, PROMPTS], ids=lambda path: path.stem)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_one_that_shows_half_precision_is_made_by_diffusers_noise(workflow: Path, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    assert noise_of(carried(path, first(workflow, dtype))) == {"diffusers"}
    assert noise_of(carried(path, first(workflow), **auto(dtype))) == {"diffusers"}


@pytest.mark.parametrize(
    ("workflow", "told"),
    [
        (first(), {}),
        (first(), auto("fp32")),
        (first(dtype="fp32"), {}),
        (first(dtype="bf16"), {NOISE_KEY: "seed"}),
        (first(), {**auto("bf16"), NOISE_KEY: "seed"}),
        (first(dtype="bf16", noise="seed"), {}),
    ],
)
def test_one_in_fp32_or_that_knows_of_the_choice_is_left_as_it_is(
    workflow: dict[str, Any], told: dict[str, str], tmp_path: Path
) -> None:
    own = workflow["nodes"]["denoise"]["inputs"].get("noise")
    assert noise_of(carried(tmp_path / "one.png", workflow, **told)) == {own}


def test_a_file_of_text_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(first(dtype="bf16")))
    assert noise_of(read_workflow(tmp_path / "one.json")) == {None}


def test_a_picture_of_comfyui_is_one_too(tmp_path: Path) -> None:
    inputs = {"source": "builtin:bobbin", "dtype": "bf16"}
    prompt = {
        "1": {"class_type": "LoomLoadModel", "inputs": inputs},
        "2": {"class_type": "LoomEncodeImage", "inputs": {"model": ["1", 0], "image": ["3", 0]}},
        "3": {"class_type": "LoomLoadImage", "inputs": {"path": "a.png"}},
    }
    assert noise_of(carried(tmp_path / "one.png", prompt, key="prompt")) == {"diffusers"}
    assert noise_of(carried(tmp_path / "one.png", prompt, key="prompt", **{NOISE_KEY: "seed"})) == {None}


def test_pixels_come_again_of_old_results_and_of_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def made(file: Path, name: str, *options: str) -> tuple[str, torch.Tensor]:
        assert main(["run", str(file), "--out", name, *options]) == 0
        values = json.loads(Path(name, "manifest.json").read_text())["nodes"]["denoise"]["values"]
        return values["noise"], read_picture(Path(name, "picture.png"))

    small = [f"--set=empty_latents.{side}=64" for side in ("width", "height")]
    half = ["--set=denoise.steps=1", "--set=load_model.dtype=bf16", "--set=load_model.device=cpu", *small]
    _, new = made(FIRST, "new", *half)
    noise, again = made(Path("new/picture.png"), "again")
    assert noise == "seed" and torch.equal(again, new)
    metadata = read_metadata(Path("new/picture.png"))
    assert metadata.pop(NOISE_KEY) == "seed"  # as one that was made before has none
    write_picture(new[0], Path("old.png"), metadata)
    noise, again = made(Path("old.png"), "old")
    _, stock = made(FIRST, "stock", *half, "--set=denoise.noise=diffusers")
    assert noise == "diffusers" and torch.equal(again, stock)


# ---- the page's runs are told by their manifests


def told(folder: Path, dtype: str, **values: Any) -> Told:
    model = {"source": "", "family": "", "revision": "", "fingerprint": "", "dtype": dtype, "quantization": "none"}
    nodes = {"load_model": {"model": model}, "denoise": {"values": values, "stand_ins": []}}
    (folder / "manifest.json").write_text(json.dumps({"versions": {}, "nodes": nodes}))
    return told_by(folder)


@pytest.mark.parametrize(
    ("dtype", "values", "is_old"),
    [
        ("bf16", {"cache_threshold": 0.0}, True),
        ("fp16", {"cache_threshold": 0.0}, True),
        ("fp32", {"cache_threshold": 0.0}, False),
        ("bf16", {"cache_threshold": 0.0, "noise": "seed"}, False),
        ("bf16", {}, False),  # that came to nothing
    ],
)
def test_a_run_from_before_the_choice_is_known_by_its_manifest(
    dtype: str, values: dict[str, Any], is_old: bool, tmp_path: Path
) -> None:
    assert told(tmp_path, dtype, **values).is_drawn_by_diffusers is is_old
