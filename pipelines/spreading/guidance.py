"""Guidance in parallel: each group of the cfg axis runs its share of a guider's branches, then all get all predictions.

Any guider of diffusers will do, because only who asks the transformer changes: its own arithmetic runs on every rank
with the whole list of predictions.
"""

# N branches of one step

from __future__ import annotations

import copy
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch

from ...parallel.collectives import gather
from ...parallel.group import Axis, Group
from ...parallel.mesh import Mesh
from ...parallel.sharding.fingerprint import Due, check_same
from ...parallel.sharding.sections.waiting import finished
from ..denoising.inside import derive

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.hooks import RemovableHandle

# Transformers of a cfg plan that no split guider asks yet, each with the hook that refuses to run them so.
_without_guider: weakref.WeakKeyDictionary[nn.Module, RemovableHandle] = weakref.WeakKeyDictionary()


def require_guider(transformer: nn.Module, mesh: Mesh) -> None:
    """From now on, until `lift_refusal`, a forward raises ValueError if the plan has a cfg axis.

    Every group would compute the same, and nothing but the time would show it. A hook that is gone once a guider asks
    costs the forwards after it nothing, compiled ones too.
    """

    def refuse(module: nn.Module, _: Any) -> None:
        raise ValueError(
            f"plan {mesh.plan}: no branch of guidance is split, because no guider of this handle asks the "
            f"{type(module).__name__.removeprefix('FSDP')}, and all groups of ranks would compute the same; give a "
            "modular pipeline handle.guider(its guider), or leave cfg out of the plan for a pipeline that has none"
        )

    if mesh[Axis.CFG].size > 1:
        _without_guider[transformer] = transformer.register_forward_pre_hook(refuse, prepend=True)


def lift_refusal(transformer: nn.Module) -> None:
    """Let it run: a guider is about to ask it, or it is sharded no more. What `torch.compile` gave of it will do."""
    hook = _without_guider.pop(cast("nn.Module", getattr(transformer, "_orig_mod", transformer)), None)
    if hook is not None:
        hook.remove()


def split_guider(base: Any, mesh: Mesh, comparing: Due | None = None) -> Any:
    """A guider that does what `base` does, with its branches split over the cfg axis; `base` itself if that is 1.

    The groups compare what they predict for once, for all guiders of the same `comparing`.
    """
    if mesh[Axis.CFG].size == 1:
        return base
    guider = copy.copy(base)
    derive(guider, _SplitBranches)
    guider.branches = Branches(mesh[Axis.CFG])
    guider.comparing = comparing or Due()
    return guider


class Branches:
    """The branches of the step under way: all of them, and the ones that this group runs."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.all: list[Any] = []
        self.prepared = 0
        self.is_cached = False

    def take(self, branches: list[Any]) -> list[Any]:
        self.all, self.prepared = branches, 0
        return [branches[number] for number in self.numbers]

    @property
    def numbers(self) -> list[int]:
        """The branches that this group runs."""
        count, size = len(self.all), self.group.size
        if count == 1:
            return [0]
        # Every group runs equally many, so that ranks which share weights gather them in step: where the branches do
        # not divide, some are run twice. Of three branches over two groups:  group 0: 0 2   group 1: 1 0
        return [(self.group.index + turn * size) % count for turn in range(-(-count // size))]

    def exchange(self) -> list[Any]:
        """Collective: every branch with its prediction."""
        # Of one branch alone every group has made its own prediction. With a step cache the first group's is taken: the
        # others may have run other branches before, and so remember other steps.
        if len(self.all) == 1 and not self.is_cached:
            return self.all
        size, count = self.group.size, len(self.all)
        for number in self.numbers:
            self.all[number].noise_pred = finished(self.all[number].noise_pred)
        mine = [self.all[number].noise_pred for number in self.numbers if number % size == self.group.index]
        owned = [len(range(owner, count, size)) for owner in range(size)]
        like = self.all[self.numbers[0]].noise_pred
        block = torch.stack(mine).flatten() if mine else like.new_empty(0)
        gathered = gather(block, sizes=[each * like.numel() for each in owned], group=self.group)
        predictions = gathered.view(count, *like.shape)  # N B ...
        order = [number for owner in range(size) for number in range(owner, count, size)]
        for number, prediction in zip(order, predictions, strict=True):
            self.all[number].noise_pred = prediction
        return self.all


class _SplitBranches:
    """Comes before a guider's own class; the blocks of different families use one or the other `prepare_inputs`."""

    branches: Branches
    comparing: Due

    def prepare_inputs(self, data: Any) -> list[Any]:
        return self.branches.take(super().prepare_inputs(data))  # pyrefly: ignore[missing-attribute]

    def prepare_inputs_from_block_state(self, data: Any, input_fields: Any) -> list[Any]:
        found = super().prepare_inputs_from_block_state(data, input_fields)  # pyrefly: ignore[missing-attribute]
        return self.branches.take(found)

    def prepare_models(self, denoiser: Any) -> None:
        # guiders tell by this count which branch is asked next; they count it up themselves
        self._count_prepared = self.branches.numbers[self.branches.prepared]
        self.branches.prepared += 1
        lift_refusal(denoiser)  # not before: a guider that was made may never ask
        self.branches.is_cached = getattr(denoiser, "is_cache_enabled", False)
        if self.comparing.is_now():
            self.comparing.is_done()
            _check_first_call(denoiser, self.branches.group)
        super().prepare_models(denoiser)  # pyrefly: ignore[missing-attribute]

    def __call__(self, data: list[Any]) -> Any:
        return super().__call__(self.branches.exchange())  # pyrefly: ignore[missing-attribute]


def awaiting_guider(base: Any) -> Any:
    """A guider that does what `base` does once all branches are here, which sections of ranks compute meanwhile."""
    guider = copy.copy(base)
    derive(guider, _Awaiting)
    return guider


class _Awaiting:
    """Comes before a guider's own class."""

    def __call__(self, data: list[Any]) -> Any:
        for each in data:
            each.noise_pred = finished(each.noise_pred)
        return super().__call__(data)  # pyrefly: ignore[missing-attribute]


def beside(base: Any, guider: Any) -> Any:
    """The guider of what a transformer predicts beside, such as sound: its branches are those of `guider`, as it may be
    split; both guiders have the same ones on."""
    if not isinstance(guider, _SplitBranches):
        return base
    second = copy.copy(base)
    derive(second, _SameBranches)
    second.branches = guider.branches
    return second


class _SameBranches:
    """Comes before the class of a second guider, which asks for nothing by itself."""

    branches: Branches

    def prepare_inputs_from_block_state(self, data: Any, input_fields: Any) -> list[Any]:
        return []

    def __call__(self, data: list[Any]) -> Any:
        return super().__call__(self.branches.exchange())  # pyrefly: ignore[missing-attribute]


# What a transformer is given alike in every branch, under the names that it has in one class or another.
SHARED = ("hidden_states", "x", "timestep", "timesteps", "t")


def _check_first_call(transformer: Any, group: Group) -> None:
    """Collective in the next forward: ValueError on every rank if the groups predict for different latents."""

    def before(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        handle.remove()
        given = {name: kwargs[name] for name in SHARED if name in kwargs}
        if args:
            given["the first argument"] = args[0]
        check_same(given, group, title=type(module).__name__, around=group)

    handle = transformer.register_forward_pre_hook(before, with_kwargs=True, prepend=True)
