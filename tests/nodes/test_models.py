"""Load Model and Load LoRA: what a cache compares names the content and the place, and files of version 1 open."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.graph.resolve import resolve
from latentloom.nodes.registry import SPECS
from latentloom.nodes.steps.models import lora_fingerprint, model_fingerprint
from support.prepared import check


def test_a_copy_of_a_model_has_another_fingerprint(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    copy = shutil.copytree(tiny("flux"), tmp_path / "copy", copy_function=os.link)
    options: dict[str, Any] = {"revision": "", "dtype": "auto", "device": "cpu", "quantization": "none"}
    first, second = (model_fingerprint({"source": str(f), **options}, Workspace()) for f in (tiny("flux"), copy))
    assert first != second and first.split()[0] == second.split()[0]


def test_a_copy_of_a_lora_has_another_fingerprint(tmp_path: Path) -> None:
    marks = []
    for name in ("a", "b"):
        save_file({"x.lora_A.weight": torch.zeros(1)}, tmp_path / f"{name}.safetensors")
        marks.append(lora_fingerprint({"path": str(tmp_path / f"{name}.safetensors")}, Workspace()))
    assert marks[0] != marks[1] and marks[0].split()[0] == marks[1].split()[0]


def first_version(inputs: dict[str, Any], **parts: Any) -> Any:
    nodes = {"load": {"type": "LoomLoadModel", "version": 1, "inputs": inputs}}
    return graph_from_plain({"format": 1, "name": "old", "nodes": nodes, **parts})


@pytest.mark.parametrize(
    ("old", "engine", "graphs"),
    [
        ({}, "eager", "auto"),
        ({"compiled": False, "cuda_graph": False}, "eager", "auto"),
        ({"compiled": True}, "inductor", "auto"),
        ({"cuda_graph": True}, "eager", "on"),
        ({"compiled": True, "cuda_graph": True}, "inductor", "on"),
        ({"compiled": True, "engine": "eager"}, "eager", "auto"),  # as a run's own value stands in what it made
    ],
)
def test_a_file_with_compiled_and_cuda_graph_opens_with_equal_values(
    old: dict[str, bool], engine: str, graphs: str
) -> None:
    found = ready(first_version({"dtype": "bf16", **old}), SPECS)
    values = resolve(found.graph, found.specs)["load"].values
    assert not found.problems and (values["dtype"], values["engine"], values["graphs"]) == ("bf16", engine, graphs)


@pytest.mark.parametrize(("given", "engine"), [({}, "inductor"), ({"fast": False}, "eager")])
def test_a_param_that_went_to_compiled_still_decides(given: dict[str, bool], engine: str) -> None:
    params = {"fast": {"type": "bool", "default": True}}
    found = ready(first_version({"compiled": {"param": "fast"}}, params=params), SPECS, given)
    assert not found.problems and found.graph.nodes["load"].inputs["engine"] == engine


def test_a_wire_to_compiled_is_refused_with_what_to_write() -> None:
    nodes = {
        "load": {"type": "LoomLoadModel", "version": 1, "inputs": {"compiled": {"from": "yes.bool"}}},
        "yes": {"type": "LoomBoolean", "version": 1, "inputs": {"value": True}},
    }
    graph = graph_from_plain({"format": 1, "name": "old", "nodes": nodes})
    [problem] = [each for each in check(graph, SPECS, workspace=HERE) if each.node == "load"]
    assert problem.code == "no_migration" and "write eager or inductor" in problem.message
