"""`manifest.json`: what a run was given, what it made, and with which versions."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ...pipelines.models.regular_file import read_regular, sha256_of
from ...pipelines.spreading.measured import title_of
from ..files.atomic import write_atomic
from ..graph.graph import Graph, graph_text
from ..graph.requires import installed_version
from ..graph.spec import Saved
from ..preview.carried import without_plans
from ..preview.models_used import ModelFacts
from .records import NodeRecord, RunResult

FORMAT = 1
MANIFEST_FILE = "manifest.json"
PACKAGES = (
    "latentloom",
    "torch",
    "diffusers",
    "transformers",
    "tokenizers",
    "safetensors",
    "peft",
    "torchao",
    "numpy",
    "pillow",
    "av",
)
"""What results depend on."""


def write_manifest(folder: Path, graph: Graph, result: RunResult) -> Path:
    """Write the manifest of a run beside its files. `graph` is the workflow with the run's values put in."""
    path = folder / MANIFEST_FILE
    write_atomic(path, (json.dumps(manifest(folder, graph, result), indent=2, ensure_ascii=False) + "\n").encode())
    return path


def manifest(folder: Path, graph: Graph, result: RunResult) -> dict[str, Any]:
    """The manifest as plain data; paths inside `folder` are relative to it."""
    return {
        "format": FORMAT,
        "state": result.state,
        "workflow": {"name": graph.name, "sha256": workflow_sha256(graph), **_own_keys(graph)},
        "params": {name: param.default for name, param in graph.params.items()},
        "seconds": round(result.seconds, 4),
        "error": None if result.failure is None else str(result.failure),
        "code": None if result.failure is None else result.failure.code,
        "nodes": {name: _node(record) for name, record in result.nodes.items()},
        "outputs": [*_files(folder, result), *_values(result)],
        "versions": versions(),
        "devices": devices(result),
        "plan": "; ".join(dict.fromkeys(record.plan for record in result.nodes.values() if record.plan)) or None,
        "replicas": result.replicas,
    }


def _read(folder: Path) -> dict[str, Any]:
    """What stands in the manifest there, which nobody has checked. Raises `OSError` and `ValueError`."""
    return json.loads(read_regular(folder / MANIFEST_FILE))


def as_made(folder: Path, graph: Graph) -> Graph:
    """The workflow with `$schema` and `meta` of the run in this folder: they make no other result."""
    try:
        told = _read(folder)["workflow"]
        own = {"schema_uri": str(told.get("$schema", "")), "meta": dict(told.get("meta", {}))}
        return graph.model_copy(update=own)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return graph


def _own_keys(graph: Graph) -> dict[str, Any]:
    keys = {"$schema": graph.schema_uri, "meta": without_plans(graph).meta}
    return {name: value for name, value in keys.items() if value}


