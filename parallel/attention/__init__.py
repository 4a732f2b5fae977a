"""Attention over a sequence that is spread over ranks: the strategies, and how a plan composes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..plan import ParallelPlan
from . import allgather, local, ring, ulysses
from .strategy import Attend, Strategy, Traffic

STRATEGIES: dict[str, Strategy] = {"ulysses": ulysses, "ring": ring, "allgather": allgather}


def compose(plan: ParallelPlan) -> Attend:
    """The attention of a plan: each strategy around the next one, the local kernel innermost."""
    attend: Attend = local.attend
    for name in reversed(plan.strategies):
        attend = partial(STRATEGIES[name].attend, inner=attend)
    return attend


def compose_traffic(plan: ParallelPlan) -> Callable[..., Traffic]:
    """`traffic(layout, mesh, shape=...)` of a plan's attention."""
    traffic: Callable[..., Traffic] = local.traffic
    for name in reversed(plan.strategies):
        traffic = partial(STRATEGIES[name].traffic, inner=traffic)
    return traffic
