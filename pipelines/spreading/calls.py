"""A transformer's calls: what tells two apart, which are never shared out, and which arguments carry rows."""

import inspect
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ...parallel.collectives import gather
from ...parallel.group import Group

ALL_ROWS = "perturbed attention (pag_scale) needs the rows of all branches in one call"
REPLACED = "perturbed attention (pag_scale) is none that the split plan of its transformer describes"


def _is_cached(cache: Any, given: Mapping[str, Any]) -> bool:
    return given.get("kv_cache_mode") == "cached"


# Objects that calls take and fill, by class: whether a call given them and these arguments only reads. All ranks
# compute the calls that fill it, so all have it.
CACHES: Mapping[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "Flux2KVCache": _is_cached,
    "QwenImage21KVCache": _is_cached,
    "GlmImageKVCache": lambda cache, given: all(each.mode != "write" for each in cache.caches),
}

# Pipelines whose guidance is never shared out, and why.
NEVER_SHARED = {"AnyFlowFARPipeline": "it keeps the keys of all branches from one chunk to the next"}
# Of those and of the pipelines with perturbed attention, which can be split by tokens.
BY_TOKENS = ("AnyFlowFARPipeline", "HunyuanDiTPAGPipeline", "PixArtSigmaPAGPipeline")


def is_perturbed(pipe: Any, call: Callable[..., Any], given: Mapping[str, Any]) -> bool:
    """Whether this call of the pipeline is guided by perturbed attention, for which it changes its transformer."""
    scale = inspect.signature(call).parameters.get("pag_scale")
    return scale is not None and "PAG" in type(pipe).__name__ and (given.get("pag_scale", scale.default) or 0) > 0


def opaque(value: Any, given: Mapping[str, Any]) -> str:
    """The class of a value of which nobody knows whether a call given these arguments changes it; "" for others."""
    known = Tensor | bool | int | float | str | torch.dtype | torch.device | None
    only_reads = CACHES.get(type(value).__name__, lambda *_: False)
    return "" if isinstance(value, known) or only_reads(value, given) else type(value).__name__


def signature_of(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        return "tensor", tuple(value.shape), value.dtype, value.device.type
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, bool | str | torch.dtype | None):
        return value
    if isinstance(value, int | float):
        return type(value).__name__  # such as the time of a step
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(signature_of, value))
    if isinstance(value, dict):
        return "dict", tuple((str(name), signature_of(each)) for name, each in value.items())
    return type(value).__name__


# ---- Rows of a doubled batch: which arguments of a call carry them, cut and joined again; proven, never guessed
#
# Pipelines that double their batch for guidance give a transformer tensors and lists with one entry for each row. What
# looks so may also be something else, such as a table of as many positions; so a cut counts only once its result was
# compared with that of the whole call.

# The names under which a transformer is given what it predicts for, where it is not the first argument.
FIRST = ("hidden_states", "x", "latents")
TOLERANCE = 1e-5
ROUNDING = 8  # times the number format's epsilon: what another batch size may change in a format below fp32


