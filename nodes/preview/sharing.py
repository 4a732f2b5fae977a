"""How many groups of a run's devices share out a sweep, by what its denoises ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...pipelines.forecast.auto import shared_out
from ...pipelines.forecast.terms import Wanted
from ...pipelines.place import names_plan
from ...pipelines.values import Model, Place
from ..files.workspace import Workspace
from ..graph.ready import Ready
from .rounding import wanted_of
from .walk import Walk

MOST_LOOKED_AT = 8
"""Points of a sweep, taken evenly, that stand for all: each costs some 20 ms for a denoise."""


def sharing_of(
    points: Sequence[Callable[[], Ready]], *, workspace: Workspace, is_warm: bool = False
) -> tuple[Place, str] | None:
    """The workspace's place in the groups that share out these points of a sweep, and why; None where one group is all
    that can be, or nobody can tell.
    """
    place, every = workspace.place, -(-len(points) // MOST_LOOKED_AT)
    if min(len(place.devices), len(points)) < 2 or names_plan(place):
        return None
    asked: dict[tuple[Model, Wanted], None] = {}
    try:
        for point in points[::every]:
            walk = Walk(point(), workspace=workspace, accelerators=())
            for name in walk.denoising():
                denoising = walk.denoise(name)[0]
                if denoising.model.place != place or denoising.latents is None or denoising.pipeline:
                    return None
                asked[denoising.model, wanted_of(denoising)] = None
        return shared_out(list(asked), place, len(points), is_warm=is_warm)
    except ValueError:  # a run tells it, where it keeps it from working
        return None
