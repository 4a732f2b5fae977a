"""`manifest.json`: what a run was given, what it made, with which versions, and in which circumstances."""

import functools
import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue

from ...parallel.progress import title_of
from ...pipelines.models.regular_file import read_regular, sha256_of
from ..files.atomic import write_atomic
from ..graph.check import installed_version
from ..graph.graph import Graph, graph_text, graph_to_plain
from ..graph.spec import Saved
from ..preview.carried import without_plans
from .models_used import ModelFacts
from .records import NodeRecord, RunResult

T = TypeVar("T")
FORMAT = 1
MANIFEST_FILE = "manifest.json"
# What results depend on.
PACKAGES = (
    *("latentloom", "torch", "diffusers", "transformers", "tokenizers", "safetensors", "peft", "torchao"),
    *("numpy", "pillow", "av"),
)


def write_manifest(folder: Path, graph: Graph, result: RunResult, circumstances: Mapping[str, Any]) -> Path:
    """Write the manifest of a run beside its files. `graph` is the workflow with the run's values put in."""
    path, plain = folder / MANIFEST_FILE, manifest(folder, graph, result, circumstances)
    write_atomic(path, (json.dumps(plain, indent=2, ensure_ascii=False) + "\n").encode())
    return path


def manifest(folder: Path, graph: Graph, result: RunResult, circumstances: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest as plain data; paths inside `folder` are relative to it."""
    works = [rank for record in result.nodes.values() for rank in record.ranks]
    # What the stages worked on, and where; this CPU if none of them had to.
    devices = {(rank.device, rank.title, rank.machine) for rank in works} or {("cpu", title_of("cpu"), platform.node())}
    return {
        "format": FORMAT,
        "state": result.state,
        **circumstances,
        "workflow": {
            "name": graph.name,
            "sha256": workflow_sha256(graph),
            **({"$schema": graph.schema_uri} if graph.schema_uri else {}),
            **({"meta": meta} if (meta := without_plans(graph).meta) else {}),
        },
        "params": {name: param.default for name, param in graph.params.items()},
        "seconds": round(result.seconds, 4),
        "error": None if result.failure is None else str(result.failure),
        "code": None if result.failure is None else result.failure.code,
        "nodes": {name: _node(record) for name, record in result.nodes.items()},
        "outputs": _outputs(folder, result),
        "versions": versions(),
        "devices": sorted(f"{device} ({title}) of {machine}" for device, title, machine in devices),
        "plan": "; ".join(dict.fromkeys(record.plan for record in result.nodes.values() if record.plan)) or None,
        "replicas": result.replicas,
        # All that is needed to make it again; it comes last, because it is the longest.
        "graph": graph_to_plain(without_plans(graph)),
    }


def _found(folder: Path, read: Callable[[dict[str, Any]], T], otherwise: T) -> T:
    """What `read` makes of the manifest there, which nobody has checked; `otherwise` where it is gone or damaged."""
    try:
        return read(json.loads(read_regular(folder / MANIFEST_FILE)))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return otherwise


def as_made(folder: Path, graph: Graph) -> Graph:
    """The workflow with `$schema` and `meta` of the run in this folder: they make no other result."""

    def made(plain: dict[str, Any]) -> Graph:
        told = plain["workflow"]
        own = {"schema_uri": str(told.get("$schema", "")), "meta": dict(told.get("meta", {}))}
        return graph.model_copy(update=own)

    return _found(folder, made, graph)


def is_complete(folder: Path, graph: Graph, keys: Mapping[str, str]) -> bool:
    """Whether a run of this very workflow ended well here with these keys and versions, and its files are unchanged."""

    def is_it(plain: dict[str, Any]) -> bool:
        made = {name: node["key"] for name, node in plain["nodes"].items()}
        is_this = plain["state"] == "ok" and plain["workflow"]["sha256"] == workflow_sha256(graph)
        if not is_this or plain["versions"] != versions() or made != dict(keys):
            return False
        files = [output for output in plain["outputs"] if "path" in output]
        return all(sha256_of(folder / output["path"]) == output["sha256"] for output in files)

    return _found(folder, is_it, False)


def holds_other(folder: Path, graph: Graph) -> bool:
    """Whether a run of another workflow, or one with other values, ended here."""
    sha256 = workflow_sha256(as_made(folder, graph)) if (folder / MANIFEST_FILE).exists() else ""
    return _found(folder, lambda it: it["workflow"]["sha256"] != sha256, False)


def has_failed(folder: Path, graph: Graph) -> bool:
    """Whether a run of this very workflow ended here with a failure."""
    sha256 = workflow_sha256(graph)
    return _found(folder, lambda it: it["state"] == "failed" and it["workflow"]["sha256"] == sha256, False)


def outputs_told_by(folder: Path) -> dict[str, Any]:
    """What the run in this folder made that is text, numbers or lists of them."""
    return _found(folder, lambda it: {each["name"]: each["value"] for each in it["outputs"] if "value" in each}, {})


def files_told_by(folder: Path) -> tuple[str, ...]:
    """The files of the run in this folder."""
    return _found(
        folder, lambda it: tuple(str(folder.resolve() / each["path"]) for each in it["outputs"] if "path" in each), ()
    )


class NodeTold(BaseModel):
    """What a manifest says of how a node made its result."""

    key: str = ""
    values: dict[str, JsonValue] = {}  # every plain input, as it was in the run
    stand_ins: list[str] = []  # those of them that were written as 0, "" or "auto"
    model: ModelFacts | None = None  # that it gave
    plan: str = ""
    foreseen: JsonValue = None  # of a denoise

    @property
    def meant(self) -> dict[str, Any]:
        return {name: self.values[name] for name in self.stand_ins if name in self.values}


class Told(BaseModel):
    """What a manifest says of how its results were made; all of it is empty where the manifest is gone or damaged."""

    versions: dict[str, str | None] = {}
    nodes: dict[str, NodeTold] = {}

    @property
    def is_drawn_by_diffusers(self) -> bool:
        """Whether it is older than the choice of noise, and in half precision: its noise is what diffusers draws."""
        denoises = [node.values for node in self.nodes.values() if "cache_threshold" in node.values]
        is_half = any(node.model.dtype != "fp32" for node in self.nodes.values() if node.model)
        return is_half and any("noise" not in values for values in denoises)


def told_by(folder: Path) -> Told:
    """Of the run in this folder."""
    return _found(folder, Told.model_validate, Told())


@functools.cache  # what this process has imported stays as it is
def versions() -> Mapping[str, str | None]:
    """The versions of Python and of the packages that results depend on; None for one that is not installed."""
    return {"python": platform.python_version(), **{name: installed_version(name) for name in PACKAGES}}


def workflow_sha256(graph: Graph) -> str:
    """The hash of the workflow file's text as we write it."""
    return hashlib.sha256(graph_text(without_plans(graph)).encode()).hexdigest()


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
    if known := next((rank.known for rank in record.ranks if rank.known), ""):
        plain["self_check"] = known
    if record.ranks:
        if kernels := sorted({name for rank in record.ranks for name in rank.kernels}):
            plain["kernels"] = kernels
        told = ({**asdict(rank), "seconds": round(rank.seconds, 4)} for rank in record.ranks)
        whole = ("known", "kernels")  # told once, above
        plain["ranks"] = [{name: value for name, value in rank.items() if name not in whole} for rank in told]
    told = {"recoveries": list(record.recoveries), "message": record.message, "code": record.code}
    return {**plain, **record.prediction(), **{name: value for name, value in told.items() if value}}


def _outputs(folder: Path, result: RunResult) -> list[dict[str, Any]]:
    """One entry for each file; it may have vanished since, and then its hash is null. Then one for each output that is
    none; with its value where that is text, a number or a list of them."""
    entries: list[dict[str, Any]] = []
    for name, record in result.nodes.items():
        for index, file in enumerate(map(Path, record.files)):
            inside = file.is_relative_to(folder.resolve())
            path = file.relative_to(folder.resolve()).as_posix() if inside else str(file)
            sha256 = sha256_of(file) if file.is_file() else None
            maker = result.part_of(name, index) or name
            title = {"title": result.titles[maker]} if maker in result.titles else {}
            entries.append({"node": name, **title, "type": Saved.__name__, "path": path, "sha256": sha256})
    told = result.plain_outputs()
    values = {name: value for name, value in result.outputs.items() if not isinstance(value, Saved)}
    for name, value in values.items():
        entry = {"name": name, "type": type(value).__name__}
        entries.append({**entry, "value": told[name]} if name in told else entry)
    return entries
