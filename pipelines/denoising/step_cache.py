"""Step caches: steps that reuse what most blocks gave in the step before, by the hooks that diffusers ships.

They trade exactness for speed. FirstBlockCache (ParaAttention, https://github.com/chengzeyi/ParaAttention), MagCache
(https://github.com/Zehong-Ma/MagCache), TaylorSeer (https://huggingface.co/papers/2503.06923) and SeaCache
(https://huggingface.co/papers/2602.18993). Of a sharded transformer all ranks that share the sequence skip a step, or
none does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from diffusers.hooks._common import _ALL_TRANSFORMER_BLOCK_IDENTIFIERS
from diffusers.hooks._helpers import TransformerBlockRegistry
from diffusers.hooks.first_block_cache import FBCHeadBlockHook, FirstBlockCacheConfig
from diffusers.hooks.hooks import CacheContext, _set_cache_context
from diffusers.hooks.mag_cache import FLUX_MAG_RATIOS, MagCacheConfig
from diffusers.hooks.sea_cache import SeaCacheConfig, SeaCacheRootHook
from diffusers.hooks.taylorseer_cache import TaylorSeerCacheConfig
from torch import Tensor, nn

from ...parallel.agreement import ALONE, any_says, change
from ..requests import Denoise
from ..values import THRESHOLDS, StepCache

if TYPE_CHECKING:
    from ...parallel.group import Group
    from ..families.family import Parts

# The transformers for which diffusers ships MagCache's ratios: FLUX.1 dev and schnell.
CALIBRATED = {"FluxTransformer2DModel": {"num_layers": 19, "num_single_layers": 38}}
# Transformers that no guider of ours asks, which would tell a cache the branch and the step; and one whose blocks have
# other arguments and names than diffusers' caches know.
WITHOUT_CACHE = ("LTX2VideoTransformer3DModel", "MiniMaxH3Transformer3DModel", "Cosmos3OmniTransformer")
# What TaylorSeer predicts. Diffusers' own patterns leave out Wan, whose attention is called attn1 and attn2.
ATTENTION = (r"(?:.*_)?blocks\.\d+\.attn\d*",)


def check_step_cache(request: Denoise) -> None:
    """Refuse a cache for all that is known before the model is loaded."""
    kind, threshold, sampling = request.step_cache, request.cache_threshold, request.sampling
    if threshold and kind not in THRESHOLDS:
        raise ValueError(
            f"cache_threshold is {threshold:g}, but step_cache {kind} has none; set cache_threshold to 0, or choose "
            f"one of {', '.join(THRESHOLDS)}"
        )
    model = request.model
    graphs = [(f"engine {model.engine}", "engine eager")] * model.is_compiled
    graphs += [("graphs on", "graphs auto")] * (model.graphs == "on")
    if kind != "none" and graphs:
        found, instead = graphs[0]
        raise ValueError(
            f"step_cache is {kind}, but {model.source} is loaded with {found}, whose graphs run every "
            f"block; load it with {instead}, or set step_cache to none"
        )
    if kind != "none" and request.plan.layers > 1:
        raise ValueError(
            f"step_cache is {kind}, and plan {request.plan} runs blocks on ranks that would each skip them by itself; "
            "set step_cache to none, or use another plan than layers"
        )
    if kind == "mag" and (sampling.sigmas or request.strength < 1 or sampling.guidance_start > 0):
        raise ValueError(
            "step_cache is mag, whose ratios were measured over a whole walk from noise to picture; leave sigmas "
            "empty, strength at 1 and guidance_start at 0, or choose first_block"
        )


@contextlib.contextmanager
def cached(parts: Parts, request: Denoise) -> Iterator[None]:
    """A denoise stage's transformers with the cache, empty; afterwards they are as they were, whatever happened.

    Raises ValueError if the cache cannot be used with this model.
    """
    with contextlib.ExitStack() as stack:
        if request.step_cache != "none":
            _check_scheduler(parts.get("scheduler"), request)
            for name in ("transformer", "transformer_2"):
                if parts.get(name) is not None:
                    config = _config(parts[name], request)
                    stack.enter_context(_enabled(parts[name], config))
        yield


@contextlib.contextmanager
def _enabled(transformer: Any, config: Any) -> Iterator[None]:
    # Diffusers' hooks leave these behind, and a failed forward more of them than a good one: a transformer is shared by
    # later denoises, so each module gets back exactly what it had.
    own = ("forward", "_diffusers_hook", "_cache_config")
    before = {
        module: {name: vars(module)[name] for name in own if name in vars(module)} for module in transformer.modules()
    }
    try:
        transformer.enable_cache(config)
        share_decisions(transformer, ALONE)  # a sharded one decides with its group instead, see spreading.transformer
        yield
    finally:
        if transformer.is_cache_enabled:
            transformer.disable_cache()
        for module, kept in before.items():
            for name in own:
                vars(module).pop(name, None)
            vars(module).update(kept)


def _config(transformer: Any, request: Denoise) -> Any:
    """Diffusers' configuration of the cache for this transformer; ValueError if it cannot have it."""
    _check_transformer(transformer, request.step_cache)
    kind, threshold = request.step_cache, request.cache_threshold
    options: dict[str, Any] = {"threshold": threshold} if threshold else {}
    if kind == "first_block":
        return FirstBlockCacheConfig(**options)
    if kind == "mag":
        return MagCacheConfig(mag_ratios=_ratios(transformer), num_inference_steps=request.steps, **options)
    if kind == "sea":
        return SeaCacheConfig(**options)
    # In the model's own format: rounded to bf16, as by default, predictions would depend on the number of ranks.
    return TaylorSeerCacheConfig(taylor_factors_dtype=transformer.dtype, cache_identifiers=list(ATTENTION))


