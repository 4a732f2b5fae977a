"""Padding and convolutions over rows that several ranks hold: the neighbours' rows in place of padding.

At the picture's own edges padding is what the layer asks for; between two ranks it is the other's rows. What a padding
function added is remembered, because models pad in one call and convolve in the next.
"""

# N C ... H W pictures, or frames before H W; the rows may be in any dim after C

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..collectives import start_exchange
from ..group import Group
from .part import Part, Parts

Edges = tuple[Tensor | None, Tensor | None]  # rows above and below; None at the edge of the picture


def start_edges(x: Tensor, dim: int, *, before: int, after: int, group: Group) -> Callable[[], Edges]:
    """Collective: ask the neighbours for `before` rows above this rank's along `dim` and `after` below.

    Every rank asks for as many, and has as many. Returns at once; the function it gives back waits.
    """
    sends: list[list[Tensor]] = [[] for _ in group.ranks]
    receives: list[list[Tensor]] = [[] for _ in group.ranks]
    above, below, rows = group.index - 1, group.index + 1, x.shape[dim]
    assert max(before, after) <= rows, f"{rows} rows cannot lend {before} and {after}"
    if above >= 0:
        sends[above].append(x.narrow(dim, 0, after).contiguous())
        receives[above].append(_rows(x, dim, before))
    if below < group.size:
        sends[below].append(x.narrow(dim, rows - before, before).contiguous())
        receives[below].append(_rows(x, dim, after))
    wait = start_exchange(sends, receives, group=group)

    def arrived() -> Edges:
        wait()
        return receives[above][0] if above >= 0 else None, receives[below][0] if below < group.size else None

    return arrived


def _rows(x: Tensor, dim: int, count: int) -> Tensor:
    return x.new_empty([count if each == dim else size for each, size in enumerate(x.shape)])


LOCAL_PADS = ("constant", "replicate", "reflect")  # each made from rows that the rank at the edge of the picture has


def pad(
    parts: Parts, func: Any, x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Collective if rows are padded: real rows where there is a neighbour, padding at the edges of the picture."""
    part, pads = parts.of(x), list(pad)
    assert part is not None, "pad takes one tensor"
    options: dict[str, Any] = {"mode": mode, "value": value}
    start = 2 * (x.ndim - 1 - part.dim)
    before, after = pads[start : start + 2] if start < len(pads) else (0, 0)
    if not before and not after:
        return parts.mark(F.pad(x, pads, **options), part)
    if min(before, after) < 0 or mode not in LOCAL_PADS or part.outer > 1:
        raise parts.refusal(func, f"of rows by {before} and {after} with mode {mode} mixes them")
    edges = start_edges(x, part.dim, before=before, after=after, group=parts.group)
    out = F.pad(x, pads, **options)  # as at the picture's edge, while the neighbours' rows travel
    pads[start : start + 2] = 0, 0
    above, below = edges()
    if above is not None and before:
        # Their other dims are padded as well: columns, and the frames of a video.
        out.narrow(part.dim, 0, before).copy_(F.pad(above, pads, **options))
    if below is not None and after:
        out.narrow(part.dim, out.shape[part.dim] - after, after).copy_(F.pad(below, pads, **options))
    return parts.mark(out, Part(part.dim, before=before, after=after))


def convolve(
    parts: Parts,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Collective if the kernel reaches over rows that are not padded yet: `F.conv2d` or `F.conv3d`."""
    part = parts.of(input)
    if part is None or part.outer > 1 or part.dim < 2 or input.ndim != weight.ndim or isinstance(padding, str):
        raise parts.refusal(func, f"of {tuple(input.shape)} with padding {padding} is not known to keep rows apart")
    axis = part.dim - 2  # among the dims that the kernel has
    strides, paddings, dilations = (_each(value, input.ndim - 2) for value in (stride, padding, dilation))
    reach, padded = dilations[axis] * (weight.shape[part.dim] - 1), paddings[axis]
    if strides[axis] != 1 or part.before + part.after + 2 * padded != reach or (part.has_halo and padded):
        raise parts.refusal(func, "changes the number of rows")

    def apply(x: Tensor, rows_padded: int) -> Tensor:
        around = [rows_padded if each == axis else value for each, value in enumerate(paddings)]
        return func(x, weight, bias, strides, around, dilations, groups)

    if not padded:
        return parts.mark(apply(input, 0), Part(part.dim))
    return parts.mark(_with_edges(parts, input, part.dim, padded, apply), Part(part.dim))


def _with_edges(parts: Parts, x: Tensor, dim: int, reach: int, apply: Any) -> Tensor:
    """Collective: the convolution as if alone, then its outermost rows again with what the neighbours have."""
    # So no copy of the rows with a frame around them is made, and they travel meanwhile. Of few rows there is a copy:
    # their outermost ones at both ends would overlap.
    rows = x.shape[dim]
    edges = start_edges(x, dim, before=reach, after=reach, group=parts.group)
    if 2 * reach > rows:
        above, below = (_rows(x, dim, reach).zero_() if edge is None else edge for edge in edges())
        return apply(torch.cat([above, x, below], dim), 0)
    out = apply(x, reach)
    above, below = edges()
    if above is not None:
        out.narrow(dim, 0, reach).copy_(apply(torch.cat([above, x.narrow(dim, 0, 2 * reach)], dim), 0))
    if below is not None:
        strip = torch.cat([x.narrow(dim, rows - 2 * reach, 2 * reach), below], dim)
        out.narrow(dim, rows - reach, reach).copy_(apply(strip, 0))
    return out


def _each(value: Any, count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else list(value)


def convolve_transposed(
    parts: Parts,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """`F.conv_transpose2d` or 3d whose kernel is as high as its stride: every row becomes as many, none overlap."""
    part = parts.of(input)
    if part is None or part.outer > 1 or part.dim < 2 or input.ndim != weight.ndim:
        raise parts.refusal(func, f"of {tuple(input.shape)} is not known to keep rows apart")
    options = [_each(value, input.ndim - 2) for value in (stride, padding, output_padding, dilation)]
    if [each[part.dim - 2] for each in options] != [weight.shape[part.dim], 0, 0, 1]:
        raise parts.refusal(func, "with a kernel that is not as high as its stride mixes rows")
    strides, paddings, more, dilations = options
    return parts.mark(func(input, weight, bias, strides, paddings, more, groups, dilations), part)
