"""Sharding a diffusers transformer by the split plan of its class: what `latentloom.shard` does.

`parallel.sharding` takes a split plan as an argument; here it is looked up by the transformer's class, guidance is
split over the plan's cfg axis, and step caches are made to decide alike on all ranks.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...parallel.agreement import ALONE
from ...parallel.attention.choice import check_kernel
from ...parallel.attention.kernels import Function
from ...parallel.group import Axis
from ...parallel.mesh import Mesh, all_ranks, make_mesh, mesh_of
from ...parallel.plan import ParallelPlan
from ...parallel.sharding.fingerprint import Due
from ...parallel.sharding.sections.dealing import Dealing
from ...parallel.sharding.shard import ShardedModule
from ...parallel.sharding.shard import shard as shard_module
from ...parallel.sharding.split_plan import Padding, SplitPlan
from ...parallel.sharding.unsharded import leave_out
from ..denoising.step_cache import forget_steps, share_decisions
from ..models.facts import heads_of
from ..models.passed import passed_by
from ..split_plans import plan_of_class
from ..split_plans.paddings import PADDINGS
from .guidance import awaiting_guider, beside, lift_refusal, require_guider, split_guider

if TYPE_CHECKING:
    import torch
    from torch import nn

    from ...parallel.mesh import DeviceMesh


# Step caches that skip blocks when their tokens have changed little: ranks that share tokens decide together.
DECIDE_BY_TOKENS = ("FirstBlockCacheConfig", "SeaCacheConfig")


BLOCK_SKIP = "TransformerBlockSkipHook"
# Hooks by which guiders of diffusers leave a block out, or a part of it.
SKIPS = (BLOCK_SKIP, "AttentionProcessorSkipHook", "FeedForwardSkipHook")


class Handle(ShardedModule):
    """A sharded transformer: `remove()` leaves it as it was, `guider()` splits the branches of guidance."""

    @functools.cached_property
    def _comparing(self) -> Due:
        """What the groups predict for, as they do once for all guiders of a handle."""
        return Due()

    def compare_if(self, answer: Callable[[], bool]) -> None:
        super().compare_if(answer)
        self._comparing.ask(answer)

    def guider(self, base: Any) -> Any:
        """A guider that does what diffusers' guider `base` does, its branches spread over the plan's cfg axis, and over
        its sections, of which one works at one branch while the next one works at the branch before."""
        guider = split_guider(base, self.mesh, self._comparing)
        return awaiting_guider(guider) if guider is base and self.sections is not None else guider

    def guider_beside(self, base: Any, guider: Any) -> Any:
        """A second guider of the same forwards, beside one that `guider()` gave: of a model's sound."""
        return beside(base, guider)


def shard(
    transformer: nn.Module,
    plan: ParallelPlan | str,
    mesh: DeviceMesh | Mesh | None = None,
    *,
    kernel: str | Function = "auto",
    split: SplitPlan | None = None,
) -> Handle:
    """Collective: spread a diffusers transformer's forward over the ranks of the process group, exactly.

    Call it on every rank, with the transformer on the rank's device, then call the transformer as before, with the
    same whole inputs on every rank: each gets the whole output. `handle.remove()` leaves the transformer as it was.
    With `cfg` over 1 a guider made by `handle.guider()` has to ask it; a forward before it does is refused. To let
    each group run a branch of its own and combine them by hand is not supported, because it looks the same from here.
    `kernel` is `auto`, which is tried first, or a name of `parallel/attention/kernels.py`, such as `sdpa`, `cudnn` or
    `sage` (8-bit, not exact), or a function `(q, k, v, mask, scale)`, with which a ring is refused. `split` says how a
    class is split that we have no split plan for, or takes its place.

    Raises ValueError if the plan does not fit the ranks or the class cannot be split; then nothing was changed.
    """
    plan = ParallelPlan.parse(plan) if isinstance(plan, str) else plan
    if getattr(transformer, "_parallel_config", None) is not None:
        raise ValueError(
            f"this {type(transformer).__name__} carries diffusers' own parallel config; load it without "
            "enable_parallelism, because both would split the same tokens"
        )
    split = split_plan_of(transformer, split) if plan.splits_forward else None
    if plan.sequence > 1 and isinstance(kernel, str):
        check_kernel(kernel, next((parameter.device.type for parameter in transformer.parameters()), "cpu"))
    _check_caches(transformer, plan)
    handle = shard_module(transformer, split, mesh_over(plan, mesh), kernel=kernel, handle=Handle, how=BY_TIME)
    attend_to(transformer, handle)
    if handle.session is None:
        handle.on_remove(leave_padding_out(transformer))
    return handle


def time_of(block: nn.Module) -> float:
    """How long a block takes, beside others: as many weights as a token of the image passes in it."""
    return passed_by({name: each.numel() for name, each in block.named_parameters() if each.ndim > 1})[0]


BY_TIME = Dealing(work=time_of)


class Processes(Protocol):
    """What an `accelerate.Accelerator` tells of a script that was started as several processes."""

    num_processes: int
    device: torch.device


