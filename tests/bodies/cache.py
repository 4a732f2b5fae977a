"""What a rank does to test step caches: whole denoises with a cache, and votes that rounding would split."""

import dataclasses
import functools
import math
import random
import zlib
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from diffusers import FirstBlockCacheConfig, SeaCacheConfig
from diffusers.hooks.first_block_cache import FBCHeadBlockHook
from diffusers.hooks.sea_cache import SeaCacheRootHook
from torch import Tensor, nn

from bodies.meshes import by_plan
from bodies.requests import request_of
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.mesh import _kept as kept_meshes
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import stages
from latentloom.pipelines.denoising import step_cache
from latentloom.pipelines.spreading import transformer
from latentloom.pipelines.values import Latents
from support.cells import built, mesh_for, outputs
from support.told import Told

STEPS = 8


def linear_calls(run: Callable[[], Latents]) -> tuple[Tensor, int]:
    """The latents, and how many linear layers ran."""
    latents, num_calls = called(run, lambda module: isinstance(module, nn.Linear))
    return latents.tensor, num_calls


def called(run: Callable[[], Latents], is_counted: Callable[[nn.Module], bool]) -> tuple[Latents, int]:
    """The latents, and how many forwards of such modules began."""
    num_calls = 0

    def began(module: nn.Module, args: Any) -> None:
        nonlocal num_calls
        num_calls += is_counted(module)

    handle = nn.modules.module.register_module_forward_pre_hook(began)
    try:
        return run(), num_calls
    finally:
        handle.remove()


def use_mesh(plan: str) -> Mesh | None:
    """Collective: let stages run a plan over the first ranks only; None on the others."""
    parsed = ParallelPlan.parse(plan)
    mesh, voters = mesh_for(parsed), _first_ranks(parsed.num_ranks)
    if mesh is not None:
        mesh = dataclasses.replace(mesh, voters=voters)
        kept_meshes.setdefault(dist.group.WORLD, {})[parsed] = mesh  # the stage's own would be over all ranks
    return mesh


@functools.cache
def _first_ranks(num_ranks: int) -> Any:
    """Collective the first time."""
    return dist.new_group(list(range(num_ranks)))


def bits(x: Tensor) -> int:
    return zlib.crc32(x.float().contiguous().numpy().tobytes())


def calibrate(model: dict[str, Any]) -> None:
    """Let MagCache take bobbin for what its ratios were measured on."""
    if model["source"] == "builtin:bobbin":
        step_cache.CALIBRATED["FluxTransformer2DModel"] = {"num_layers": 2}


def denoise_cached(
    rank: int, model: dict[str, Any], cache: dict[str, Any], plans: list[str], options: dict[str, Any]
) -> list[dict[str, Any] | None]:
    """The latents of a denoise with a cache under each plan, against those of the first rank alone on that one."""
    calibrate(model)
    request = request_of(model, **{"width": 64, "steps": STEPS, "guidance": 3.0, **options})
    whole, num_whole = linear_calls(lambda: stages.denoise({**request, **cache})) if rank == 0 else (None, 0)
    found: list[dict[str, Any] | None] = []
    for plan in plans:
        if use_mesh(plan) is None:
            found.append(None)
            continue
        spread = {**request, **cache, "plan": ParallelPlan.parse(plan)}
        got, num_calls = linear_calls(functools.partial(stages.denoise, spread))
        found.append(
            {
                "difference": 0.0 if whole is None else float((got - whole).abs().max()),  # bits are one's of all
                "largest": float(got.abs().max()),
                "bits": bits(got),
                "calls": num_calls,
                "calls_alone": num_whole,
            }
        )
    return found


