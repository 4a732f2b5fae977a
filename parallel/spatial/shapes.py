"""Functions that mix no rows: which dim of their result holds this rank's rows.

Each is told which of its arguments are parts, and says which dim of the result holds the rows, or refuses by name what
would mix them. `mode.py` looks them up.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from ..sharding.fingerprint import tensors_in
from .part import Part, Parts

# Calls a torch function that is given a part, with the arguments behind it, in such a way that the ranks' results are
# parts of the whole result.
Rule = Callable[..., Any]


def pointwise(parts: Parts, func: Any, *args: Any, **kwargs: Any) -> Any:
    tensors = list(tensors_in((args, kwargs)))
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


def reshaped(parts: Parts, func: Any, *args: Any, **kwargs: Any) -> Tensor:
    # The rows stay where they are in memory order: as many elements come before them as did.
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


def moved(parts: Parts, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Dims change places, or all but that of the rows are summed or taken apart."""
    x, part = _of_first(parts, args)
    # The function is asked itself where it puts each dim: by a tensor without data whose sizes tell dims apart, from 2
    # on, for 1 is what was summed.
    told_apart = x.new_empty((), device="meta").expand(*range(2, x.ndim + 2))
    sizes = next(tensors_in(func(told_apart, *args[1:], **kwargs))).shape
    if part.dim + 2 not in sizes:
        raise parts.refusal(func, "over the dim of the rows mixes them")
    return _marked(parts, func(*args, **kwargs), replace(part, dim=sizes.index(part.dim + 2)))


def along(index: int, default: int | None = None) -> Rule:
    """A function that works along one dim, its argument number `index`: any but that of the rows."""

    def rule(parts: Parts, func: Any, *args: Any, **kwargs: Any) -> Any:
        dim = kwargs.get("dim", args[index] if len(args) > index else default)
        tensors = list(tensors_in(args[:1]))
        known = [x for x in tensors if not parts.is_zeros(x)]  # which pad, and have as many rows, or torch refuses
        if any(parts.of(x) is None for x in known) or any(x.ndim != tensors[0].ndim for x in tensors):
            raise parts.refusal(func, "is given rows of the picture and a whole tensor")
        part = shared(parts, func, known)
        if not isinstance(dim, int) or dim % tensors[0].ndim == part.dim:
            raise parts.refusal(func, f"along dim {dim} mixes rows")
        return _marked(parts, func(*args, **kwargs), part)

    return rule


