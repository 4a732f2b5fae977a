"""Rows of a forward: conditionings that ComfyUI asks for at once, shared out over the groups of the cfg axis.

    x, context, timestep ... of B rows -> rows 0 .. B/P of group 0, the next of group 1 ... -> answers, gathered, B rows

ComfyUI joins what it asks for along dim 0 (`torch.cat`), in lists each tensor by itself: so a tensor carries rows where
its dim 0 is as long as that of x, and all else every group has whole. Whether that is right of a class and of such
inputs, the check at first use asks, with the very tensors cut that the call has cut. The frames of a video that a UNet
makes are rows of one conditioning, and stay together.
"""

# B rows of a forward, P groups of the cfg axis

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ....parallel.group import Axis, Group
from ....parallel.plan import ParallelPlan
from ....parallel.wording import worded
from .splits.parts import FRAMES, latents_of
from .splits.plans import OF_ALL_ROWS, OF_ROWS, name_of

if TYPE_CHECKING:
    from ....parallel.sharding.shard import ShardedModule


def num_rows(given: Mapping[str, Any]) -> int:
    """How many rows such a call has; of several latents each has so many."""
    return int(latents_of(given)[0].shape[0])


def rows_apart(module: object, given: Mapping[str, Any]) -> int:
    """How many rows of such a call, or frames of a video that are rows, can be computed without the others."""
    return 1 if name_of(module) in OF_ALL_ROWS else num_rows(given) // given.get(FRAMES, 1)


def groups_of(rows: int, count: int) -> int:
    """Over how many of so many devices such rows can be shared out evenly, at most."""
    return max(each for each in range(1, count + 1) if rows % each == 0)


def unfit(plan: ParallelPlan, module: object, given: Mapping[str, Any]) -> str:
    """Why the rows of this call cannot be shared out as the plan says, with one that could take its place; "" if they
    can."""
    count, has_tokens = rows_apart(module, given), name_of(module) not in OF_ROWS
    if count % plan.cfg == 0 and (has_tokens or plan.num_ranks == plan.cfg > 1):
        return ""
    if not has_tokens:
        best, name = groups_of(count, plan.num_ranks), plan if plan.num_ranks > 1 else "auto"
        advice = worded("use plan cfg={}", best)
        if best == 1:
            told = "guide (cfg over 1) with texts of like length and memory for both, or sample {} pictures at once"
            advice = worded(told, max(2, plan.num_ranks))
        told = (
            "plan {}: {} has no tokens to spread, only rows (the conditionings of a guided step, the pictures of a "
            "batch), and this call has {}; {}, or set allow_whole"
        )
        return worded(told, name, type(module).__name__, count, advice)
    other = replace(plan, cfg=1, ulysses=plan.ulysses * plan.cfg)
    if name_of(module) in OF_ALL_ROWS:
        told = "plan {}: {} looks at all conditionings for each, so that cfg cannot part them; use plan {}"
        return worded(told, plan, type(module).__name__, other)
    if count == 1:
        told = (
            "plan {}: cfg has nothing to do here, because each forward is of one row: without guidance (cfg 1), or "
            "where ComfyUI batches no conditionings, as of unequal length; use plan {}, or set allow_whole"
        )
        return worded(told, plan, other)
    told = "plan {}: ComfyUI asks for {} rows at once, which do not go into {} groups; use plan {}, or set allow_whole"
    return worded(told, plan, count, plan.cfg, other)


def carrying(given: Mapping[str, Any]) -> frozenset[str]:
    """The tensors of a call that carry its rows, by their places in its arguments."""
    count, (leaves, _) = num_rows(given), pytree.tree_flatten_with_path(dict(given))
    return frozenset(pytree.keystr(path) for path, each in leaves if _length(each) == count)


def share_rows(handle: "ShardedModule", where: frozenset[str] | None = None) -> None:
    """Until `handle.remove()` have its module compute the rows of its own group, and give those of all; `where` are
    the tensors that carry them, if it is not to be told from a call.
    """
    if (group := handle.mesh[Axis.CFG]).size > 1:
        # Outside of all hooks, as torch's own `Module.compile` is: what they see has the rows of one group.
        vars(handle.module)["_compiled_call_impl"] = functools.partial(_answer, handle.module, group, where)
        handle.on_remove(lambda: vars(handle.module).pop("_compiled_call_impl"))


def _answer(module: nn.Module, group: Group, where: frozenset[str] | None, /, **given: Any) -> Any:
    """Collective: what the module gives of all rows."""
    from ....pipelines.spreading.calls import join

    count, where = num_rows(given), carrying(given) if where is None else where
    size = count // group.size

    def share(path: Any, value: Any) -> Any:
        return value.narrow(0, group.index * size, size) if pytree.keystr(path) in where else value

    out = module._call_impl(**pytree.tree_map_with_path(share, given))
    parts = list(out) if isinstance(out, list | tuple) else [out]
    if any(_length(each) != size for each in parts):
        raise ValueError(f"{type(module).__name__} gives answers that are not of its rows; leave cfg out of the plan")
    joined = [join(each, count, group) for each in parts]
    return joined if isinstance(out, list | tuple) else joined[0]


def _length(value: Any) -> int:
    """Of a tensor along its first dim; -1 of what has none."""
    return int(value.shape[0]) if isinstance(value, torch.Tensor) and value.ndim else -1
