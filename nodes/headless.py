"""Run a workflow file without a page: sweeps, one folder per run, resume, manifests."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cache import MemoryCache
from .check import ensure, installed_version
from .comfy_format import to_comfy
from .disk_cache import DiskCache
from .events import Sink
from .graph import Graph, graph_text
from .manifest import is_complete, write_manifest
from .picture_files import WORKFLOW_KEY
from .registry import SPECS
from .resolve import with_overrides
from .run import RunResult, Token, run
from .workspace import Workspace

logger = logging.getLogger("latentloom")

MEMORY_CACHE_BYTES = 2 << 30
DISK_CACHE_BYTES = 8 << 30


@dataclass(frozen=True, kw_only=True)
class Headless:
    """How a file is run. `sweep` is one dict of overrides per run, on top of `overrides`."""

    graph: Graph
    overrides: Mapping[str, Any]
    sweep: Sequence[Mapping[str, Any]]
    out: Path
    roots: tuple[Path, ...]
    cache_dir: Path | None = None
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of the sweep. `resumed` means that its manifest was complete already and nothing ran."""

    folder: Path
    overrides: Mapping[str, Any]
    result: RunResult | None = field(repr=False, default=None)

    @property
    def files(self) -> tuple[str, ...]:
        """What the run wrote or found unchanged."""
        return () if self.result is None else tuple(f for node in self.result.nodes.values() for f in node.files)

    def to_plain(self) -> dict[str, Any]:
        """The envelope that ends a run's lines of JSON."""
        result = self.result
        failure = None if result is None else result.failure
        return {
            "kind": "result",
            "state": "resumed" if result is None else result.state,
            "folder": str(self.folder),
            "overrides": dict(self.overrides),
            "files": list(self.files),
            "seconds": 0.0 if result is None else round(result.seconds, 4),
            "error": None if failure is None else {"node": failure.node, "message": failure.sentence},
        }


def run_headless(job: Headless, *, sink: Sink = lambda event: None, cancel: Token | None = None) -> Iterator[Report]:
    """Run the sweep, one report after each run; it ends after the first run that fails or is cancelled.

    Raises `GraphError` or `ValueError` before anything runs when the file, the values or the output folder are wrong.
    """
    memory = MemoryCache(MEMORY_CACHE_BYTES)
    disk = _disk_cache(job.cache_dir)
    for varied in job.sweep:
        overrides = {**job.overrides, **varied}
        graph = baked(job.graph, overrides)
        ensure(graph, SPECS)
        folder = job.out / folder_name(varied) if varied else job.out
        if job.resume and is_complete(folder, graph):
            yield Report(folder=folder, overrides=overrides)
            continue
        workspace = Workspace(output_dir=folder.resolve(), roots=job.roots, metadata=provenance(graph))
        workspace.check_writable()
        result = run(graph, SPECS, workspace=workspace, sink=sink, cancel=cancel, memory_cache=memory, disk_cache=disk)
        write_manifest(folder, graph, result)
        yield Report(folder=folder, overrides=overrides, result=result)
        if result.state != "ok":
            return


def _disk_cache(folder: Path | None) -> DiskCache | None:
    """The cache in a folder; a folder that cannot be written costs time, not the run."""
    if folder is None:
        return None
    try:
        return DiskCache(folder, DISK_CACHE_BYTES)
    except OSError as error:
        logger.warning("results are not kept: the cache folder %s cannot be used (%s)", folder, error.strerror)
        return None


def default_cache_dir() -> Path:
    """Where results are kept between runs, apart for each set of versions that could change them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    versions = "-".join(installed_version(name) or "none" for name in ("latentloom", "torch", "diffusers"))
    return Path(base) / "latentloom" / versions


def baked(graph: Graph, overrides: Mapping[str, Any]) -> Graph:
    """The workflow with these values as its own, so that its file alone gives the same result."""
    params = {
        name: param.model_copy(update={"default": overrides.get(name, param.default)})
        for name, param in graph.params.items()
    }
    inputs = with_overrides(graph, overrides)
    nodes = {name: node.model_copy(update={"inputs": dict(inputs[name])}) for name, node in graph.nodes.items()}
    return graph.model_copy(update={"params": params, "nodes": nodes})


def provenance(graph: Graph) -> dict[str, str]:
    """What a result carries: the workflow file, and the same for ComfyUI."""
    return {WORKFLOW_KEY: graph_text(graph), "prompt": json.dumps(to_comfy(graph, SPECS))}


def folder_name(varied: Mapping[str, Any]) -> str:
    """A folder name for one point of a sweep, such as `seed=3,steps=8`."""
    text = ",".join(f"{name}={value}" for name, value in varied.items())
    return "".join(c if c.isalnum() or c in "=,.-_ " else "_" for c in text)[:150].strip(" .")
