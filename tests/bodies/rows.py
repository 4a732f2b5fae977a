"""What a rank does to test families that are rows: a whole denoise, by each plan and by this rank alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bodies.guided import counted
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import stages


def denoise_each_way(rank: int, request: Mapping[str, Any], plans: Sequence[str]) -> list[dict[str, Any]]:
    """How far each plan's latents are from those of this rank alone, and how often the transformer was called."""
    alone = counted(lambda: stages.denoise(dict(request)))
    whole = alone["result"].tensor
    found = [{"plan": "one", "calls": alone["forwards"]}]
    for plan in plans:
        split = counted(lambda plan=plan: stages.denoise({**request, "plan": ParallelPlan.parse(plan)}))
        made = split["result"].tensor
        found.append(
            {
                "plan": plan,
                "difference": float((made - whole).abs().max() / whole.abs().max()),
                "sum": float(made.double().sum()),
                "calls": split["forwards"],
            }
        )
    return found
