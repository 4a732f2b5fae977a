"""What a rank does to test guidance in parallel: a whole denoise, split and not."""

from __future__ import annotations

import zlib
from typing import Any

from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import sharding, stages
from latentloom.pipelines.values import Latents, Model, from_plain, to_plain

from cells import mesh_for


def denoise_both_ways(rank: int, model: dict[str, Any], plan: str, guidance: float) -> dict[str, Any] | None:
    """The latents of two guided steps under `plan` against those of this rank alone."""
    parsed = ParallelPlan.parse(plan)
    mesh = mesh_for(parsed)
    if mesh is None:
        return None
    sharding.mesh_for = lambda _: mesh  # the mesh over some of the ranks; the stage's own is over all
    family = from_plain(Model, model).family
    frames = {"frames": 5} if family == "wan" else {}
    canvas = to_plain(Latents(family=family, width=48, height=64, batch=1, **frames))
    text = {"model": model, "prompt": "a red circle", "negative_prompt": "blue", "text_length": 33}
    request = {
        "model": model,
        "conditioning": stages.encode_text(text),
        "latents": canvas,
        "seed": 5,
        "steps": 2,
        "guidance": guidance,
    }
    whole = stages.denoise(request)["tensor"]
    calls = _counted(lambda: stages.denoise({**request, "plan": plan}))
    got = calls.pop("result")["tensor"]
    return {
        "difference": float((got - whole).abs().max()),
        "largest": float(whole.abs().max()),
        "bits": zlib.crc32(got.contiguous().numpy().tobytes()),
        **calls,
    }


def _counted(run: Any) -> dict[str, Any]:
    """Its result, and how often a transformer's forward began meanwhile."""
    from torch import nn

    count = 0

    def began(module: nn.Module, args: Any) -> None:
        nonlocal count
        count += type(module).__name__.endswith(("Transformer2DModel", "Transformer3DModel"))

    handle = nn.modules.module.register_module_forward_pre_hook(began)
    try:
        result = run()
        return {"result": result, "forwards": count}
    finally:
        handle.remove()