def cancel_and_go_on(rank: int, model: dict[str, Any], plan: str) -> list[int] | None:
    """The bits of a plain denoise before a cached one that ends in its middle, and after it."""
    if use_mesh(plan) is None:
        return None
    request = request_of(model, width=64, plan=ParallelPlan.parse(plan), steps=6, guidance=3.0)
    before = stages.denoise(request).tensor
    try:
        stages.denoise({**request, "step_cache": "first_block", "cache_threshold": 0.5}, Told(cancel_after=5))
    except Cancelled:
        return [bits(before), bits(stages.denoise(request).tensor)]
    raise AssertionError("it was not cancelled")


# ---- votes


CONFIGS = {"first_block": FirstBlockCacheConfig, "sea": SeaCacheConfig}
VARIANTS = {"first_block": "flux", "sea": "wan"}


@by_plan
def split_votes(rank: int, kind: str, mesh: Mesh) -> list[tuple[bool, int]]:
    """Whether the second step is computed, and with how many collectives, for thresholds about the measured change.

    In each round every rank has its own: the number itself, or the next float below or above it.
    """
    model, inputs, _ = built(VARIANTS[kind], "even")
    handle = transformer.shard(model, mesh.plan, mesh)
    model.enable_cache(CONFIGS[kind](threshold=1e9))
    try:
        measured = _second_step(model, inputs, kind)[1]
        chosen = random.Random(0)
        rounds = [*([0] * 4, [-1] * 4, [1] * 4), *(chosen.choices((-1, 0, 1), k=4) for _ in range(6))]
        found = []
        for each in rounds:
            threshold = math.nextafter(measured, math.inf * each[rank]) if each[rank] else measured
            for hook in step_cache._cache_hooks(model):
                if isinstance(hook, FBCHeadBlockHook):
                    hook.threshold = threshold
                elif isinstance(hook, SeaCacheRootHook):
                    hook.config.threshold = threshold
            before = mesh.sent.calls
            computed = _second_step(model, inputs, kind)[0]
            found.append((computed, mesh.sent.calls - before))
        return found
    finally:
        model.disable_cache()
        handle.remove()


def _second_step(model: Any, inputs: dict[str, Any], kind: str) -> tuple[bool, float]:
    """Two steps from an empty cache: whether the blocks of the second ran, and what the cache measured."""
    step_cache.forget_steps(model)
    measured: list[float] = []
    own_change = step_cache.change

    def change(*args: Any, **options: Any) -> float:
        measured.append(own_change(*args, **options))
        return measured[-1]

    step_cache.change = change
    ran: list[str] = []
    counter = _last_linear(model).register_forward_pre_hook(lambda *_: ran.append("the last block"))
    try:
        for step in (1, 2):
            given = {**inputs, "hidden_states": inputs["hidden_states"] * (1 + 0.01 * step)}
            with model.cache_context("cond", step_index=step, sigma=0.5, num_inference_steps=9):
                outputs(model, given)
    finally:
        counter.remove()
        step_cache.change = own_change
    if kind == "sea":
        hooks = [hook for hook in step_cache._cache_hooks(model) if isinstance(hook, SeaCacheRootHook)]
        measured.append(hooks[0].state_manager._state_cache["cond"].accumulated_distance)
    return len(ran) == 2, measured[-1]


def _last_linear(model: nn.Module) -> nn.Module:
    """A layer of the last block, which a skipped step leaves out."""
    lists = [each for each in model.children() if isinstance(each, nn.ModuleList)]
    return [each for each in lists[-1][-1].modules() if isinstance(each, nn.Linear)][-1]


@by_plan
def cache_after_shard(rank: int, mesh: Mesh) -> list[Any]:
    """With a cache turned on after sharding: whether blocks ran in the second step, and then unsharded, alone."""
    model, inputs, _ = built("flux", "even")
    handle = transformer.shard(model, mesh.plan, mesh)
    model.enable_cache(FirstBlockCacheConfig(threshold=0.5))
    try:
        together = _second_step(model, inputs, "first_block")
        handle.remove()
        alone = _second_step(model, inputs, "first_block") if rank == 0 else None  # would wait for the others
        return [together[0], together[1], alone and alone[1]]
    finally:
        model.disable_cache()
