"""What is asked of a headless run: the workflow with the points of its sweep, and what is known of them before."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...pipelines.values import Place
from ..execution.preflight import Foretold
from ..files.picture_files import MAX_PIXELS
from ..files.workspace import Workspace, folder_name
from ..graph.graph import Graph
from ..graph.resolve import baked
from ..registry import SPECS
from .foretold import foretold


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
    shares_out: bool = False
    """Whether the number of groups is chosen, as lets the sweep end soonest."""
    max_pixels: int = MAX_PIXELS
    is_forced: bool = False
    """Whether what is only reckoned (memory, disk) keeps nothing from running."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of the sweep."""

    overrides: Mapping[str, Any]
    graph: Graph
    folder: Path


def foretold_of(job: Headless) -> list[Foretold]:
    """What is known of each point of the sweep before it runs."""
    return told_of(job, points_of(job))


def told_of(
    job: Headless, points: Sequence[Point], *, is_complete: Callable[[Point], bool] = lambda point: False
) -> list[Foretold]:
    """What is known of these; those that are complete need no room."""
    workspace = Workspace(
        output_dir=job.out,
        roots=job.roots,
        place=job.place,
        max_pixels=job.max_pixels,
        host="command line",
    )
    graphs, folders = [point.graph for point in points], [point.folder for point in points]

    def is_there(index: int) -> bool:
        return is_complete(points[index])

    return foretold(graphs, folders, SPECS, workspace=workspace, is_there=is_there)


def points_of(job: Headless) -> list[Point]:
    names = folder_names(job.sweep)
    return [
        Point(overrides=overrides, graph=baked(job.graph, overrides), folder=job.out / name if name else job.out)
        for name, overrides in zip(names, ({**job.overrides, **varied} for varied in job.sweep), strict=True)
    ]


def folder_names(sweep: Sequence[Mapping[str, Any]]) -> list[str]:
    """A folder name for each point of a sweep, such as `seed=3,steps=8`; all differ, also where case does not count."""
    texts = [",".join(f"{name}={value}" for name, value in varied.items()) for varied in sweep]
    names = [folder_name(text, most=100) for text in texts]
    counts = Counter(name.casefold() for name in names)
    return [
        f"{name} {_mark(varied)}" if counts[name.casefold()] > 1 else name
        for name, varied in zip(names, sweep, strict=True)
    ]


def _mark(varied: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(varied).encode()).hexdigest()[:12]
