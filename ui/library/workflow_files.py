"""One user's saved workflows on the disk: a folder each, with a head, a file for each version, and a thumbnail."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ...nodes.graph.graph import Graph
from ...nodes.graph.resolve import param_values
from ...parallel.wording import worded
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
    versions: tuple[WorkflowVersion, ...]
    """Oldest first; the last one is the current one."""
    params: dict[str, Any] = {}
    """The default of each parameter of the current version."""
    token: str = ""
    """Under which it is shared."""

    @property
    def version(self) -> int:
        return self.versions[-1].version

    def showing(self, graph: Graph, versions: Sequence[WorkflowVersion]) -> Head:
        """With what the graph of the last of these versions tells of itself."""
        told = {"name": graph.name, "description": graph.description, "params": param_values(graph, {})}
        return self.model_copy(update={**told, "updated": versions[-1].time, "versions": tuple(versions)})


class WorkflowFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def heads(self) -> dict[str, Head]:
        """By id. A head that was lost is made anew from the versions."""
        folders = self._folder.iterdir() if self._folder.is_dir() else ()
        found = {path.name: self._head(path) for path in folders if ID.fullmatch(path.name)}
        return {id: head for id, head in found.items() if head is not None}

    def path(self, id: str) -> Path:
        return self._folder / id

    def head_path(self, id: str) -> Path:
        return self._folder / id / HEAD

    def version_path(self, id: str, version: int) -> Path:
        return self._folder / id / f"{version}.json"

    def read_version(self, id: str, version: int) -> Graph | None:
        return read_graph_file(self.version_path(id, version))

    def thumb_path(self, id: str) -> Path:
        return self._folder / id / THUMB

    def remove(self, id: str) -> None:
        """Raises `ValueError`."""
        # renamed first, so all at once: what is left of a half removed folder would be taken for a lost head
        gone = self._folder / f".{id}"
        try:
            (self._folder / id).rename(gone)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ValueError(
                worded("the workflow cannot be deleted ({}); make {} writable", reason, self._folder)
            ) from None
        shutil.rmtree(gone, ignore_errors=True)

    def _head(self, folder: Path) -> Head | None:
        head = read_record(folder / HEAD, Head)
        if head is not None and head.id == folder.name and head.versions:
            return head
        is_unreadable = head is None and (folder / HEAD).exists()
        return None if is_unreadable else self._remade(folder)

    def _remade(self, folder: Path) -> Head | None:
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
        write_record(self.head_path(head.id), head)
        return head
