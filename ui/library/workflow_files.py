"""A user's saved workflows on the disk: a folder each, with a head, a file for each version, and a thumbnail."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from ...nodes.graph.graph import Graph
from ...nodes.graph.resolve import param_values
from ...parallel.errors import BadInput
from ..contract.kept import WorkflowVersion
from ..store.user_files import ID, read_graph_file, read_record, write_record

HEAD = "head.json"
THUMB = "thumb.png"


class Head(BaseModel):
    """What a library shows of a workflow."""

    model_config = ConfigDict(frozen=True)
    id: str
    name: str
    folder: str = ""
    description: str = ""
    updated: float
    versions: tuple[WorkflowVersion, ...]  # oldest first; the last one is the current one
    params: dict[str, Any] = {}  # the default of each parameter of the current version
    token: str = ""  # under which it is shared

    @property
    def version(self) -> int:
        return self.versions[-1].version

    def showing(self, graph: Graph, versions: Sequence[WorkflowVersion]) -> Self:
        """With what the graph of the last of these versions tells of itself."""
        told = {"name": graph.name, "description": graph.description, "params": param_values(graph, {})}
        return self.model_copy(update={**told, "updated": versions[-1].time, "versions": tuple(versions)})


def heads_in(folder: Path) -> dict[str, Head]:
    """By id. A head that was lost is made anew from the versions."""
    found = {path.name: _head(path) for path in folder.glob("*") if ID.fullmatch(path.name)}
    return {id: head for id, head in found.items() if head is not None}


def remove_workflow(folder: Path) -> None:
    """One workflow's. Raises `ValueError`."""
    # renamed first, so all at once: what is left of a half removed folder would be taken for a lost head
    gone = folder.with_name(f".{folder.name}")
    try:
        folder.rename(gone)
    except OSError as error:
        why = error.strerror or str(error)
        raise BadInput("the workflow cannot be deleted ({}); make {} writable", why, folder.parent) from None
    shutil.rmtree(gone, ignore_errors=True)


def _head(folder: Path) -> Head | None:
    head = read_record(folder / HEAD, Head)
    if head is not None and head.id == folder.name and head.versions:
        return head
    if head is None and (folder / HEAD).exists():  # it cannot be read now
        return None
    versions: list[WorkflowVersion] = []
    graph = None
    for path in sorted(folder.glob("*.json"), key=lambda path: (len(path.stem), path.stem)):
        if path.stem.isdecimal() and (read := read_graph_file(path)) is not None:
            graph = read
            time = path.stat().st_mtime
            versions.append(WorkflowVersion(version=int(path.stem), time=time, num_nodes=len(read.nodes)))
    if graph is None:
        return None
    head = Head(id=folder.name, name="", updated=0.0, versions=()).showing(graph, versions)
    write_record(folder / HEAD, head)
    return head
