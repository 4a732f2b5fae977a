"""To ComfyUI's API format and back."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from latentloom.nodes.files.picture_files import write_picture
from latentloom.nodes.graph.problems import GraphError
from latentloom.nodes.headless.workflow_files import read_workflow
from latentloom.nodes.hosts.comfy_file import from_comfy, read_chunk
from latentloom.nodes.registry import SPECS
from support.prepared import to_comfy


@pytest.fixture
def graph(toys: ModuleType) -> Any:
    nodes = {
        "first": ("Number", {"value": 3}),
        "sum": ("Add", {"a": "@first.int", "b": 0.5}),
        "words": ("Echo", {"text": {"value": {"from": "a.b"}}, "mode": {"value": ["sum", 0]}}),
    }
    graph = toys.graph(nodes)
    titled = graph.nodes["sum"].model_copy(update={"title": "My sum"})
    return graph.model_copy(update={"nodes": {**graph.nodes, "sum": titled}})


def test_export_has_comfyui_s_shape(graph: Any, toys: ModuleType) -> None:
    prompt = to_comfy(graph, toys.SPECS)
    assert prompt["sum"] == {
        "class_type": "Add",
        "inputs": {"a": ["first", 0], "b": 0.5},
        "_meta": {"title": "My sum", "version": 1},
    }
    assert prompt["words"]["inputs"] == {"text": {"__value__": {"from": "a.b"}}, "mode": {"__value__": ["sum", 0]}}


def test_round_trip_is_identical(graph: Any, toys: ModuleType) -> None:
    prompt = json.loads(json.dumps(to_comfy(graph, toys.SPECS)))
    again = from_comfy(prompt, toys.SPECS, graph.name)
    assert to_comfy(again, toys.SPECS) == prompt
    assert list(again.nodes) == list(graph.nodes) and again.nodes["sum"] == graph.nodes["sum"]
    assert from_comfy(to_comfy(again, toys.SPECS), toys.SPECS, graph.name) == again


def test_params_become_values(toys: ModuleType) -> None:
    graph = toys.graph({"n": ("Number", {"value": "$v"})}, params={"v": {"type": "int", "default": 4}})
    assert to_comfy(graph, toys.SPECS)["n"]["inputs"] == {"value": 4}
    assert to_comfy(graph, toys.SPECS, {"v": 5})["n"]["inputs"] == {"value": 5}


def test_comfyui_s_own_ids_and_extra_keys_are_read(toys: ModuleType) -> None:
    prompt = {
        "3": {"class_type": "Number", "inputs": {"value": 1}, "is_changed": ["x"], "_meta": {"title": "N"}},
        "1:2": {"class_type": "Add", "inputs": {"a": ["3", 0], "b": 2}},
        "n3": {"class_type": "Number", "inputs": {}, "_meta": None},
    }
    graph = from_comfy(prompt, toys.SPECS)
    assert list(graph.nodes) == ["n3_0", "n1_2", "n3"]
    assert graph.nodes["n1_2"].inputs["a"].source == "n3_0.int"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([], "an object of nodes"),
        ({"nodes": [], "links": []}, r"Export \(API\)"),
        (
            {"1": {"class_type": "KSampler", "inputs": {}}, "2": {"class_type": "CLIP", "inputs": {}}},
            "(?s)'KSampler' is not ours.*'CLIP'",
        ),
        ({"1": 3}, "a node has a class_type"),
        ({"1": {"class_type": "Add", "inputs": 3}}, "they are an object"),
        ({"1": {"class_type": "Add", "inputs": {"a": ["9", 0]}}}, "n1.a: comes from node '9'"),
        ({"1": {"class_type": "Add", "inputs": {"a": ["1", 7]}}}, "comes from output 7"),
    ],
)
def test_what_cannot_be_imported_is_named(prompt: Any, words: str, toys: ModuleType) -> None:
    with pytest.raises(GraphError, match=words):
        from_comfy(prompt, toys.SPECS)


def test_marks_that_comfyui_leaves_in_a_picture_may_be_nan_and_nothing_else_may(tmp_path: Path) -> None:
    import torch

    chunk = '{"1": {"class_type": "LoomSeed", "inputs": {"value": 7}, "is_changed": [NaN]}}'
    write_picture(torch.zeros(8, 8, 3), tmp_path / "x.png", {"prompt": chunk})
    assert read_workflow(tmp_path / "x.png").nodes["n1"].inputs == {"value": 7}
    with pytest.raises(GraphError, match="NaN is not a number"):
        read_chunk(chunk.replace("7", "NaN"))
    (tmp_path / "x.json").write_text(chunk)
    with pytest.raises(GraphError, match="NaN is not a number"):
        read_workflow(tmp_path / "x.json")


def test_titles_that_only_comfyui_s_page_shows_are_not_taken_over() -> None:
    titles = {"1": "Save Image (latentloom)", "2": "My own (latentloom)"}
    prompt = {key: {"class_type": "LoomSaveImage", "_meta": {"title": title}} for key, title in titles.items()}
    assert [node.title for node in from_comfy(prompt, SPECS).nodes.values()] == ["", "My own (latentloom)"]
