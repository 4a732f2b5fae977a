"""What a rank does to test weights shared in the component store: a whole denoise, and the group made anew."""

import weakref
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _abort_process_group

from bodies.requests import request_of
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding.weights import is_weight_sharded, own_bytes
from latentloom.pipelines import stages
from latentloom.pipelines.components.memory import bytes_of
from latentloom.pipelines.components.store import store
from latentloom.pipelines.values import Model, from_plain

NAMES = ("text_encoder", "transformer", "transformer_2?")


def denoise_in_shares(rank: int, model: dict[str, Any], plan: str, guidance: float) -> dict[str, Any]:
    """The latents of two steps under `plan` against those of this rank alone, and what it held."""
    request = request_of(model, guidance=guidance)
    store().clear()
    whole = stages.denoise(request).tensor
    whole_bytes = sum(map(own_bytes, _transformers(model)))
    store().clear()
    got = stages.denoise({**request, "plan": ParallelPlan.parse(plan)}).tensor
    first = _transformers(model, plan)
    again = stages.denoise({**request, "plan": ParallelPlan.parse(plan)}).tensor
    same = all(x is y for x, y in zip(first, _transformers(model, plan), strict=True))
    encoder = store().load(from_plain(Model, model), NAMES, plan=ParallelPlan.parse(plan))["text_encoder"]
    return {
        "difference": max(float((x - whole).abs().max()) for x in (got, again)),
        "largest": float(whole.abs().max()),
        "num_transformers": len(first),
        "share": sum(map(own_bytes, first)) / whole_bytes,
        "is_kept": same,
        "is_encoder_whole": not is_weight_sharded(encoder),
    }


def denoise_each(rank: int, models: list[dict[str, Any]], plan: str) -> list[dict[str, Any]]:
    """Each model's guided latents under `plan` against those of this rank alone, one after the other in one store."""
    store().clear()
    found = []
    for model in models:
        request = request_of(model, guidance=3.0)
        whole = stages.denoise(request).tensor
        alone = _transformers(model)[0]
        got = stages.denoise({**request, "plan": ParallelPlan.parse(plan)}).tensor
        part = _transformers(model, plan)[0]
        found.append(
            {
                "difference": float((got - whole).abs().max()),
                "largest": float(whole.abs().max()),
                "share": bytes_of(part, is_share=True) / bytes_of(alone),
                "held": id(part),
                "mark": float(whole.double().sum()),
            }
        )
    store().clear()
    return found


def denoise_in_a_new_group(rank: int, model: dict[str, Any], plan: str, path: str) -> dict[str, Any]:
    """The same before and after the process group is aborted and another takes its place."""
    request = request_of(model, plan=ParallelPlan.parse(plan))
    before = stages.denoise(request).tensor
    old = weakref.ref(_transformers(model, plan)[0])
    size = dist.get_world_size()
    _abort_process_group()
    dist.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=size, timeout=timedelta(seconds=20)
    )
    num_bytes = store().num_bytes
    after = stages.denoise(request).tensor
    return {
        "same": torch.equal(before, after),
        "is_old_gone": old() is None,
        "num_bytes": (num_bytes, store().num_bytes),
    }


def denoise_with_a_cache(rank: int, model: dict[str, Any], plan: str) -> tuple[str, bool]:
    """What a rank is told of a cache that skips blocks, and whether it denoises as before afterwards."""
    request, told = request_of(model, guidance=4.0, plan=ParallelPlan.parse(plan)), ""
    before = stages.denoise(request).tensor
    try:
        stages.denoise({**request, "step_cache": "first_block"})
    except ValueError as error:
        told = str(error)
    return told, torch.equal(before, stages.denoise(request).tensor)


def _transformers(model: dict[str, Any], plan: str = "") -> list[Any]:
    parts = store().load(from_plain(Model, model), NAMES, plan=ParallelPlan.parse(plan))
    return [part for name, part in parts.items() if name.startswith("transformer")]
