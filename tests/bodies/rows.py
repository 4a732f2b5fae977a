"""What a rank does to test families that are rows: a whole denoise, by each plan and by this rank alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from bodies.guided import forwards
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import stages
from latentloom.pipelines.values import Latents


def denoise_each_way(rank: int, request: Mapping[str, Any], plans: Sequence[str]) -> list[dict[str, Any]]:
    """How far each plan's latents, of picture and sound, are from those of this rank alone, and how often the
    transformer was called."""
    alone, num_calls = forwards(lambda: stages.denoise(dict(request)))
    whole = _tensors(alone)
    found: list[dict[str, Any]] = [{"plan": "one", "calls": num_calls}]
    for plan in plans:
        split, num_calls = forwards(lambda plan=plan: stages.denoise({**request, "plan": ParallelPlan.parse(plan)}))
        made = _tensors(split)
        found.append(
            {
                "plan": plan,
                "difference": max(
                    float((one - other).abs().max() / other.abs().max()) for one, other in zip(made, whole, strict=True)
                ),
                "sum": sum(float(each.double().sum()) for each in made),
                "calls": num_calls,
            }
        )
    return found


def _tensors(latents: Latents) -> list[Tensor]:
    assert latents.tensor is not None
    return [latents.tensor] if latents.sound is None else [latents.tensor, latents.sound]