def is_complete(folder: Path, graph: Graph, keys: Mapping[str, str]) -> bool:
    """Whether a run of this very workflow ended well here with these keys and versions, and its files are unchanged."""
    try:
        plain = _read(folder)
        if plain["state"] != "ok" or plain["workflow"]["sha256"] != workflow_sha256(graph):
            return False
        if plain["versions"] != versions() or {n: node["key"] for n, node in plain["nodes"].items()} != dict(keys):
            return False
        files = [output for output in plain["outputs"] if "path" in output]
        return all(sha256_of(folder / output["path"]) == output["sha256"] for output in files)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def has_failed(folder: Path, graph: Graph) -> bool:
    """Whether a run of this very workflow ended here with a failure."""
    try:
        plain = _read(folder)
        return plain["state"] == "failed" and plain["workflow"]["sha256"] == workflow_sha256(graph)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def outputs_told_by(folder: Path) -> dict[str, Any]:
    """What the run in this folder made that is text, numbers or lists of them."""
    try:
        plain = _read(folder)
        return {each["name"]: each["value"] for each in plain["outputs"] if "value" in each}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a manifest says of how its results were made; all of it is empty where the manifest is gone or damaged."""

    versions: dict[str, str | None] = field(default_factory=dict[str, str | None])
    values: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Every plain input of each node, as it was in the run."""
    meant: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Those of them that were written as 0, "" or "auto"."""
    models: dict[str, ModelFacts] = field(default_factory=dict[str, ModelFacts])
    """By the nodes that gave them."""

    @property
    def is_drawn_by_diffusers(self) -> bool:
        """Whether it is older than the choice of noise, and in half precision: its noise is what diffusers draws."""
        denoises = [values for values in self.values.values() if "cache_threshold" in values]
        is_half = any(model.dtype != "fp32" for model in self.models.values())
        return is_half and any("noise" not in values for values in denoises)


def told_by(folder: Path) -> Told:
    """Of the run in this folder."""
    try:
        plain = _read(folder)
        return _TOLD.validate_python(
            {
                "versions": plain["versions"],
                "values": {name: node["values"] for name, node in plain["nodes"].items() if "values" in node},
                "meant": {
                    name: {each: node["values"][each] for each in node["stand_ins"]}
                    for name, node in plain["nodes"].items()
                    if node.get("stand_ins")
                },
                "models": {name: node["model"] for name, node in plain["nodes"].items() if "model" in node},
            }
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Told()


_TOLD = TypeAdapter(Told)


@functools.cache
def versions() -> Mapping[str, str | None]:
    """The versions of Python and of the packages that results depend on; None for one that is not installed.

    Asked once: what this process has imported stays as it is.
    """
    return {"python": platform.python_version(), **{name: installed_version(name) for name in PACKAGES}}


def workflow_sha256(graph: Graph) -> str:
    """The hash of the workflow file's text as we write it."""
    return hashlib.sha256(graph_text(without_plans(graph)).encode()).hexdigest()


def devices(result: RunResult) -> list[str]:
    """What the stages of a run worked on, and where; this CPU if none of them had to."""
    works = [rank for record in result.nodes.values() for rank in record.ranks]
    found = {(rank.device, rank.title, rank.machine) for rank in works} or {("cpu", title_of("cpu"), platform.node())}
    return sorted(f"{device} ({title}) of {machine}" for device, title, machine in found)


def _node(record: NodeRecord) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "key": record.key,
        "state": record.state,
        "cached": record.cached,
        "seconds": round(record.seconds, 4),
        "peak_memory_bytes": record.peak_memory_bytes,
    }
    if record.values:
        plain |= {"values": dict(record.values), "stand_ins": list(record.stand_ins)}
    if record.model is not None:
        plain["model"] = asdict(record.model)
    if record.plan:
        plain["plan"] = record.plan
    if record.ranks:
        plain["ranks"] = [{**asdict(rank), "seconds": round(rank.seconds, 4)} for rank in record.ranks]
    told = {"message": record.message, "code": record.code}
    return {**plain, **record.prediction(), **{name: value for name, value in told.items() if value}}


def _files(folder: Path, result: RunResult) -> list[dict[str, Any]]:
    """One entry for each file; it may have vanished since, and then its hash is null."""
    entries = []
    for name, record in result.nodes.items():
        for index, file in enumerate(map(Path, record.files)):
            inside = file.is_relative_to(folder.resolve())
            path = file.relative_to(folder.resolve()).as_posix() if inside else str(file)
            sha256 = sha256_of(file) if file.is_file() else None
            maker = result.part_of(name, index) or name
            title = {"title": result.titles[maker]} if maker in result.titles else {}
            entries.append({"node": name, **title, "type": Saved.__name__, "path": path, "sha256": sha256})
    return entries


def _values(result: RunResult) -> list[dict[str, Any]]:
    """One entry for each output that is no file; with its value where that is text, a number or a list of them."""
    values = {name: value for name, value in result.outputs.items() if not isinstance(value, Saved)}
    told = result.plain_outputs()
    return [
        {"name": name, "type": type(value).__name__, **({"value": told[name]} if name in told else {})}
        for name, value in values.items()
    ]
