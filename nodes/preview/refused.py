"""What the models of a workflow do not take, as far as their files are here: the part of `check` that knows them."""

from __future__ import annotations

from collections.abc import Iterator

from ..files.workspace import Workspace
from ..graph.graph import Graph
from ..graph.problems import Problem
from ..graph.resolve import Overrides
from ..registry import SPECS
from .walk import MAX_DENOISES, Walk


def refused(graph: Graph, overrides: Overrides, workspace: Workspace) -> Iterator[Problem]:
    """Of a workflow without other problems. A model that is not here refuses nothing; none is loaded."""
    walk = Walk(graph, SPECS, overrides, workspace=workspace, accelerators=())
    for name in walk.denoising()[:MAX_DENOISES]:
        try:
            asked, _ = walk.denoise(name)
        except ValueError:
            continue
        if asked.refusal:
            yield Problem(name, "mask", "not_taken", asked.refusal)
