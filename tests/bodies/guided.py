"""What a rank does to test guidance in parallel: a whole denoise, split and not."""

import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from diffusers.guiders.classifier_free_guidance import ClassifierFreeGuidance

from bodies.cache import called
from bodies.meshes import by_plan
from bodies.requests import request_of
from bodies.shares import small
from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import Mesh
from latentloom.pipelines import stages
from latentloom.pipelines.spreading import transformer
from latentloom.pipelines.spreading.guidance import Branches, split_guider
from latentloom.pipelines.values import Latents
from support.cells import built, outputs


def forwards(run: Callable[[], Latents]) -> tuple[Latents, int]:
    """The latents, and how many forwards of a transformer began."""
    return called(
        run,
        lambda module: type(module).__name__.endswith(("Transformer2DModel", "Transformer3DModel", "OmniTransformer")),
    )


@by_plan
def denoise_both_ways(rank: int, model: dict[str, Any], mesh: Mesh, guidance: float) -> dict[str, Any]:
    """The latents of two guided steps under a plan, on the first rank against those of this rank alone."""
    request = request_of(model, guidance=guidance)
    whole = stages.denoise(request).tensor if rank == 0 else None
    made, num_forwards = forwards(lambda: stages.denoise({**request, "plan": mesh.plan}))
    got = made.tensor
    return {
        "difference": 0.0 if whole is None else float((got - whole).abs().max()),  # all have the first one's bits
        "largest": float(got.abs().max()),
        "bits": zlib.crc32(got.contiguous().numpy().tobytes()),
        "forwards": num_forwards,
    }


@by_plan
def exchange_branches(rank: int, count: int, mesh: Mesh) -> list[float]:
    """The predictions of all branches, after each group has predicted its own: branch i predicts i."""
    branches = Branches(mesh[Axis.CFG])
    everything = [SimpleNamespace(number=number) for number in range(count)]
    for branch in branches.take(everything):
        branch.noise_pred = torch.full((1, 2, 3), float(branch.number))
    return [float(branch.noise_pred.mean()) for branch in branches.exchange()]


@by_plan
def conditional_branches(rank: int, mesh: Mesh) -> list[bool]:
    """What a guider says of each branch that this rank asks: with the prompt, or without."""
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


@by_plan
def ask_without_guider(rank: int, mesh: Mesh, compiled: bool = False) -> list[str]:
    """What each forward says: bare, after a guider was made, once it has begun to ask, and when removed."""
    model, inputs = small("flux", layers=1)
    whole, said = outputs(model, inputs), list[str]()

    def ask() -> None:
        try:
            difference = float((outputs(model, inputs)[0] - whole[0]).abs().max())
            said.append("right" if difference < 1e-5 else f"off by {difference}")
        except Exception as error:
            said.append(str(error))

    handle = transformer.shard(model, mesh.plan, mesh)
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
    transformer.shard(model, mesh.plan, mesh).remove()  # never asked
    ask()
    model._compiled_call_impl = None
    return said


@by_plan
def guide_different_latents(rank: int, mesh: Mesh) -> str | None:
    """What a step says whose groups start from other noise."""
    model, inputs, _ = built("flux", "even")
    handle = transformer.shard(model, mesh.plan, mesh)
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
