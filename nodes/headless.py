"""Run a workflow file without a page: sweeps, one folder per run, resume, manifests."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..pipelines.values import Place
from .attempt import attempt, baked, open_caches, workspace_of
from .check import ensure
from .events import Sink
from .failure import NodeFailed
from .graph import Graph
from .manifest import is_complete
from .overlap import overlapped, width_of
from .picture_files import MAX_PIXELS
from .records import RunResult
from .registry import SPECS
from .schedule import schedule
from .watch import Token
from .workspace import Workspace


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
    place: Place = field(default_factory=Place)
    max_pixels: int = MAX_PIXELS


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of the sweep. Without a result, its manifest was complete already and nothing ran.

    `problem` says why its manifest could not be written, and counts as a failure.
    """

    folder: Path
    overrides: Mapping[str, Any]
    result: RunResult | None = field(repr=False, default=None)
    problem: str = ""

    @property
    def state(self) -> Literal["ok", "failed", "cancelled", "resumed"]:
        if self.result is None:
            return "resumed"
        return "failed" if self.problem and self.result.state == "ok" else self.result.state

    @property
    def error(self) -> str:
        """What went wrong, in one sentence; empty when nothing did."""
        failure = None if self.result is None else self.result.failure
        return self.problem if failure is None else str(failure)

    @property
    def files(self) -> tuple[str, ...]:
        """What the run wrote or found unchanged."""
        return () if self.result is None else tuple(f for node in self.result.nodes.values() for f in node.files)

    def to_plain(self) -> dict[str, Any]:
        """The envelope that ends a run's lines of JSON."""
        result = self.result
        return {
            "kind": "result",
            "run": None if result is None else result.run,
            "state": self.state,
            "folder": str(self.folder),
            "overrides": dict(self.overrides),
            "files": list(self.files),
            "seconds": 0.0 if result is None else round(result.seconds, 4),
            "error": self.error or None,
        }


def run_headless(job: Headless, *, sink: Sink = lambda event: None, cancel: Token | None = None) -> Iterator[Report]:
    """Run the sweep, one report after each run; it ends after the first run that fails or is cancelled.

    Raises `GraphError` or `ValueError` before anything runs when the file, the values or the output folder are wrong.
    """
    points = [{**job.overrides, **varied} for varied in job.sweep]
    graphs = [baked(job.graph, overrides) for overrides in points]
    for graph in graphs:
        ensure(graph, SPECS)
    folders = [job.out / name if name else job.out for name in folder_names(job.sweep)]
    caches = open_caches(job.cache_dir)

    def once(overrides: Mapping[str, Any], graph: Graph, folder: Path, sink: Sink, cancel: Token) -> Report:
        workspace = workspace_of(
            graph, SPECS, folder, roots=job.roots, place=job.place, host="command line", max_pixels=job.max_pixels
        )
        if job.resume and _is_complete(folder, graph, workspace):
            return Report(folder=folder, overrides=overrides)
        made = attempt(graph, SPECS, workspace=workspace, caches=caches, sink=sink, cancel=cancel)
        return Report(folder=folder, overrides=overrides, result=made.result, problem=made.problem)

    attempts = (partial(once, *each) for each in zip(points, graphs, folders, strict=True))
    for report in overlapped(attempts, width=width_of(job.place), sink=sink, cancel=cancel):
        yield report
        if report.state not in ("ok", "resumed"):
            return


def _is_complete(folder: Path, graph: Graph, workspace: Workspace) -> bool:
    """Whether the run is there already, made from the very same files. An input that cannot be read is told later."""
    asking = dataclasses.replace(workspace, claims=None)
    try:
        keys = schedule(graph, SPECS, overrides={}, workspace=asking).keys
    except NodeFailed:
        return False
    return is_complete(folder, graph, keys)


def folder_names(sweep: Sequence[Mapping[str, Any]]) -> list[str]:
    """A folder name for each point of a sweep, such as `seed=3,steps=8`; all differ, also where case does not count."""
    names = [_folder_name(varied) for varied in sweep]
    counts = Counter(name.casefold() for name in names)
    return [
        f"{name} {_mark(varied)}" if counts[name.casefold()] > 1 else name
        for name, varied in zip(names, sweep, strict=True)
    ]


def _folder_name(varied: Mapping[str, Any]) -> str:
    text = ",".join(f"{name}={value}" for name, value in varied.items())
    return "".join(c if c.isalnum() or c in "=,.-_ " else "_" for c in text)[:100].strip(" .")


def _mark(varied: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(varied).encode()).hexdigest()[:12]
