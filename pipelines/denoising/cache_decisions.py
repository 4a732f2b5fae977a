"""Step caches of diffusers on a sharded transformer: all ranks that share the sequence skip a step, or none does.

A cache that decides by tokens would see only this rank's, and ranks that disagree would wait for each other for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...parallel.agreement import any_says, change

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ...parallel.group import Group


def share_decisions(transformer: nn.Module, group: Group) -> None:
    """From now on the transformer's cache decides with all of `group`, which then makes every forward together.

    Caches that go by the number of the step (MagCache, TaylorSeer) decide alike anyway and are left as they are.
    """
    from diffusers.hooks.first_block_cache import FBCHeadBlockHook
    from diffusers.hooks.sea_cache import SeaCacheRootHook

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
    from diffusers.hooks.hooks import CacheContext, _set_cache_context

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
