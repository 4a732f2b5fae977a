"""A manifest says when, by which command, where and as whose job its run was made, and no secret of it."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from latentloom.nodes.execution import circumstances
from latentloom.nodes.execution.circumstances import job_of, without_secrets
from latentloom.nodes.execution.manifest import is_complete, manifest, told_by, write_manifest
from latentloom.nodes.execution.records import NodeRecord
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.parallel.progress import RankWork
from latentloom.pipelines.values import Place
from support.prepared import run

SECRET = "hunter2"


@pytest.mark.parametrize(
    "words",
    [
        ["--set", f"token={SECRET}"],
        ["--set", f"load.hf_token={SECRET}&{SECRET};{SECRET}"],
        [f"--set=api_key={SECRET}"],
        [f"--password={SECRET}"],
        ["--hf-token", SECRET],
        ["--auth", SECRET],
        [f"https://me:{SECRET}@host/x"],
        [f"https://me:a@{SECRET}@host/x"],
        [f"https://host/x?a=1&access_token={SECRET}#top"],
        ["--set", f'headers={{"X": "Bearer {SECRET}"}}'],
        ["--set", f"Secret = {SECRET}"],
    ],
)
def test_a_command_is_told_without_secrets(words: list[str]) -> None:
    told = without_secrets(["latentloom", "run", "a.json", *words, "--json"])
    assert SECRET not in " ".join(told) and "***" in " ".join(told)
    assert told[:3] == ["latentloom", "run", "a.json"] and told[-1] == "--json"


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "monkey=3"],
        ["--set", "keyframes=4"],
        ["--set", "prompt=the key = a token"],
        ["--plan", "cfg=2"],
        ["--no-auth", "--json"],
        ["https://host/a?b=1"],
        ["a@b.png"],
    ],
)
def test_all_else_of_a_command_stays(words: list[str]) -> None:
    assert without_secrets(words) == words


def test_a_scheduler_is_known_by_its_variables() -> None:
    assert job_of({"HOSTNAME": "laptop", "SLURM_JOB_ID": ""}) == {}
    slurm = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2", "SLURM_RESTART_COUNT": "1"}
    assert job_of(slurm) == {"slurm": {"job": "7", "array_job": "5", "array_task": "2", "restarts": "1"}}
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "paint-0-x", "JOB_COMPLETION_INDEX": "0"}
    assert job_of(pod) == {"kubernetes": {"pod": "paint-0-x", "completion_index": "0"}}
    assert job_of({**pod, "POD_NAME": "p", "POD_NAMESPACE": "n"})["kubernetes"]["pod"] == "p"
    assert job_of({"OPENJD_SESSION_WORKING_DIR": "/s"}) == {"openjd": {"session": "/s"}}


def test_a_manifest_has_them_and_the_workflow_whole(
    toys: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(circumstances, "JOB", {"slurm": {"job": "7"}})
    monkeypatch.setitem(circumstances.sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda="12.8")))
    graph = toys.graph({"n": ("Number", {"value": "$v"})}, params={"v": {"type": "int", "default": 5}})
    place = Place(devices=("cpu", "cpu"), plan="cfg=2", cluster=f"ray://me:{SECRET}@host:1")
    asked = {"place": place, "command": ("latentloom", "run", "--token", SECRET)}
    now = circumstances.circumstances(started=datetime.now(UTC), **asked)
    plain = json.loads(json.dumps(manifest(tmp_path, graph, run(toys.graph({}), toys.SPECS), now)))
    assert datetime.fromisoformat(plain["started"]) <= datetime.fromisoformat(plain["ended"])
    assert plain["started"].endswith("+00:00")
    assert plain["command"] == ["latentloom", "run", "--token", "***"]
    assert plain["machine"]["cuda"] == "12.8" and plain["machine"]["platform"]
    assert plain["job"] == {"slurm": {"job": "7"}}
    assert plain["place"]["devices"] == ["cpu", "cpu"] and plain["place"]["plan"] == "cfg=2"
    assert SECRET not in json.dumps(plain)
    assert graph_from_plain(plain["graph"]) == graph


def test_one_without_a_command_or_torch_says_so(
    toys: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(circumstances.sys.modules, "torch", raising=False)
    plain = circumstances.circumstances(started=datetime.now(UTC), place=Place(), command=None)
    assert plain["command"] is None and plain["machine"]["cuda"] is None


def test_what_attended_is_told_once_of_its_node(toys: ModuleType, tmp_path: Path) -> None:
    ranks = tuple(RankWork(rank=rank, device="cpu", seconds=1.0, kernels=("cpu_flash",)) for rank in range(2))
    result = run(toys.graph({}), toys.SPECS)
    nodes = {"d": NodeRecord(key="k", state="ok", ranks=ranks), "e": NodeRecord(key="k", state="ok")}
    told: dict[str, Any] = manifest(tmp_path, toys.graph({}), replace(result, nodes=nodes), {})["nodes"]
    assert told["d"]["kernels"] == ["cpu_flash"] and "kernels" not in told["e"]
    assert all("kernels" not in rank for rank in told["d"]["ranks"])


def test_a_manifest_of_before_is_read_as_it_was(toys: ModuleType, tmp_path: Path) -> None:
    graph = toys.graph({"s": ("Save", {"image": "@p.image"}), "p": ("Picture", {})})
    result = run(graph, toys.SPECS, workspace=Workspace(output_dir=tmp_path))
    now = circumstances.circumstances(started=datetime.now(UTC), place=Place(), command=None)
    write_manifest(tmp_path, graph, result, now)
    keys = {name: record.key for name, record in result.nodes.items()}
    plain = json.loads((tmp_path / "manifest.json").read_text())
    assert is_complete(tmp_path, graph, keys)
    told = told_by(tmp_path)
    for name in ("started", "ended", "command", "machine", "job", "place", "graph"):
        del plain[name]
    (tmp_path / "manifest.json").write_text(json.dumps(plain))
    assert is_complete(tmp_path, graph, keys)
    assert told_by(tmp_path) == told
