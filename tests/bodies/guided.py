"""What a rank does to test guidance in parallel: a whole denoise, split and not."""

from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any

import torch
from diffusers.guiders.classifier_free_guidance import ClassifierFreeGuidance

from bodies.shares import small
from latentloom.parallel.group import Axis
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import stages
from latentloom.pipelines.spreading import transformer
from latentloom.pipelines.spreading.guidance import Branches, split_guider
from latentloom.pipelines.values import Latents, Model, from_plain, to_plain
from support.cells import built, mesh_for, outputs


def denoise_both_ways(rank: int, model: dict[str, Any], plan: str, guidance: float) -> dict[str, Any] | None:
    """The latents of two guided steps under `plan`, on the first rank against those of this rank alone."""
    if mesh_for(ParallelPlan.parse(plan)) is None:
        return None
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
    whole = stages.denoise(request).tensor if rank == 0 else None
    calls = counted(lambda: stages.denoise({**request, "plan": ParallelPlan.parse(plan)}))
    got = calls.pop("result").tensor
    return {
        "difference": 0.0 if whole is None else float((got - whole).abs().max()),  # all have the first one's bits
        "largest": float(got.abs().max()),
        "bits": zlib.crc32(got.contiguous().numpy().tobytes()),
        **calls,
    }


def counted(run: Any) -> dict[str, Any]:
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


def exchange_branches(rank: int, count: int, plan: str) -> list[float] | None:
    """The predictions of all branches, after each group has predicted its own: branch i predicts i."""
    mesh = mesh_for(ParallelPlan.parse(plan))
    if mesh is None:
        return None
    branches = Branches(mesh[Axis.CFG])
    everything = [SimpleNamespace(number=number) for number in range(count)]
    for branch in branches.take(everything):
        branch.noise_pred = torch.full((1, 2, 3), float(branch.number))
    return [float(branch.noise_pred.mean()) for branch in branches.exchange()]


def conditional_branches(rank: int, plan: str) -> list[bool] | None:
    """What a guider says of each branch that this rank asks: with the prompt, or without."""
    mesh = mesh_for(ParallelPlan.parse(plan))
    if mesh is None:
        return None
    guider = split_guider(ClassifierFreeGuidance(guidance_scale=3.0), mesh)
    guider.set_state(step=0, num_inference_steps=2, timestep=torch.tensor(1.0))
    said = []
    for branch in guider.prepare_inputs({"text": (torch.ones(1), torch.zeros(1))}):
        guider.prepare_models(torch.nn.Identity())
        said.append(guider.is_conditional)
        branch.noise_pred = branch.text
    # 0 + 3 x (1 - 0), though each rank has asked one branch only
    assert float(guider(guider.branches.all).pred) == 3.0
    return said


def ask_without_guider(rank: int, plan: str, compiled: bool = False) -> list[str] | None:
    """What each forward says: bare, after a guider was made, once it has begun to ask, and when removed."""
    parsed = ParallelPlan.parse(plan)
    mesh = mesh_for(parsed)
    if mesh is None:
        return None
    model, inputs = small("flux", layers=1)
    whole, said = outputs(model, inputs), list[str]()

    def ask() -> None:
        try:
            difference = float((outputs(model, inputs)[0] - whole[0]).abs().max())
            said.append("right" if difference < 1e-5 else f"off by {difference}")
        except Exception as error:
            said.append(str(error))

    handle = transformer.shard(model, parsed, mesh)
    if compiled:
        model.compile(backend="eager")
    ask()
    guider = handle.guider(ClassifierFreeGuidance(guidance_scale=3.0))
    ask()
    guider.set_state(step=0, num_inference_steps=2, timestep=torch.tensor(1.0))
    guider.prepare_inputs({"text": (inputs["encoder_hidden_states"],) * 2})
    guider.prepare_models(torch.compile(model, backend="eager") if compiled else model)
    ask()
    handle.remove()
    ask()
    transformer.shard(model, parsed, mesh).remove()  # never asked
    ask()
    model._compiled_call_impl = None
    return said


def guide_different_latents(rank: int, plan: str) -> str | None:
    """What a step says whose groups start from other noise."""
    parsed = ParallelPlan.parse(plan)
    mesh = mesh_for(parsed)
    assert mesh is not None
    model, inputs, _ = built("flux", "even")
    handle = transformer.shard(model, parsed, mesh)
    guider = handle.guider(ClassifierFreeGuidance(guidance_scale=3.0))
    guider.set_state(step=0, num_inference_steps=2, timestep=torch.tensor(1.0))
    latents = inputs["hidden_states"] + mesh[Axis.CFG].index
    try:
        with torch.no_grad():
            for branch in guider.prepare_inputs({"text": (inputs["encoder_hidden_states"],) * 2}):
                guider.prepare_models(model)
                model(**{**inputs, "hidden_states": latents, "encoder_hidden_states": branch.text})
    except ValueError as error:
        return str(error)
    finally:
        handle.remove()
    return None
