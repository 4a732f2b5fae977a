"""Pipelines that make a safety checker of their own: refused where its package or files are not here, never without it,
and never with a network."""

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.signatures.table import class_names, signature_of
from latentloom.pipelines.whole import assembled, guarded
from latentloom.pipelines.whole.called import asked
from support.prepared import check

GUARDED = [name for name in class_names() if signature_of(name).guard]


class Cosmos2TextToImagePipeline:
    """Stands for diffusers' class: what it is made with, and whether the hub could be asked then."""

    _optional_components = ("safety_checker",)

    def __init__(self, safety_checker: Any = None, enable_safety_checker: bool = True) -> None:
        self.safety_checker, self.is_guarded, self.was_offline = safety_checker, enable_safety_checker, is_offline()

    def __call__(self) -> dict[str, bool]:
        return {"offline": is_offline()}


def is_offline() -> bool:
    return bool(constants.HF_HUB_OFFLINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a stranger who would rather have no safety checker."""
    index = {
        "_class_name": "Cosmos2TextToImagePipeline",
        "safety_checker": ["transformers", "CLIPTextModel"],
        "enable_safety_checker": False,
    }
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    return tmp_path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if package and files were here."""
    monkeypatch.setattr(guarded, "why_no_guard", lambda signature: "")
    monkeypatch.setattr(assembled, "why_no_guard", lambda signature: "")


@pytest.mark.parametrize("pipeline", [*GUARDED, "auto"])
def test_without_the_checker_a_workflow_is_refused_at_check(pipeline: str, folder: Path) -> None:
    inputs = {"source": str(folder), "pipeline": pipeline}
    node = {"type": "LoomRunPipeline", "version": 1, "inputs": inputs}
    graph = graph_from_plain({"format": 1, "name": "whole", "nodes": {"whole": node}})
    told = [each.message for each in check(graph, SPECS, workspace=Workspace())]
    wanted = "runs only with its safety checker, and not here are the package cosmos_guardrail, the files of nvidia/"
    assert any(wanted in each and "`pip install cosmos_guardrail`" in each for each in told), told
    assert len(GUARDED) == 7


def test_it_is_made_and_runs_without_a_network_and_never_without_its_checker(
    folder: Path, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembled, "pipeline_class", lambda name: Cosmos2TextToImagePipeline)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    made: Any = assembled.load_pipeline(str(folder), dtype="fp32")
    assert (made.safety_checker, made.is_guarded, made.was_offline) == (None, True, True)
    assert asked(made, {}) == {"offline": True}
    assert not is_offline()


def test_a_text_of_an_index_that_diffusers_takes_for_a_pattern_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class HunyuanDiTPAGPipeline:
        _optional_components = ()

        def __init__(self, pag_applied_layers: Any = "blocks.1") -> None:
            self.layers = pag_applied_layers

    monkeypatch.setattr(assembled, "pipeline_class", lambda name: HunyuanDiTPAGPipeline)

    def load(layers: Any) -> Any:
        index = {"_class_name": "HunyuanDiTPAGPipeline", "pag_applied_layers": layers}
        (folder / "model_index.json").write_text(json.dumps(index))
        return assembled.load_pipeline(str(folder), dtype="fp32")

    assert load(["blocks.1"]).layers == ["blocks.1"]
    with pytest.raises(ValueError, match=r"pag_applied_layers .* is not taken"):
        load(["([a-z_0-9.]+)+!"])