def _check_scheduler(scheduler: Any, request: Denoise) -> None:
    """`scheduler` is None of a model whose blocks have it: Euler's."""
    name = request.sampling.scheduler
    order = getattr(scheduler, "order", 1) if name == "model" else 2 if name == "heun" else 1
    if order > 1:
        raise ValueError(
            f"step_cache is {request.step_cache}, which compares each step with the one before, but this scheduler "
            "asks the model twice in a step; choose the scheduler euler, or set step_cache to none"
        )


def _check_transformer(transformer: Any, kind: StepCache) -> None:
    name = type(transformer).__name__
    if not hasattr(transformer, "enable_cache") or name in WITHOUT_CACHE:
        raise ValueError(f"step_cache is {kind}, but diffusers has no step cache for {name}; set step_cache to none")
    if name.startswith("FSDP"):  # how FSDP names the class when it has the weights
        raise ValueError(
            f"step_cache is {kind}, but the weights of this {name.removeprefix('FSDP')} are shared out over "
            "ranks, which gather them for skipped blocks too; set step_cache to none, or use weights=1"
        )
    if kind == "taylorseer":
        return
    blocks = _blocks(transformer)
    unknown = next((type(block).__name__ for block in blocks if not _is_known(block)), None)
    if unknown or len(blocks) < 2:
        reason = f"diffusers does not know its {unknown}" if unknown else f"it has {len(blocks)} blocks to skip"
        raise ValueError(
            f"step_cache is {kind}, which {name} cannot have: {reason}; choose taylorseer, or set step_cache to none"
        )
    if kind == "sea" and (
        name != "WanTransformer3DModel" or transformer.config.in_channels != transformer.config.out_channels
    ):
        raise ValueError(
            f"step_cache is sea, which reads the latents of a video made from text, but this {name} makes something "
            "else; choose first_block, or set step_cache to none"
        )


def _blocks(transformer: nn.Module) -> list[nn.Module]:
    """The blocks between the first and the last of which a cache skips."""
    return [
        block
        for name, blocks in transformer.named_children()
        if name in _ALL_TRANSFORMER_BLOCK_IDENTIFIERS and isinstance(blocks, nn.ModuleList)
        for block in blocks
    ]


