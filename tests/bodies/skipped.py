"""What ranks do in tests of transformers that leave blocks out, as the arguments, guiders or forks of a class do."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from diffusers.hooks.hooks import HookRegistry, ModelHook
from diffusers.hooks.layer_skip import FeedForwardSkipHook, TransformerBlockSkipHook
from diffusers.hooks.smoothed_energy_guidance_utils import SmoothedEnergyGuidanceHook
from torch import Tensor, nn

from bodies.meshes import by_plan
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.sharding.hooks import modules_at
from latentloom.pipelines.spreading.transformer import shard, split_plan_of
from support.cells import built, compared, outputs
from zoo.cases import SKIPPED

Undo = Callable[[], None]


@by_plan
def without_block(rank: int, variant: str, mesh: Mesh, way: str, place: int) -> dict[str, Any] | str | None:
    """As a cell of the matrix, of three blocks in each list without the one at `place`; or how it was refused.

    `way`: "hook", as diffusers' guiders do it, by which the block is asked and gives back what it was given; "call", as
    a forward may do it, by which it is not asked. None where the class allows neither on one process.
    """
    model, inputs, full = built(variant, SKIPPED.name)
    leave = {"hook": _by_hook, "call": _uncalled}[way]
    if min(map(len, _lists_of(model))) < 2:
        return None
    try:
        with leave(model, place):
            whole = outputs(model, inputs)
    except Exception:  # of other shapes between its blocks, or unknown to diffusers' hook
        return None
    if all(map(torch.equal, whole, full)):  # its forward goes through its blocks in another way
        return None
    return _sharded(model, inputs, whole, mesh, leave(model, place))


def _sharded(
    model: nn.Module, inputs: dict[str, Any], whole: list[Tensor], mesh: Mesh, left_out: Any
) -> dict[str, Any] | str:
    handle = shard(model, mesh.plan, mesh)
    try:
        with left_out:
            return compared(outputs(model, inputs), whole)
    except ValueError as error:
        return str(error)
    finally:
        handle.remove()


@contextlib.contextmanager
def _by_hook(model: nn.Module, place: int) -> Iterator[None]:
    with hooked([each[place] for each in _lists_of(model)], lambda: TransformerBlockSkipHook(1.0)):
        yield


@contextlib.contextmanager
def _uncalled(model: nn.Module, place: int) -> Iterator[None]:
    lists: list[Any] = _lists_of(model)
    for each in lists:
        each.__class__, each.place = _Short, place
    try:
        yield
    finally:
        for each in lists:
            each.__class__ = nn.ModuleList


class _Short(nn.ModuleList):
    """A list of which all but one is gone through."""

    place: int

    def __iter__(self) -> Iterator[nn.Module]:
        left_out = self.place % len(self)
        return (each for number, each in enumerate(self.children()) if number != left_out)


def _lists_of(model: nn.Module) -> list[nn.ModuleList]:
    """The lists that hold the blocks of its split plan."""
    blocks = {each for path in split_plan_of(model).blocks for each in modules_at(model, path, "")}
    return [each for each in model.modules() if isinstance(each, nn.ModuleList) and blocks & set(each.children())]


@contextlib.contextmanager
def hooked(modules: Sequence[nn.Module], make: Callable[[], ModelHook]) -> Iterator[None]:
    """With such a hook of diffusers on each module."""
    registries = [HookRegistry.check_if_exists_or_initialize(each) for each in modules]
    for each in registries:
        each.register_hook(make(), "of a test")
    try:
        yield
    finally:
        for each in registries:
            each.remove_hook("of a test", recurse=False)


@by_plan
def foreign_hooks(rank: int, mesh: Mesh) -> dict[str, str]:
    """What a forward says under each hook of which ranks that share tokens would make something else."""
    model, inputs, whole = built("flux", "even")
    block: Any = model.get_submodule("transformer_blocks.0")
    hooks = {
        "blur": (block.attn.to_q, lambda: SmoothedEnergyGuidanceHook(1.0)),
        "dropout": (block.ff, lambda: FeedForwardSkipHook(0.5)),
        "order": (block, lambda: TransformerBlockSkipHook(1.0)),
    }
    said = {
        name: str(_sharded(model, inputs, whole, mesh, hooked([each], make))) for name, (each, make) in hooks.items()
    }
    return {**said, "none": str(_sharded(model, inputs, whole, mesh, contextlib.nullcontext()))}
