"""What is asked of a headless run: the workflow with the points of its sweep, and what is known of them before."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...pipelines.values import Place
from ..execution.preflight import Foretold
from ..files.picture_files import MAX_PIXELS
from ..files.workspace import Workspace, folder_name
from ..graph.graph import Graph
from ..graph.problems import GraphError
from ..graph.ready import ready
from ..graph.resolve import baked
from ..registry import SPECS
from .foretold import Point, Points, foretold
from .sweep import check_apart, parse_set, parse_sweep
from .workflow_files import read_workflow, roots_of, workspace_of


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
    shares_out: bool = False  # whether the number of groups is chosen, as lets the sweep end soonest
    max_pixels: int = MAX_PIXELS
    is_forced: bool = False  # whether what is only reckoned (memory, disk) keeps nothing from running


def read_job(file: Path, *, settings: Sequence[str], sweeps: Sequence[str], allowed: Sequence[Path]) -> Headless:
    """The workflow of a file with what `--set` and `--sweep` say of it, to be run in the present folder's `output`.

    Raises `GraphError` or `ValueError` for what is wrong with any of them.
    """
    graph, workspace = read_workflow(file), workspace_of(file, settings, allowed)
    overrides = parse_set(graph, SPECS, settings, workspace=workspace)
    sweep = parse_sweep(graph, SPECS, sweeps, given=overrides, workspace=workspace)
    check_apart(graph, overrides, sweep)
    named = [*overrides.values(), *(value for varied in sweep for value in varied.values())]
    roots = roots_of(file, named, allowed)
    return Headless(graph=graph, overrides=overrides, sweep=sweep, out=workspace.output_dir, roots=roots)


def check_file(file: Path, *, settings: Sequence[str], sweeps: Sequence[str], allowed: Sequence[Path]) -> Points:
    """What is known of each point of a file's sweep before it runs; of a workflow that is wrong, what is wrong with it.

    Raises `ValueError` for what is no workflow at all.
    """
    try:
        job = read_job(file, settings=settings, sweeps=sweeps, allowed=allowed)
        return list(zip(job.sweep, told_of(job, points_of(job)), strict=True))
    except GraphError as error:
        return [({}, Foretold(problems=[*error.problems]))]


def told_of(
    job: Headless, points: Sequence[Point], *, is_complete: Callable[[Point], bool] = lambda point: False
) -> list[Foretold]:
    """What is known of these; those that are complete need no room."""
    workspace = Workspace(
        output_dir=job.out, roots=job.roots, place=job.place, max_pixels=job.max_pixels, host="command line"
    )
    return foretold(points, SPECS, workspace=workspace, is_there=is_complete)


def points_of(job: Headless) -> list[Point]:
    reading = Workspace(roots=job.roots, host="command line")
    points: list[Point] = []
    for name, varied in zip(folder_names(job.sweep), job.sweep, strict=True):
        overrides = {**job.overrides, **varied}
        graph, folder = baked(job.graph, overrides), job.out / name if name else job.out
        prepare = partial(ready, graph, SPECS, workspace=reading)
        is_alone = len(job.sweep) == 1
        points.append(Point(overrides=overrides, graph=graph, folder=folder, prepare=prepare, is_alone=is_alone))
    return points


def folder_names(sweep: Sequence[Mapping[str, Any]]) -> list[str]:
    """A folder name for each point of a sweep, such as `seed=3,steps=8`; all differ, also where case does not count."""
    texts = [",".join(f"{name}={value}" for name, value in varied.items()) for varied in sweep]
    names = [folder_name(text, most=100) for text in texts]
    counts = Counter(name.casefold() for name in names)
    marks = (hashlib.sha256(json.dumps(varied).encode()).hexdigest()[:12] for varied in sweep)
    return [f"{name} {mark}" if counts[name.casefold()] > 1 else name for name, mark in zip(names, marks, strict=True)]
