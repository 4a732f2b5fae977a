"""The manifest says what a run was given and made, and whether that still holds."""

import hashlib
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from latentloom.nodes.execution.manifest import Told, is_complete, manifest, told_by, write_manifest
from latentloom.nodes.execution.records import NodeRecord
from latentloom.nodes.execution.run import RunResult
from latentloom.nodes.files.workspace import Workspace
from latentloom.parallel.machine.deadline import within
from latentloom.parallel.progress import RankWork
from latentloom.pipelines.values import Image
from support.prepared import run

NODES = {"p": ("Picture", {"value": "$v"}), "s": ("Save", {"image": "@p.image"})}


@pytest.fixture
def made(toys: ModuleType, tmp_path: Path) -> tuple[Any, RunResult]:
    graph = toys.graph(NODES, params={"v": {"type": "int", "default": 5}}, outputs={"picture": "p.image"})
    result = run(graph, toys.SPECS, workspace=Workspace(output_dir=tmp_path))
    write_manifest(tmp_path, graph, result, {})
    return graph, result


def test_manifest_lists_files_params_nodes_and_versions(made: tuple[Any, RunResult], tmp_path: Path) -> None:
    plain = json.loads((tmp_path / "manifest.json").read_text())
    sha256 = hashlib.sha256((tmp_path / "picture.bin").read_bytes()).hexdigest()
    assert plain["outputs"] == [
        {"node": "s", "type": "Saved", "path": "picture.bin", "sha256": sha256},
        {"name": "picture", "type": "Image"},
    ]
    assert plain["params"] == {"v": 5} and plain["plan"] is None and plain["devices"]
    assert set(plain["nodes"]["p"]) == {"key", "state", "cached", "seconds", "peak_memory_bytes", "values", "stand_ins"}
    assert plain["versions"].keys() >= {"python", "latentloom", "torch", "diffusers", "transformers", "pillow"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["manifest.json", "picture.bin"]


def test_lists_and_numbers_are_told_as_json_has_them_and_other_values_by_their_type(
    toys: ModuleType, tmp_path: Path
) -> None:
    endless: list[Any] = []
    endless.append(endless)
    made = {
        "list": ["a", 1, (True, None, 0.5)],
        "by name": {"mean": float("inf")},
        "half a character": "\ud83d",
        "pictures": [Image(pixels=torch.zeros(1, 1, 1, 3))],
        "endless": endless,
        "huge": 10**5000,
    }
    result = RunResult(run="", state="ok", outputs=made, nodes={}, seconds=0.0)
    write_manifest(tmp_path, toys.graph({}), result, {})
    told = json.loads((tmp_path / "manifest.json").read_text())["outputs"]
    assert told == [
        {"name": "list", "type": "list", "value": ["a", 1, [True, None, 0.5]]},
        {"name": "by name", "type": "dict", "value": {"mean": "inf"}},
        {"name": "half a character", "type": "str", "value": "\\ud83d"},
        *({"name": name, "type": kind} for name, kind in (("pictures", "list"), ("endless", "list"), ("huge", "int"))),
    ]


def test_what_a_self_check_found_is_told_once_of_its_node(toys: ModuleType, tmp_path: Path) -> None:
    ranks = tuple(RankWork(rank=rank, device="cpu", seconds=1.0, known="checked") for rank in range(2))
    nodes = {"d": NodeRecord(key="k", state="ok", ranks=ranks), "e": NodeRecord(key="k", state="ok", ranks=())}
    result = RunResult(run="", state="ok", outputs={}, nodes=nodes, seconds=0.0)
    told = manifest(tmp_path, toys.graph({}), result, {})
    assert told["nodes"]["d"]["self_check"] == "checked" and "self_check" not in told["nodes"]["e"]
    assert [rank["rank"] for rank in told["nodes"]["d"]["ranks"] if "known" not in rank] == [0, 1]


def test_a_pipe_in_place_of_a_manifest_is_not_waited_for(
    made: tuple[Any, RunResult], toys: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "manifest.json").unlink()
    os.mkfifo(tmp_path / "manifest.json")
    assert within(lambda: told_by(tmp_path), timeout_s=10) == Told()
    assert not within(lambda: is_complete(tmp_path, made[0], {}), timeout_s=10)


def test_complete_means_same_workflow_and_unchanged_files(
    made: tuple[Any, RunResult], toys: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, result = made
    keys = {name: record.key for name, record in result.nodes.items()}
    assert is_complete(tmp_path, graph, keys)
    with monkeypatch.context() as patch:
        patch.setattr("latentloom.nodes.execution.manifest.versions", lambda: {"torch": "1.0"})
        assert not is_complete(tmp_path, graph, keys)
    assert not is_complete(tmp_path, toys.graph({}), keys)
    assert not is_complete(tmp_path, graph, {**keys, "p": "of another input"})
    (tmp_path / "picture.bin").write_bytes(b"edited")
    assert not is_complete(tmp_path, graph, keys)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"state": "ok"}', "null", "\x00", '{"state": "ok", "workflow": 3}'])
def test_a_damaged_manifest_is_not_complete(text: str, toys: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    assert not is_complete(tmp_path, toys.graph({}), {})


def test_a_failed_run_is_not_complete_and_says_why(toys: ModuleType, tmp_path: Path) -> None:
    graph = toys.graph({"f": ("Fail", {})}, outputs={"x": "f.float"})
    result = run(graph, toys.SPECS)
    write_manifest(tmp_path, graph, result, {})
    plain = manifest(tmp_path, graph, result, {})
    assert (
        plain["state"] == "failed" and "choose one" in plain["error"] and "choose one" in plain["nodes"]["f"]["message"]
    )
    assert plain["code"] == plain["nodes"]["f"]["code"] == "bad-input"
    assert not is_complete(tmp_path, graph, {"f": result.nodes["f"].key})
