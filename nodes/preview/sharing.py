"""How many groups of a run's devices share out a sweep, by what its denoises ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...pipelines.place import names_plan
from ...pipelines.planning.sharing import Sharing, shared_out
from ...pipelines.planning.terms import Wanted
from ...pipelines.values import Model
from ..files.workspace import Workspace
from ..graph.graph import Graph
from ..graph.spec import NodeSpec
from .rounding import wanted_of
from .walk import Walk

MOST_LOOKED_AT = 8
"""Points of a sweep, taken evenly, that stand for all: each costs some 20 ms for a denoise."""


def sharing_of(
    graphs: Sequence[Graph], specs: Mapping[str, NodeSpec], *, workspace: Workspace, is_warm: bool = False
) -> Sharing | None:
    """For workflows with their values in them, on the workspace's devices; None where one group is all that can be, or
    nobody can tell.
    """
    place, every = workspace.place, -(-len(graphs) // MOST_LOOKED_AT)
    if min(len(place.devices), len(graphs)) < 2 or names_plan(place):
        return None
    asked: dict[tuple[Model, Wanted], None] = {}
    try:
        for graph in graphs[::every]:
            walk = Walk(graph, specs, {}, workspace=workspace, accelerators=())
            for name in walk.denoising():
                denoising = walk.denoise(name)[0]
                if denoising.model.place != place or denoising.latents is None or denoising.pipeline:
                    return None
                asked[denoising.model, wanted_of(denoising)] = None
        return shared_out(list(asked), place, len(graphs), is_warm=is_warm)
    except ValueError:  # a run tells it, where it keeps it from working
        return None