def _is_known(block: nn.Module) -> bool:
    try:
        TransformerBlockRegistry.get(type(block))
    except ValueError:
        return False
    return True


def _ratios(transformer: Any) -> Tensor:
    name = type(transformer).__name__
    wanted = CALIBRATED.get(name)
    if wanted is None or any(transformer.config.get(key) != value for key, value in wanted.items()):
        raise ValueError(
            f"step_cache is mag, which needs ratios measured on the model, and diffusers has them for FLUX.1 dev and "
            f"schnell only, not for this {name}; choose first_block or taylorseer"
        )
    return FLUX_MAG_RATIOS


# ---- Sharded: a cache that decides by tokens would see only this rank's, and ranks that disagree would wait for each
# other for ever.


def share_decisions(transformer: nn.Module, group: Group) -> None:
    """From now on the transformer's cache decides with all of `group`, which then makes every forward together.

    Caches that go by the number of the step (MagCache, TaylorSeer) decide alike anyway and are left as they are.
    """
    for hook in _cache_hooks(transformer):
        if isinstance(hook, FBCHeadBlockHook):
            _decide_by(hook, "_should_compute_remaining_blocks", partial(_has_first_block_changed, hook, group))
        elif isinstance(hook, SeaCacheRootHook):
            _decide_by(hook.shared_state, "resolve_gate", partial(_resolve_gate, hook.shared_state, group))


def forget_steps(transformer: nn.Module) -> None:
    """Empty the transformer's cache, which holds tensors of this rank's tokens, or of all tokens."""
    for hook in _cache_hooks(transformer):
        if hook._is_stateful:
            hook.reset_state(transformer)


def tell_step(transformer: Any, *, branch: str, step: int, num_steps: int, timestep: Tensor) -> None:
    """Say where the coming forward stands: caches keep one state for each branch of guidance."""
    if not getattr(transformer, "is_cache_enabled", False):
        return
    # Not transformer.cache_context: left by an exception, it would end whenever the garbage collector finds it. The
    # noise level of a flow is its timestep, up to the rounding that some schedulers do; on the device until asked for.
    sigma: Any = timestep / 1000
    context = CacheContext(branch, step_index=step, num_inference_steps=num_steps, timestep=timestep, sigma=sigma)
    _set_cache_context(transformer, context)


def _cache_hooks(transformer: nn.Module) -> Iterator[Any]:
    registry: Any = vars(transformer).get("_diffusers_hook")
    if registry is not None:
        for each in (registry, *registry._get_child_registries()):  # a list that diffusers keeps: no walk every step
            yield from each.hooks.values()


def _decide_by(owner: Any, name: str, decide: Callable[..., Any]) -> None:
    if not hasattr(type(owner), name):
        raise ValueError(
            f"{type(owner).__name__} has no {name}, by which its step cache decides: this version of diffusers builds "
            "it in another way; install the version in constraints.txt"
        )
    setattr(owner, name, decide)


@torch.compiler.disable
def _has_first_block_changed(hook: Any, group: Group, residual: Tensor) -> bool:
    """Collective after the first step: whether what the first block adds has changed by more than the threshold."""
    # All ranks have the same steps behind them, so all return here or none does.
    kept = hook.state_manager.get_state().head_block_residual
    if kept is None:
        return True
    is_close = change(residual, kept, group=group) <= hook.threshold  # not of a number that is none
    return any_says(not is_close, group=group, device=residual.device)


def _resolve_gate(shared: Any, group: Group, state: Any, metadata: Any, indicator: Any, config: Any) -> bool:
    """Collective: SeaCache's own rule, which reads latents that every rank holds whole; then the vote."""
    has_changed = type(shared).resolve_gate(shared, state, metadata, indicator, config)
    # Every rank sums up the distances alike, but for rounding: at the threshold they could differ, and wait for ever.
    should_compute = any_says(has_changed, group=group, device=state.gen_input.device)
    if should_compute and not has_changed:
        state.accumulated_distance, state.gate_should_compute = 0.0, True
    return should_compute
