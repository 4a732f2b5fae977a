"""What ranks do in the test of the split plan."""

from collections.abc import Mapping
from typing import Any

from latentloom.parallel.mesh import mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import Progress
from latentloom.parallel.ranks.seat import Seat


def compare(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: the transformer on all ranks against itself on one, by its class's plan or by the one given."""
    import latentloom

    from .split_plans import PLAN
    from .transformer import made

    transformer, given = made()
    whole = transformer(given)
    plan = ParallelPlan.parse(request["plan"])
    if request["is_other"]:
        type(transformer).__name__ = "NobodysTransformer"  # for which no package has a plan
    handle = latentloom.shard(transformer, plan, mesh_for(plan), **({"split": PLAN} if request["is_other"] else {}))
    spread = transformer(given)
    handle.remove()
    return {"difference": float((spread - whole).abs().max()), "calls": mesh_for(plan).sent.calls}
