"""Run Pipeline's weights: those of a single file in the place of the folder's."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from latentloom.nodes import run_pipeline
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.check import check
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.models.source import BUILTINS
from latentloom.pipelines.whole import called
from latentloom.pipelines.whole.assembled import load_pipeline

SMALL: dict[str, Any] = {"prompt": "a red star", "height": 96, "width": 96, "num_inference_steps": 1}
WEIGHTS = BUILTINS["bobbin"] / "transformer" / "diffusion_pytorch_model.safetensors"


@pytest.fixture(autouse=True, scope="module")
def dropped() -> Iterator[None]:
    yield
    called.forget()


def problems_of(source: str, **inputs: Any) -> list[str]:
    node = {"type": "LoomRunPipeline", "version": 1, "inputs": {"source": source, "prompt": "a", **inputs}}
    graph = graph_from_plain({"format": 1, "name": "whole", "nodes": {"whole": node}})
    return [each.message for each in check(graph, SPECS, workspace=Workspace())]


def test_the_transformer_of_a_single_file_takes_the_place_of_the_folder_s(tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    save_file({name: weight.float() * 0.9 for name, weight in load_file(WEIGHTS).items()}, file)
    pipe = load_pipeline("builtin:bobbin", dtype="fp32")
    pipe.set_progress_bar_config(disable=True)
    with torch.no_grad():
        for weight in pipe.transformer.parameters():
            weight.copy_(weight * 0.9)
    wanted = pipe(**SMALL, generator=torch.Generator().manual_seed(3), output_type="np").images
    assert problems_of(f"{file}@builtin:bobbin") == []
    image, *_ = run_pipeline(f"{file}@builtin:bobbin", seed=3, **SMALL)
    assert torch.equal(image.pixels, torch.from_numpy(wanted))


def test_a_single_file_that_cannot_stand_for_the_transformer_is_refused(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    file = tmp_path / "t.safetensors"
    save_file({"w": torch.ones(1)}, file)
    (told,) = problems_of(f"{file}@{tiny('wan22')}")
    assert "is one transformer, but its base has 2; use a model folder instead" in told
    for source, words in (
        (f"{file}@{tiny('wan22')}", "its base has 2"),
        (f"{file}@builtin:bobbin", "component transf"),
    ):
        with pytest.raises(ValueError, match=words):
            run_pipeline(source, **SMALL, **({"pipeline": "WanPipeline"} if "wan" in source else {}))