def planned(given: ParallelPlan | str | int | Processes, transformers: Iterable[nn.Module]) -> ParallelPlan:
    """A plan, read, or made for a number of ranks. Raises ValueError for what is none, and an Accelerator alone on a
    CPU, or without a process group."""
    if isinstance(given, ParallelPlan):
        return given
    if isinstance(given, str):
        return ParallelPlan.parse(given)
    number = given if isinstance(given, int) else _processes_of(given)
    if number < 1:
        raise ValueError(f"{number} ranks: give at least one, or a plan such as ulysses=2")
    ulysses = math.gcd(number, *(heads_of(cast("Any", part).config) for part in transformers))
    return ParallelPlan.exact(ulysses=ulysses, exchange=number // ulysses)


def _processes_of(accelerator: Processes) -> int:
    title, number = type(accelerator).__name__, getattr(accelerator, "num_processes", None)
    if not isinstance(number, int):
        raise ValueError(f"a {title} is no plan; give one such as ulysses=2, a number of ranks, or an Accelerator")
    if number == 1 and accelerator.device.type == "cpu":
        raise ValueError(
            f"this {title} has num_processes=1 on a CPU, and there `accelerate launch` starts one process only; start "
            "the script by `torchrun --nproc-per-node 2`, or give the plan 1 to run on one device"
        )
    if (ranks := all_ranks().size) != number:
        joined = f"a process group of {ranks}" if ranks > 1 else "no process group"
        raise ValueError(
            f"this {title} has num_processes={number}, but this process has joined {joined}; start the script by "
            f"`torchrun --nproc-per-node {number}`, and spread before the {title} is ended"
        )
    return number


def leave_padding_out(transformer: nn.Module) -> Callable[[], None]:
    """On one device, until what this gives is called, leave out the padding that its class is known to hide."""
    paddings = paddings_of(transformer)
    return leave_out(transformer, paddings) if paddings else lambda: None


def paddings_of(transformer: nn.Module) -> tuple[Padding, ...]:
    """What its class is known to hide of its texts."""
    return PADDINGS.get(type(transformer).__name__.removeprefix("FSDP"), ())


def mesh_over(plan: ParallelPlan, given: DeviceMesh | Mesh | None) -> Mesh:
    """Collective unless a `Mesh` is given: the plan's mesh. One made for another `text` will do."""
    if given is None:
        return make_mesh(plan)
    if not isinstance(given, Mesh):
        return mesh_of(plan, given)
    if dataclasses.replace(given.plan, text=plan.text) != plan:
        raise ValueError(f"plan {plan}: the mesh was made for plan {given.plan}; make one for this plan, or give none")
    return dataclasses.replace(given, plan=plan)


def split_plan_of(transformer: nn.Module, given: SplitPlan | None = None) -> SplitPlan:
    """How this transformer is split, by the plan given or its class's; ValueError with the reason if it cannot be."""
    name = type(transformer).__name__.removeprefix("FSDP")  # how FSDP names the class when it has the weights
    split = given or plan_of_class(type(transformer))
    config: Any = getattr(transformer, "config", None)
    for reason, is_refused in split.refused:
        if is_refused(config):
            raise ValueError(f"this {name} cannot be split: {reason}; run it on one device")
    return split.adapt(split, config) if split.adapt else split


def attend_to(transformer: nn.Module, handle: Handle) -> None:
    """What diffusers' part of a sharded transformer needs: its guider knows of the ranks, and its step cache, turned on
    before or later, decides with all that share the sequence."""
    require_guider(transformer, handle.mesh)
    handle.on_remove(lambda: lift_refusal(transformer))
    if not handle.plan.splits_forward:
        return  # no rank takes part in another's forward
    session, group = handle.session, handle.mesh[Axis.SEQUENCE]
    inside = [] if session is None else list(transformer.modules())

    def before(module: nn.Module, _: Any) -> None:
        is_cached = getattr(module, "_cache_config", None) is not None
        if session is not None:
            session.is_cached = is_cached
        _check_hooks(inside, handle.plan)
        if is_cached:
            _check_caches(module, handle.plan)
            share_decisions(module, group)

    def leave() -> None:
        forget_steps(transformer)
        share_decisions(transformer, ALONE)

    forget_steps(transformer)
    handle.on_remove(leave)
    handle.on_remove(transformer.register_forward_pre_hook(before).remove)


def _check_caches(transformer: nn.Module, plan: ParallelPlan) -> None:
    """Refuse caches that skip blocks whose weights the ranks gather together, or that some of the ranks run."""
    name = type(transformer).__name__.removeprefix("FSDP")
    cache = type(getattr(transformer, "_cache_config", None)).__name__
    if plan.layers > 1 and getattr(transformer, "_cache_config", None) is not None:
        raise ValueError(
            f"plan {plan}: this {name} has a step cache ({cache}), and each rank would skip blocks by itself, which "
            "others wait for; call its disable_cache() first, or use another plan than layers"
        )
    if plan.weights > 1 and cache in DECIDE_BY_TOKENS:
        raise ValueError(
            f"plan {plan}: this {name} has a step cache ({cache}) that skips blocks, whose weights the ranks share; "
            "call its disable_cache() first, or use weights=1"
        )


def _check_hooks(modules: Sequence[nn.Module], plan: ParallelPlan) -> None:
    """Refuse hooks of diffusers that do to some of the tokens something else than to all of them."""
    for registry in [found for each in modules if (found := vars(each).get("_diffusers_hook")) is not None]:
        for hook in registry.hooks.values():
            if reason := _why_whole_only(hook):
                raise ValueError(
                    f"plan {plan}: diffusers' {type(hook).__name__}, of a guider or a layer that is skipped, {reason}; "
                    "do without it, or share out guidance alone (cfg=2)"
                )


def _why_whole_only(hook: Any) -> str:
    """Why a hook needs all tokens in one place; "" if it does not."""
    name = type(hook).__name__
    if name == "SmoothedEnergyGuidanceHook":
        return "blurs over the whole picture, of which each rank has a part"
    if name in SKIPS and hook.dropout != 1.0:
        return f"drops values at random (dropout {hook.dropout}), others on every rank"
    if name == BLOCK_SKIP and hook._metadata.return_encoder_hidden_states_index == 0:
        # as of 0.42.1; where the picture comes back second, the hook hands both on in the other order
        return "hands on the picture as text and the text as picture in this class, and ranks hold other parts of each"
    return ""