def stacked(parts: Parts, func: Any, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    part = shared(parts, func, tensors)
    out = func(tensors, dim)
    return parts.mark(out, Part(part.dim + (dim % out.ndim <= part.dim), part.outer))


def indexed(parts: Parts, func: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Numbers and slices of the other dims, and new dims."""
    x, part = _of_first(parts, args)
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if any(item not in (None, Ellipsis) and type(item) not in (int, slice) for item in index):
        raise parts.refusal(func, "takes numbers and slices only when a picture is split")
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    at, taken = index.index(Ellipsis), sum(item is not None for item in index) - 1
    # As if all dims were written out, so that the place of each item is that of its dim, but for new ones (None).
    index = (*index[:at], *[slice(None)] * (x.ndim - taken), *index[at + 1 :])
    rows = [place for place, item in enumerate(index) if item is not None][part.dim]
    if index[rows] != slice(None):
        raise parts.refusal(func, "takes some rows of a picture that is split")
    dropped = sum(isinstance(item, int) for item in index[:rows])
    return parts.mark(func(*args, **kwargs), replace(part, dim=rows - dropped))


def repeated(parts: Parts, func: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The other dims, and new ones in front, as often as is wanted."""
    x, part = _of_first(parts, args)
    times = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    new = len(times) - x.ndim
    if kwargs or times[new + part.dim] != 1:
        raise parts.refusal(func, "along the dim of the rows mixes them")
    return parts.mark(func(*args), Part(new + part.dim, part.outer))


def written(parts: Parts, func: Any, x: Tensor, index: Any, value: Any) -> None:
    """Into some frames, say, what has the same rows: as overlapping frames are blended."""
    place = indexed(parts, Tensor.__getitem__, x, index)
    if isinstance(value, Tensor) and shared(parts, func, [place, value]) != parts.of(place):
        raise parts.refusal(func, "is given tensors whose rows are in different dims")
    func(x, index, value)


def stay(why_not: Callable[..., str]) -> Rule:
    """A function that leaves the rows of its first tensor in their dim, unless this says, of the part and the
    function's arguments, why not."""

    def rule(parts: Parts, func: Any, *args: Any, **kwargs: Any) -> Tensor:
        _, part = _of_first(parts, args)
        if why := why_not(part, *args, **kwargs):
            raise parts.refusal(func, why)
        return parts.mark(func(*args, **kwargs), part)

    return rule


def converted(parts: Parts, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Where the other is, and in its format: a weight, too, as a picture is."""
    part, out = parts.of(x), func(x, *args, **kwargs)
    return out if part is None else parts.mark(out, part)


@stay
def kept(part: Part, *_: Any) -> str:
    """What the other arguments hold does not matter."""
    return ""


@stay
def normalised(part: Part, x: Tensor, normalized_shape: Sequence[int], *_: Any, **__: Any) -> str:
    """Each place by what is in its last dims, which are not the rows."""
    return "over the dim of the rows mixes them" if part.dim >= x.ndim - len(normalized_shape) else ""


@stay
def batch_normed(
    part: Part, x: Tensor, mean: Any, var: Any, weight: Any = None, bias: Any = None, training: bool = False, **_: Any
) -> str:
    """By moments that were learned."""
    return "takes moments of the rows: call the model's eval() first" if training or part.dim < 2 else ""


@stay
def linear(part: Part, x: Tensor, *_: Any, **__: Any) -> str:
    return "along the dim of the rows mixes them" if part.dim == x.ndim - 1 else ""


@stay
def dropout(part: Part, x: Tensor, p: float, training: bool, **_: Any) -> str:
    return "is random, and each rank would draw its own: call the model's eval() first" if training and p else ""


@stay
def interpolated(part: Part, x: Tensor, size: Any, scale_factor: Any, mode: str, **_: Any) -> str:
    """Nearest neighbours at whole factors: every row becomes as many. Any weights where each row stays one."""
    factor = scale_factor
    if size is not None:  # asked for from what this rank's part is large, and so in its proportion
        factor = [each / old for each, old in zip(size, x.shape[2:], strict=True)]
    rows = factor[part.dim - 2] if isinstance(factor, (list, tuple)) else factor
    keeps = rows is not None and (rows == 1 or (rows == int(rows) and mode in ("nearest", "nearest-exact")))
    return "" if keeps and part.outer == 1 and part.dim >= 2 else f"to {rows} times the rows by {mode} mixes rows"


@stay
def interleaved(part: Part, x: Tensor, repeats: Any, dim: int | None = None, **_: Any) -> str:
    """Each of a dim as often as a number says: every row becomes as many."""
    keeps = isinstance(repeats, int) and isinstance(dim, int) and (dim % x.ndim != part.dim or part.outer == 1)
    return "" if keeps else f"along dim {dim} mixes rows"


@stay
def shuffled(part: Part, x: Tensor, *_: Any) -> str:
    """Channels become rows and columns: every row becomes as many."""
    return "" if part == Part(x.ndim - 2) else "takes rows of pixels only"


def _marked(parts: Parts, out: Any, part: Part) -> Any:
    for each in tensors_in(out):
        parts.mark(each, part)
    return out


def _of_first(parts: Parts, args: Sequence[Any]) -> tuple[Tensor, Part]:
    x = args[0]
    part = parts.of(x) if isinstance(x, Tensor) else None
    if part is None:
        raise ValueError(f"{parts.title}: a weight was computed from rows of the picture; decode it on one device")
    return x, part
