"""Pictures and videos that a run made and no node saved, written as files so that there is something to look at."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..pipelines.values import Image, Video
from .pictures import save_image
from .records import RunResult
from .videos import save_video
from .workspace import Workspace, numbered

ENDINGS: Mapping[type, str] = {Image: "png", Video: "mp4"}


def shown(result: RunResult, sources: Mapping[str, str], workspace: Workspace) -> tuple[RunResult, str]:
    """The result with the files of its outputs in the records of the nodes they come from; what went wrong, or nothing.

    `sources` names the nodes of declared outputs; another name is a node's own. Each node's files are written once.
    """
    records = dict(result.nodes)
    problem = ""
    for name, value in result.outputs.items():
        node = sources.get(name, name)
        if type(value) not in ENDINGS or records[node].files:
            continue
        try:
            files = _written(value, _free_name(node, value, workspace), workspace)
        except ValueError as error:
            problem = problem or f"{node} has nothing to show: {error}"
        else:
            records[node] = dataclasses.replace(records[node], files=files)
    return dataclasses.replace(result, nodes=records), problem


def _written(value: Any, name: str, workspace: Workspace) -> tuple[str, ...]:
    if isinstance(value, Image):
        return save_image(value, name=name, workspace=workspace).files
    return save_video(value, name=name, workspace=workspace).files


def _free_name(node: str, value: Any, workspace: Workspace) -> str:
    """The node's name, unless another node of the run wrote such files."""
    claimed = set(workspace.claims or ())
    names = (node if count == 1 else f"{node}_{count}" for count in range(1, len(claimed) + 2))
    folder = workspace.output_dir.resolve()
    ending = ENDINGS[type(value)]
    return next(
        name
        for name in names
        if claimed.isdisjoint(folder / file for file in numbered(name, len(value.pixels), ending))
    )
