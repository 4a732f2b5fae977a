"""Quantization by torchao: of the weights of wide linear layers, each as soon as it has been read, some rows at a time.

Only `fp8_dynamic` computes in fewer bits: it scales each row of a layer's input as it comes, and multiplies in fp8.

torchao holds copies in fp32 of all that it is given, up to 18 bytes for each number. Its scales belong to one row, or
to a group in one, so that rows can be packed apart; the first rows of each weight prove it. The bits are those that it
makes of the whole weight.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..failures import refused_as
from ..values import Quantization
from .memory import packed_at_a_time

if TYPE_CHECKING:
    from ...parallel.sharding.weights import Settle

logger = logging.getLogger("latentloom")
NO_KERNEL = "CUBLAS_STATUS_NOT_SUPPORTED"

# Rows are taken by multiples of this many: a product in fp8 wants 16, and int4's kernel 8, to which torchao pads.
TILE = 16
INT4_PACKING: Any = "tile_packed_to_4d"  # for the tensor cores of CUDA
GROUP_SIZE = 128  # weights that share a scale in int4
FP8_TILE = 16  # what both widths of a layer are multiples of, for a product in fp8
MIN_WIDTH = 32  # narrower layers gain nothing


def settler(quantization: Quantization, *, device: str) -> Settle:
    """What quantizes a wide linear layer in place, where it is, once its weight is there. The float copy is gone then.

    Raises `ValueError` for what torchao cannot do on `device`.
    """
    from torchao.quantization import quantize_

    with _one_sentence(quantization, device):
        config = _config(quantization)

    def settle(layer: nn.Module, name: str) -> None:
        if name == "weight" and _is_wide(layer, quantization):
            with _one_sentence(quantization, device):
                quantize_(layer, config, filter_fn=lambda *_: True)
            if quantization == "fp8_dynamic" and device.startswith("cuda"):
                add_bias_apart_where_it_must(layer, FP8_TILE)

    return settle


def quantize_loaded(component: nn.Module, quantization: Quantization, *, device: str) -> None:
    """The same for a component that a library has loaded on the host: layer by layer, as it goes to `device`."""
    settle = settler(quantization, device=device)
    for layer in component.modules():
        if _is_wide(layer, quantization):
            layer.to(device)
            settle(layer, "weight")


def transformers_config(quantization: Quantization) -> Any:
    """By which transformers does it while it loads: tensor by tensor too, in the linear layers, never an embedding.

    Text encoders run once for a prompt and have outliers in their activations: these stay in bf16.
    """
    from transformers import TorchAoConfig

    return TorchAoConfig(quant_type=_config("fp8" if quantization == "fp8_dynamic" else quantization))


def _config(quantization: Quantization) -> Any:
    from torchao import quantization as torchao

    kinds = {
        "int8": lambda: torchao.Int8WeightOnlyConfig(),
        "int4": lambda: torchao.Int4WeightOnlyConfig(group_size=GROUP_SIZE, int4_packing_format=INT4_PACKING),
        "fp8": lambda: torchao.Float8WeightOnlyConfig(),
        "fp8_dynamic": lambda: torchao.Float8DynamicActivationFloat8WeightConfig(granularity=torchao.PerRow()),
    }
    return _by_rows()(kinds[quantization]())


@functools.cache
def _by_rows() -> Callable[[Any], Any]:
    """A kind of torchao's configs: by it `quantize_`, and transformers, pack as another says, some rows at a time."""
    from torchao.core.config import AOBaseConfig
    from torchao.quantization.transform_module import register_quantize_module_handler

    @dataclass
    class RowsConfig(AOBaseConfig):
        config: AOBaseConfig

    @register_quantize_module_handler(RowsConfig)
    def quantized(layer: nn.Module, asked: RowsConfig) -> nn.Module:
        return pack(layer, asked.config)

    return RowsConfig


def _is_wide(layer: nn.Module, quantization: Quantization) -> bool:
    if not isinstance(layer, nn.Linear) or layer.in_features < MIN_WIDTH:
        return False
    if quantization == "fp8_dynamic":
        is_even = layer.in_features % FP8_TILE == layer.out_features % FP8_TILE == 0
        return is_even and layer.weight.dtype == torch.bfloat16  # those that a class keeps in fp32 stay
    return quantization != "int4" or layer.in_features % GROUP_SIZE == 0


def _one_sentence(quantization: Quantization, device: str) -> AbstractContextManager[None]:
    """torchao raises AssertionError, ImportError and RuntimeError for what a device lacks."""
    return refused_as(
        lambda error: f"quantization {quantization} does not work on {device} here: {error}; choose int8 or none"
    )


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
        apart = None if dim is None else torch.cat([tile[name] for tile in tiles], dim).view(torch.uint8)
        if dim is None or apart is None or not torch.equal(apart, both.contiguous().view(torch.uint8)):
            kind = type(config).__name__
            logger.warning("torchao's %s does not pack rows apart: whole weights take much memory as they load", kind)
            return None
        seams[name] = dim, sizes[dim]
    return seams


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
    """One that adds its bias behind the product."""

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
    # Its own bias may not be read yet: it comes behind the weight.
    like = {"dtype": layer.weight.dtype, "device": layer.weight.device}
    rows, bias = torch.zeros(num_rows, layer.in_features, **like), torch.zeros(layer.out_features, **like)
    try:
        F.linear(rows, layer.weight, bias)
    except RuntimeError as error:
        if NO_KERNEL not in str(error):
            raise
        layer.__class__ = BiasApart  # not another layer: hooks, LoRA and names are on this one
