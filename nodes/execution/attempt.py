"""One run of a workflow into a folder of its own: what it may read, what its results carry, and its manifest."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput, code_of
from ...parallel.machine.folders import user_cache
from ...pipelines.costs.ran import keep, ran_of
from ...pipelines.values import Audio, Image, Mask, Place, Video
from ..files.picture_files import MAX_PIXELS, WORKFLOW_KEY
from ..files.workspace import Workspace, numbered
from ..graph.check import with_requires
from ..graph.graph import graph_text
from ..graph.ready import Ready
from ..hosts.comfy_file import to_comfy
from ..preview.carried import with_plans, without_plans
from ..preview.meant import tagged
from ..steps.pictures import save_image
from ..steps.recordings import save_audio, save_video
from .cache import Cache, DiskCache, MemoryCache, Share
from .circumstances import circumstances
from .events import Sink
from .manifest import versions, write_manifest
from .records import RunResult
from .run import run
from .watch import Token

logger = logging.getLogger("latentloom")

MEMORY_CACHE_BYTES = 2 << 30
DISK_CACHE_BYTES = 8 << 30
ENDINGS: Mapping[type, str] = {Image: "png", Mask: "png", Video: "mp4", Audio: "flac"}


def shown(result: RunResult, sources: Mapping[str, str], workspace: Workspace) -> tuple[RunResult, ValueError | None]:
    """The result with the files of its outputs in the records of the nodes they come from; what went wrong, or nothing.

    `sources` names the nodes of declared outputs; another name is a node's own. Each value of a node is written
    once.
    """
    records = dict(result.nodes)
    workspace = dataclasses.replace(workspace, metadata=with_plans(workspace.metadata, result.plans))
    problem: ValueError | None = None
    written: set[tuple[str, int]] = set()
    for name, made in result.outputs.items():
        node = sources.get(name, name)
        for value in made if isinstance(made, tuple) else (made,):
            if type(value) not in ENDINGS or result.nodes[node].files or (node, id(value)) in written:
                continue
            try:
                files = _written(value, _free_name(node, value, workspace), workspace)
            except ValueError as error:
                problem = problem or BadInput(f"{node} has nothing to show: {error}", code=code_of(error))
            else:
                written.add((node, id(value)))
                records[node] = dataclasses.replace(records[node], files=(*records[node].files, *files))
    return dataclasses.replace(result, nodes=records), problem


def _written(value: Any, name: str, workspace: Workspace) -> tuple[str, ...]:
    if isinstance(value, Mask):
        value = Image(pixels=value.pixels[..., None].expand(-1, -1, -1, 3))
    save = {Image: save_image, Audio: save_audio, Video: save_video}[type(value)]
    return save(value, name=name, workspace=workspace).files


def _free_name(node: str, value: Any, workspace: Workspace) -> str:
    """The node's name, unless another node of the run wrote such files."""
    claimed = set(workspace.claims or ())
    node = node.replace("/", "-")  # of a for-each, where it is no folder
    names = (node if number == 1 else f"{node}_{number}" for number in range(1, len(claimed) + 2))
    folder = workspace.output_dir.resolve()
    ending = ENDINGS[type(value)]
    count = len(value.waveform if isinstance(value, Audio) else value.pixels)
    return next(name for name in names if claimed.isdisjoint(folder / file for file in numbered(name, count, ending)))


@dataclass(frozen=True, kw_only=True)
class Caches:
    """What runs of one process share."""

    memory: Cache
    disk: Cache | None
    runs: Path | None = None  # the folder where it is kept what runs took; none where nothing is kept

    def of(self, owner: str) -> Caches:
        """For one of several owners, none of whom may learn what another has made."""
        disk = self.disk and Share(self.disk, owner)
        return dataclasses.replace(self, memory=Share(self.memory, owner), disk=disk)


def open_caches(folder: Path | None) -> Caches:
    """A new memory cache, and the disk cache in a folder; a folder that cannot be written costs time, not the run."""
    memory, disk = MemoryCache(MEMORY_CACHE_BYTES), None
    if folder is None:
        return Caches(memory=memory, disk=None)
    try:
        disk = DiskCache(folder, DISK_CACHE_BYTES, salt=json.dumps(versions()))
    except OSError as error:
        logger.warning("results are not kept: the cache folder %s cannot be used (%s)", folder, error.strerror)
    return Caches(memory=memory, disk=disk, runs=user_cache())


def workspace_of(
    ready: Ready, folder: Path, *, roots: tuple[Path, ...] | None, place: Place, max_pixels: int = MAX_PIXELS
) -> Workspace:
    """Of a run that writes into `folder`, reads below `roots`, and leaves the workflow in what it writes, and the same
    for ComfyUI, unfolded. Raises `GraphError`."""
    graph = with_requires(without_plans(ready.file), ready.types)  # the plans of this run come when it has them
    return Workspace(
        output_dir=folder.resolve(),
        roots=roots,
        metadata={WORKFLOW_KEY: graph_text(graph), "prompt": json.dumps(to_comfy(ready))},
        claims={},
        place=place,
        host=ready.host,
        max_pixels=max_pixels,
    )


def attempt(
    ready: Ready,
    *,
    workspace: Workspace,
    caches: Caches,
    # watching and ending
    sink: Sink,
    cancel: Token,
    previews: bool = False,
    run_id: str = "",
    command: Sequence[str] | None = None,
    # what to make
    targets: Collection[str] | None = None,
    shows: bool = False,
) -> tuple[RunResult, ValueError | None]:
    """Run a workflow that has its values in it, and write its manifest, with the `command` that asked for it; and what
    kept the manifest or a picture from being written, if anything did. Raises as `run` does.

    With `shows`, a run that wrote no file, or was asked for certain nodes, leaves the pictures, masks, videos and
    sounds among its outputs as files.
    """
    workspace.check_writable()
    started = datetime.now(UTC)
    result = run(
        ready,
        workspace=workspace,
        sink=sink,
        cancel=cancel,
        previews=previews,
        run_id=run_id,
        memory_cache=caches.memory,
        disk_cache=caches.disk,
        targets=targets,
    )
    if caches.runs is not None:
        for record in result.nodes.values():
            took, foreseen = record.took, record.foreseen
            if took and foreseen and (ran := ran_of(foreseen, took, torch=versions()["torch"] or "")):
                keep(ran, caches.runs)  # for predictions to learn from
    problem: ValueError | None = None
    if shows and (targets is not None or not any(record.files for record in result.nodes.values())):
        sources = {name: link.node for name, link in ready.graph.outputs.items()}
        meant = {name: record.meant() for name, record in result.nodes.items() if record.stand_ins}
        result, problem = shown(result, sources, tagged(workspace, meant))
    try:
        told = circumstances(started=started, place=workspace.place, command=command)
        write_manifest(workspace.output_dir, ready.file, result, told)
    except ValueError as error:
        problem = problem or error
    return result, problem
