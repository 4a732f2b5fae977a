"""The workflows that are shipped, to start from."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..nodes.graph import graph_to_plain, read_graph
from ..nodes.workflow_files import shipped_files


@cache
def templates() -> list[dict[str, Any]]:
    """`{id, name, description, graph}` of each that this version can open, the first to try at the top."""
    found = []
    for path in sorted(shipped_files(), key=lambda path: (path.stem != "first_picture", path.stem)):
        graph = read_graph(path)
        plain = graph_to_plain(graph)
        found.append({"id": path.stem, "name": graph.name, "description": graph.description, "graph": plain})
    return found
