"""torchao's packing of a wide weight, some rows at a time, with the bits that it makes of the whole weight.

torchao holds copies in fp32 of all that it is given, up to 18 bytes for each number. Its scales belong to one row, or
to a group in one, so that rows can be packed apart; the first rows of each weight prove it. Where no
kernel adds a bias to few rows of a product in fp8, a layer adds it apart.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .memory import packed_at_a_time

logger = logging.getLogger("latentloom")

NO_KERNEL = "CUBLAS_STATUS_NOT_SUPPORTED"
TILE = 16
"""Rows are taken by multiples of this many: a product in fp8 wants 16, and int4's kernel 8, to which torchao pads."""


def pack(layer: nn.Module, config: Any) -> nn.Module:
    """What torchao's `quantize_` makes of a linear layer by one of its configs, in place, in little memory."""
    weight: Any = layer.weight
    rows = packed_at_a_time(weight.device.type) // weight.shape[1] // TILE * TILE or TILE
    seams = _seams(weight, config) if weight.shape[0] > max(rows, 2 * TILE) else None
    whole = _packed(weight, config) if seams is None else _joined(weight, config, rows=rows, seams=seams)
    layer.weight = nn.Parameter(whole, requires_grad=False)
    return layer


def _packed(rows: Tensor, config: Any) -> Any:
    """What torchao makes of them: a tensor that holds others, which its flattened form names."""
    from torchao.quantization import quantize_

    layer = nn.Module()
    layer.weight = nn.Parameter(rows, requires_grad=False)
    quantize_(layer, config, filter_fn=lambda *_: True)
    return layer._parameters.pop("weight")  # torchao made a cycle of the layer and its `extra_repr`


def _parts(packed: Any) -> dict[str, Tensor]:
    return {name: getattr(packed, name) for name in packed.__tensor_flatten__()[0]}


def _seams(weight: Tensor, config: Any) -> dict[str, tuple[int, int]] | None:
    """For each part of a packed weight the dim that goes by rows, and how much of it a tile takes.

    None, with a warning, where two tiles are not packed together as they are apart: by one scale for all rows.
    """
    tiles = [_parts(_packed(weight[start : start + TILE], config)) for start in (0, TILE)]
    seams: dict[str, tuple[int, int]] = {}
    for name, both in _parts(_packed(weight[: 2 * TILE], config)).items():
        sizes = tiles[0][name].shape
        dim = next((dim for dim, size in enumerate(sizes) if size != both.shape[dim]), None)
        if dim is None or not _same_bits(torch.cat([tile[name] for tile in tiles], dim), both):
            kind = type(config).__name__
            logger.warning("torchao's %s does not pack rows apart: whole weights take much memory as they load", kind)
            return None
        seams[name] = dim, sizes[dim]
    return seams


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.view(torch.uint8), other.contiguous().view(torch.uint8))


def _joined(weight: Tensor, config: Any, *, rows: int, seams: dict[str, tuple[int, int]]) -> Any:
    parts: dict[str, Tensor] = {}
    piece: Any = None
    for start in reversed(range(0, weight.shape[0], rows)):  # the last first: it alone may be padded
        piece = _packed(weight[start : start + rows], config)
        for name, part in _parts(piece).items():
            dim, per_tile = seams[name]
            before = start // TILE * per_tile
            if name not in parts:
                parts[name] = part.new_empty([size + before * (each == dim) for each, size in enumerate(part.shape)])
            parts[name].narrow(dim, before, part.shape[dim]).copy_(part)
    facts = {**piece.__tensor_flatten__()[1], "shape": weight.shape}  # which some of torchao's tensors hold as a fact
    return type(piece).__tensor_unflatten__(parts, facts, weight.shape, weight.stride())


class BiasApart(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight) + self.bias


@torch.no_grad()
def add_bias_apart_where_it_must(layer: Any, num_rows: int) -> None:
    """Let a layer do so whose product with few rows fails otherwise, as it is on its device; for any number of rows.

    cuBLAS 13.1 has no kernel for at most 32 rows of 8192 with a bias on an H200, and has one without, or for 64 rows.
    Ranks that share out a text have fewer rows than one alone, and must round as it does: so the rows do not decide.
    """
    if layer.bias is None:
        return
    try:
        layer(layer.bias.new_zeros(num_rows, layer.in_features))
    except RuntimeError as error:
        if NO_KERNEL not in str(error):
            raise
        layer.__class__ = BiasApart  # not another layer: hooks, LoRA and names are on this one