def num_rows(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """How many rows the transformer's call has; 1 where that cannot be seen."""
    first = args[0] if args else next((kwargs[name] for name in FIRST if kwargs.get(name) is not None), None)
    if isinstance(first, Tensor):
        return first.shape[0] if first.ndim else 1
    return len(first) if isinstance(first, list) and first else 1


Lists = Literal["all", "of tensors", "none"]


@dataclass(frozen=True)
class RowReading:
    """What of a call's arguments is taken to have an entry for each row: lists, and tensors along the first of these
    dims in which they are as long as there are rows."""

    lists: Lists
    dims: tuple[int, ...] = (0,)
    but: str = ""  # an argument that all groups get whole


# The likeliest first. Not every list is one of rows: a ControlNet gives one of its blocks; and layers of a text
# encoder stand before the rows in HiDream.
WAYS = (RowReading("all"), RowReading("of tensors"), RowReading("none"), RowReading("all", (0, 1)))


def ways(kwargs: Mapping[str, Any], count: int) -> list[RowReading]:
    """How the rows of a call may be cut, the same on every rank; last without one argument, of which OmniGen's first
    row is that of all rows."""
    tensors = [name for name, each in kwargs.items() if isinstance(each, Tensor) and each.ndim and len(each) == count]
    return [*WAYS, *(RowReading("all", but=name) for name in tensors if name not in FIRST)]


def share(call: tuple[tuple[Any, ...], Mapping[str, Any]], count: int, group: Group, way: RowReading) -> Any:
    """A call's arguments with this group's share of the rows."""
    args, kwargs = call
    parts = {name: each if name == way.but else cut(each, count, group, way) for name, each in kwargs.items()}
    return tuple(cut(each, count, group, way) for each in args), parts


def cut(tree: Any, count: int, group: Group, way: RowReading) -> Any:
    """This group's share of the rows."""
    size = count // group.size
    if isinstance(tree, Tensor):
        dim = next((dim for dim in way.dims if tree.ndim > dim and tree.shape[dim] == count), None)
        return tree if dim is None else tree.narrow(dim, group.index * size, size)
    holds_tensors = isinstance(tree, list) and all(isinstance(each, Tensor) for each in tree)
    is_of_rows = way.lists == "all" or (way.lists == "of tensors" and holds_tensors)
    if isinstance(tree, list) and len(tree) == count and is_of_rows:
        return tree[group.index * size :][:size]
    if isinstance(tree, list | tuple):
        return type(tree)(cut(each, count, group, way) for each in tree)
    if isinstance(tree, dict):
        return {name: cut(each, count, group, way) for name, each in tree.items()}
    return tree


def copied(tree: Any) -> Any:
    """The same in lists and dicts of its own, because some transformers empty those that they are given."""
    return pytree.tree_map(lambda each: each, tree)


def join(tree: Any, count: int, group: Group) -> Any:
    """Collective: all rows of what each group has its share of."""
    size = count // group.size
    if isinstance(tree, Tensor):
        return _gathered(tree, group) if tree.ndim and tree.shape[0] == size else tree
    if isinstance(tree, list) and len(tree) == size and all(isinstance(each, Tensor) for each in tree):
        parts = [_gathered(each[None], group) for each in tree]
        return [part[member] for member in range(group.size) for part in parts]
    children, spec = pytree.tree_flatten(tree, is_leaf=lambda each: each is not tree)
    if len(children) == 1 and children[0] is tree:
        return tree
    return pytree.tree_unflatten([join(each, count, group) for each in children], spec)


def _gathered(part: Tensor, group: Group) -> Tensor:
    flat = gather(part.contiguous().flatten(), sizes=[part.numel()] * group.size, group=group)
    return flat.view(group.size * part.shape[0], *part.shape[1:])


def is_all(found: Any, joined: Any) -> bool:
    """Whether a share came out as long as the whole, as where an argument that was not cut is added to it."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(joined), strict=False)
    return all(one is other for one, other in pairs)


def apart(found: Any, whole: Any) -> float:
    """How far two results are apart, of what rounding may change: in fp32, 1e-5 of the largest value."""
    ours, theirs = pytree.tree_leaves(found), pytree.tree_leaves(whole)
    if len(ours) != len(theirs):
        return math.inf
    return max((_apart(one, other) for one, other in zip(ours, theirs, strict=True)), default=0.0)


def _apart(one: Any, other: Any) -> float:
    if not isinstance(other, Tensor) or not isinstance(one, Tensor):
        return 0.0 if one is other or one == other else math.inf
    if one.shape != other.shape or one.dtype != other.dtype:
        return math.inf
    if not other.is_floating_point():
        return 0.0 if torch.equal(one, other) else math.inf
    epsilon = torch.finfo(other.dtype).eps
    tolerance = TOLERANCE if epsilon < TOLERANCE else ROUNDING * epsilon
    difference, largest = (float(each.abs().max()) if each.numel() else 0.0 for each in (one - other, other))
    share = difference / (tolerance * max(1.0, largest))
    return math.inf if math.isnan(share) else share
