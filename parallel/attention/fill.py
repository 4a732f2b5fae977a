"""Queries of some streams only, made queries of all: then any strategy will do."""

# B batch, H heads, S tokens here, D head width

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from ..layout import Layout


def filled(q: Tensor, asking: Collection[str], *, layout: Layout, rank: int) -> Tensor:
    """B H S D queries of all streams of `layout`, zeros for those that do not ask."""
    sizes = [end - start for start, end in layout.local_ranges(rank)]
    asks = [stream.name in asking for stream in layout.streams]
    given = iter(q.split([size for size, is_asking in zip(sizes, asks, strict=True) if is_asking], 2))
    zeros = q.new_zeros(*q.shape[:2], max(sizes), q.shape[3])
    return torch.cat(
        [next(given) if is_asking else zeros[:, :, :size] for size, is_asking in zip(sizes, asks, strict=True)], 2
    )


def answers_of(asking: Collection[str], x: Tensor, *, layout: Layout, rank: int) -> Tensor:
    """The rows of the streams that asked, of a B H S D tensor of all."""
    parts = zip(layout.streams, layout.local_ranges(rank), strict=True)
    return torch.cat([x[:, :, start:end] for stream, (start, end) in parts if stream.name in asking], 2)
