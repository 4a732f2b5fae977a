"""Functions that mix no rows: which dim of their result holds this rank's rows.

Each is told which of its arguments are parts, and says which dim of the result holds the rows, or refuses by name what
would mix them. `mode.py` looks them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from .part import Part, Parts, tensors_in

Rule = Callable[[Parts, Any, Sequence[Any], Mapping[str, Any]], Any]
"""Calls a torch function that is given a part, in such a way that the ranks' results are parts of the whole result."""


def pointwise(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    tensors = list(tensors_in(args, kwargs))
    part = shared(parts, func, tensors)
    out = func(*args, **kwargs)
    # A comparison with what is no number answers NotImplemented.
    return parts.mark(out, part) if isinstance(out, Tensor) else out


def shared(parts: Parts, func: Any, tensors: Iterable[Tensor]) -> Part:
    """The part that tensors have in common when they are broadcast together."""
    tensors = list(tensors)
    known = [(x, part) for x in tensors if (part := parts.of(x)) is not None]
    found = {(part.dim - x.ndim, replace(part, dim=0)) for x, part in known}
    if len(found) > 1:
        raise parts.refusal(func, "is given tensors whose rows are in different dims")
    from_last, part = found.pop()
    for x in tensors:
        if parts.of(x) is None and x.ndim >= -from_last and x.shape[from_last] != 1:
            raise parts.refusal(func, f"is given rows of the picture and a whole tensor of {tuple(x.shape)}")
    return replace(part, dim=max(x.ndim for x in tensors) + from_last)


def reshaped(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """The rows stay where they are in memory order: as many elements come before them as did."""
    x, part = _of_first(parts, args)
    out = func(*args, **kwargs)
    before, prefix = math.prod(x.shape[: part.dim]) * part.outer, 1
    for dim, size in enumerate(out.shape):
        outer, rest = divmod(before, prefix)
        # Two dims cannot both fit: the second would have all rows of the first before it, LEAST_ROWS times as much.
        if outer and not rest and size and size % (outer * parts.own) == 0:
            return parts.mark(out, Part(dim, outer))
        prefix *= size
    raise parts.refusal(func, f"from {tuple(x.shape)} to {tuple(out.shape)} mixes rows")


def kept(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """What the other arguments hold does not matter."""
    _, part = _of_first(parts, args)
    return parts.mark(func(*args, **kwargs), part)


def permuted(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    x, part = _of_first(parts, args)
    given = kwargs.get("dims", args[1:])
    order = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
    return parts.mark(func(*args, **kwargs), Part([dim % x.ndim for dim in order].index(part.dim), part.outer))


def transposed(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    x, part = _of_first(parts, args)
    first, second = (dim % x.ndim for dim in (*args[1:], *kwargs.values()))
    dim = {first: second, second: first}.get(part.dim, part.dim)
    return parts.mark(func(*args, **kwargs), Part(dim, part.outer))


def moved(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    x, part = _of_first(parts, args)
    out, place = func(*args, **kwargs), x.new_empty(tuple(range(x.ndim)), device="meta")
    return parts.mark(out, Part(func(place, *args[1:], **kwargs).shape.index(part.dim), part.outer))


def along(index: int, default: int | None = None) -> Rule:
    """A function that works along one dim, its argument number `index`: any but that of the rows."""

    def rule(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        dim = kwargs.get("dim", args[index] if len(args) > index else default)
        tensors = list(tensors_in(args[:1], {}))
        if any(parts.of(x) is None or x.ndim != tensors[0].ndim for x in tensors):
            raise parts.refusal(func, "is given rows of the picture and a whole tensor")
        part = shared(parts, func, tensors)
        if not isinstance(dim, int) or dim % tensors[0].ndim == part.dim:
            raise parts.refusal(func, f"along dim {dim} mixes rows")
        out = func(*args, **kwargs)
        for each in tensors_in((out,), {}):
            parts.mark(each, part)
        return out

    return rule


def stacked(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    part = shared(parts, func, args[0])
    out = func(*args, **kwargs)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % out.ndim
    return parts.mark(out, Part(part.dim + (dim <= part.dim), part.outer))


def indexed(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Numbers and slices of the other dims, and new dims."""
    x, part = _of_first(parts, args)
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if any(item not in (None, Ellipsis) and type(item) not in (int, slice) for item in index):
        raise parts.refusal(func, "takes numbers and slices only when a picture is split")
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    at, taken = index.index(Ellipsis), sum(item is not None for item in index) - 1
    index = (*index[:at], *[slice(None)] * (x.ndim - taken), *index[at + 1 :])
    rows = [place for place, item in enumerate(index) if item is not None][part.dim]
    if index[rows] != slice(None):
        raise parts.refusal(func, "takes some rows of a picture that is split")
    dropped = sum(isinstance(item, int) for item in index[:rows])
    return parts.mark(func(*args, **kwargs), replace(part, dim=rows - dropped))


def repeated(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """The other dims, and new ones in front, as often as is wanted."""
    x, part = _of_first(parts, args)
    times = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    new = len(times) - x.ndim
    if kwargs or times[new + part.dim] != 1:
        raise parts.refusal(func, "along the dim of the rows mixes them")
    return parts.mark(func(*args), Part(new + part.dim, part.outer))


def unbound(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor, ...]:
    x, part = _of_first(parts, args)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % x.ndim
    if dim == part.dim:
        raise parts.refusal(func, f"along dim {dim} mixes rows")
    return tuple(parts.mark(each, Part(part.dim - (dim < part.dim), part.outer)) for each in func(*args, **kwargs))


def reduced(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """A sum or a mean over other dims than that of the rows."""
    x, part = _of_first(parts, args)
    given = kwargs.get("dim", args[1] if len(args) > 1 else None)
    dims = {dim % x.ndim for dim in ([given] if isinstance(given, int) else given or range(x.ndim))}
    if part.dim in dims:
        raise parts.refusal(func, "over the dim of the rows mixes them")
    out = func(*args, **kwargs)
    dropped = 0 if out.ndim == x.ndim else sum(dim < part.dim for dim in dims)
    return parts.mark(out, Part(part.dim - dropped, part.outer))


def normalised(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Each place by what is in its last dims, which are not the rows."""
    x, part = _of_first(parts, args)
    shape = kwargs.get("normalized_shape", args[1] if len(args) > 1 else ())
    if part.dim >= x.ndim - len(shape):
        raise parts.refusal(func, "over the dim of the rows mixes them")
    return parts.mark(func(*args, **kwargs), part)


def batch_normed(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """By moments that were learned."""
    _, part = _of_first(parts, args)
    if kwargs.get("training", args[5] if len(args) > 5 else False) or part.dim < 2:
        raise parts.refusal(func, "takes moments of the rows: call the model's eval() first")
    return parts.mark(func(*args, **kwargs), part)


def linear(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    x, part = _of_first(parts, args)
    if part.dim == x.ndim - 1:
        raise parts.refusal(func, "along the dim of the rows mixes them")
    return parts.mark(func(*args, **kwargs), part)


def dropout(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    _, part = _of_first(parts, args)
    if kwargs["training"] and kwargs["p"]:
        raise parts.refusal(func, "is random, and each rank would draw its own: call the model's eval() first")
    return parts.mark(func(*args, **kwargs), part)


def written(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Into some frames, say, what has the same rows: as overlapping frames are blended."""
    x, index, value = args
    place = indexed(parts, Tensor.__getitem__, (x, index), {})
    if isinstance(value, Tensor) and shared(parts, func, [place, value]) != parts.of(place):
        raise parts.refusal(func, "is given tensors whose rows are in different dims")
    func(*args, **kwargs)


def interpolated(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Nearest neighbours at whole factors: every row becomes as many. Any weights where each row stays one."""
    x, part = _of_first(parts, args)
    factor, size, mode = kwargs["scale_factor"], kwargs["size"], kwargs["mode"]
    if size is not None:  # of this rank's part
        factor = [each / old for each, old in zip(size, x.shape[2:], strict=True)]
    rows = factor[part.dim - 2] if isinstance(factor, (list, tuple)) else factor
    keeps = rows is not None and (rows == 1 or (rows == int(rows) and mode in ("nearest", "nearest-exact")))
    if not keeps or part.outer > 1 or part.dim < 2:
        raise parts.refusal(func, f"to {rows} times the rows by {mode} mixes rows")
    return parts.mark(func(*args, **kwargs), part)


def interleaved(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Each of a dim as often as a number says: every row becomes as many."""
    x, part = _of_first(parts, args)
    repeats, dim = (kwargs.get(name, args[i] if len(args) > i else None) for i, name in ((1, "repeats"), (2, "dim")))
    if not isinstance(repeats, int) or not isinstance(dim, int) or (dim % x.ndim == part.dim and part.outer > 1):
        raise parts.refusal(func, f"along dim {dim} mixes rows")
    return parts.mark(func(*args, **kwargs), part)


def shuffled(parts: Parts, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Channels become rows and columns: every row becomes as many."""
    x, part = _of_first(parts, args)
    if part != Part(x.ndim - 2):
        raise parts.refusal(func, "takes rows of pixels only")
    return parts.mark(func(*args, **kwargs), part)


def _of_first(parts: Parts, args: Sequence[Any]) -> tuple[Tensor, Part]:
    x = args[0]
    part = parts.of(x) if isinstance(x, Tensor) else None
    if part is None:
        raise ValueError(f"{parts.title}: a weight was computed from rows of the picture; decode it on one device")
    return x, part
