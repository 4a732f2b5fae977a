"""The plans that are worth a thought for some devices and a model, and why one that was written cannot be."""

from __future__ import annotations

from pathlib import Path

from ..parallel.plan import ParallelPlan
from .auto_plan import num_heads, transformers, why_whole
from .shareable import check_shareable
from .split_plans import SPLIT_PLANS
from .values import Model


def plans_for(model: Model, num_devices: int, *, is_guided: bool) -> tuple[ParallelPlan, ...]:
    """Every split of the devices into guidance, ulysses as far as heads divide, and an exchange of keys and values;
    each with weights whole, shared by a sequence's ranks, and shared by all. What guidance and ulysses do comes first.
    """
    heads = num_heads(Path(model.folder))
    branches = (2, 1) if is_guided and num_devices % 2 == 0 else (1,)
    found = [
        ParallelPlan(cfg=cfg, ulysses=ulysses, ring=ring, allgather=allgather, weights=weights)
        for cfg in branches
        for ulysses in reversed(_divisors(num_devices // cfg))
        if heads % ulysses == 0
        for ring, allgather in _exchanges(num_devices // cfg // ulysses)
        for weights in sorted({1, num_devices // cfg, num_devices})
    ]
    return tuple(found)


def why_not(plan: ParallelPlan, model: Model) -> str:
    """Why this model cannot run by this plan; "" if it can. Reads config files only."""
    if plan.sequence == plan.weights == 1:
        return ""
    folder = Path(model.folder)
    if whole := why_whole(folder):
        return f"plan {plan}: {whole}; use one device, or cfg=2 for a model with guidance"
    for class_name in transformers(folder).values():
        if plan.text != "auto" and not SPLIT_PLANS[class_name].either:
            return f"plan {plan}: {class_name} has no text stream that could be sharded or replicated; leave text out"
    try:
        if plan.weights > 1:
            check_shareable(model, plan)
    except ValueError as error:
        return str(error)
    return ""


def _exchanges(degree: int) -> tuple[tuple[int, int], ...]:
    """(ring, allgather) that share keys and values out to so many ranks."""
    return ((1, degree), (degree, 1)) if degree > 1 else ((1, 1),)


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
