"""What is loaded now: the components of this process, and those of ranks that have no work and so can say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..parallel.border import Border
from ..parallel.deadline import Deadline
from ..parallel.job import RankFailed
from ..parallel.pool import Pool
from ..parallel.seat import Seat
from .component_memory import Held
from .components import store
from .pools import POOLS

ASK_S = 1.0


def loaded() -> list[Held]:
    """Of a component that several ranks have, one for each. Ranks that work, or of several replicas, are left out."""
    return [*store().held(), *(held for pool in POOLS.without_work() for held in _of_ranks(pool))]


def on_rank(request: Mapping[str, Any], border: Border, seat: Seat) -> list[dict[str, Any]]:
    """What a rank answers."""
    return [dataclasses.asdict(held) for held in store().held()]


def _of_ranks(pool: Pool) -> list[Held]:
    """Nothing where a job came first, a rank is not there, or the pool was ended meanwhile."""
    states = pool.states()
    if pool.size < len(states) or any(state.job or not state.is_ready for state in states):
        return []
    border = Deadline(ASK_S, close=lambda: None, words="the ranks have other work")
    try:
        answers = pool.call_every(".pipelines.loaded:on_rank", {}, border, num_ranks=pool.size)
    except (RankFailed, ValueError):
        return []
    return [Held(**held) for answer in answers for held in answer]
