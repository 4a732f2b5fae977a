"""Cutting a tensor along one dim to this rank's part of the streams, and gathering it again."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .attention import rows
from .collectives import gather
from .layout import Layout
from .mesh import Group


def cut_along(x: Tensor, dim: int, *, layout: Layout, rank: int) -> Tensor:
    """This rank's part of a tensor whose `dim` is as long as the streams of `layout` together."""
    return rows.take(x, dim, layout.positions(rank))


def gather_along(x: Tensor, dim: int, *, layout: Layout, rank: int, group: Group) -> Tensor:
    """Collective: the whole of a tensor whose `dim` holds this rank's part of each stream of `layout`."""
    if not layout.is_split or group.size == 1:
        return x
    dim %= x.ndim
    is_bool = x.dtype == torch.bool
    own = (x.contiguous().view(torch.uint8) if is_bool else x).movedim(dim, 0)  # S ...
    parts = list(zip(layout.streams, layout.local_ranges(rank), strict=True))
    sharded = rows.cat([own[start:end] for stream, (start, end) in parts if stream.is_sharded])
    sizes = [layout.num_sharded(other) * math.prod(own.shape[1:]) for other in range(group.size)]
    arrived = gather(sharded.flatten(), sizes=sizes, group=group).view(-1, *own.shape[1:])
    replicated = [own[start:end] for stream, (start, end) in parts if not stream.is_sharded]
    whole = rows.in_order(arrived, layout=layout, ranks=range(group.size), replicated=replicated)
    whole = whole.movedim(0, dim)
    return whole.contiguous().view(torch.bool) if is_bool else whole
