"""Devices as they compute: peak rates, memory, and which part of them large and small work reaches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..values import Dtype

GIB = 1 << 30
TILES = ((128, 256, 1.0), (128, 128, 0.93), (64, 128, 0.8), (64, 64, 0.62))
"""Rows and columns of a tile of a matrix product, and which part of the best rate it reaches."""
PRODUCTS = ((3, 3), (1, 1), (4, 4), (4, 1))
"""The products of a block (queries, keys and values; output; up; down): each one's share of the arithmetic, and how
many times the block's width it is wide."""
QUERIES_PER_TILE = 128
LEAST_SHARE = 0.55
"""Of the units that an attention kernel keeps busy: it splits the keys where there are few queries."""
CONVOLUTION_SHARE = 0.3
"""Where nobody measured it; an assumption."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One device, or one rank's share of a processor.

    Peaks are dense, with sums in fp32. Where `num_units` is 0 (processors, and rates that were measured) work of any
    size reaches them.
    """

    name: str
    half_flops: float
    single_flops: float
    bytes_per_s: float  # of its memory
    memory_bytes: int
    num_units: int = 0  # multiprocessors
    gemm_share: float = 1.0
    attention_share: float = 1.0
    query_s: float = 0.0
    """What a head takes for each query, however few keys there are; counted on processors alone."""
    convolution_share: float = CONVOLUTION_SHARE
    """Of what matrix products reach, by a decoder of convolutions and norms."""
    near_bytes_per_s: float = 0.0
    """Of its caches, which hold tensors of up to `near_bytes`; from `far_bytes` on all come from memory. 0 where none
    differ."""
    near_bytes: int = 0
    far_bytes: int = 0

    def flops(self, dtype: Dtype) -> float:
        return self.single_flops if dtype == "fp32" else self.half_flops

    def gemm_s(self, flops: float, *, rows: int, width: int, dtype: Dtype) -> float:
        """The matrix products of a block of this width, for so many rows in all."""
        if flops <= 0 or rows <= 0:
            return 0.0
        whole = sum(share for share, _ in PRODUCTS)
        rate = self.flops(dtype) * self.gemm_share
        return sum(flops * share / whole / (rate * self.tiles_share(rows, times * width)) for share, times in PRODUCTS)

    def attention_s(self, queries: float, keys: float, heads: float, head_dim: int, dtype: Dtype) -> float:
        """One call of a fused kernel: 4 x queries x keys x width (FlashAttention; Dao et al., arXiv:2205.14135)."""
        if queries <= 0 or keys <= 0 or heads <= 0:
            return 0.0
        share = self.attention_share
        if self.num_units:
            tiles = math.ceil(queries / QUERIES_PER_TILE) * heads
            share *= max(tiles / (math.ceil(tiles / self.num_units) * self.num_units), LEAST_SHARE)
        return 4 * queries * keys * heads * head_dim / (self.flops(dtype) * share) + queries * heads * self.query_s

    def tiles_share(self, rows: int, columns: int) -> float:
        """Which part of the units a product of rows x columns keeps busy, with the tile that suits it best: the last
        wave of tiles is seldom full.
        """
        if not self.num_units:
            return 1.0
        best = 0.0
        for height, width, quality in TILES:
            tiles = math.ceil(rows / height) * math.ceil(columns / width)
            waves = math.ceil(tiles / self.num_units) * self.num_units
            best = max(best, quality * tiles / waves * rows * columns / (tiles * height * width))
        return best

    def copy_s(self, num_bytes: float, *, tensor_bytes: float = math.inf) -> float:
        """Reads and writes of so many bytes in all, over tensors of so many."""
        if not self.near_bytes_per_s or tensor_bytes >= self.far_bytes:
            return num_bytes / self.bytes_per_s
        way = math.log(max(tensor_bytes / self.near_bytes, 1.0)) / math.log(self.far_bytes / self.near_bytes)
        return num_bytes / (self.near_bytes_per_s ** (1 - way) * self.bytes_per_s**way)


def _gpu(
    name: str,
    half: float,
    single: float,
    memory: float,
    gib: float,
    units: int,
    gemm: float,
    attention: float,
    passes: float = 1.0,
) -> Chip:
    """TFLOP/s, TB/s, GiB; then which part of them products, attention and passes over memory reach."""
    return Chip(
        name=name,
        half_flops=half * 1e12,
        single_flops=single * 1e12,
        bytes_per_s=passes * memory * 1e12,
        memory_bytes=int(gib * GIB),
        num_units=units,
        gemm_share=gemm,
        attention_share=attention,
    )


CHIPS: Mapping[str, Chip] = {
    chip.name: chip
    for chip in (
        _gpu("B200", 2250, 75, 8.0, 178.3, 148, 0.68, 0.6, 0.7),
        _gpu("H200", 989, 67, 4.8, 139.7, 132, 0.68, 0.6, 0.7),
        _gpu("H100", 989, 67, 3.35, 79.1, 132, 0.66, 0.58),
        _gpu("H800", 989, 67, 3.35, 79.1, 132, 0.66, 0.58),
        _gpu("H20", 148, 44, 4.0, 95.0, 78, 0.8, 0.7),
        _gpu("A100", 312, 19.5, 2.0, 79.1, 108, 0.8, 0.62),
        _gpu("L40S", 362, 91.6, 0.864, 44.4, 142, 0.55, 0.45),
        _gpu("L20", 119.5, 59.8, 0.864, 44.4, 92, 0.85, 0.8),
        _gpu("4090", 165, 82.6, 1.008, 23.5, 128, 0.88, 0.8),
        _gpu("5090", 209, 104.8, 1.79, 31.3, 170, 0.85, 0.78),
    )
}
"""Peaks, memory rates and multiprocessors: NVIDIA's data sheets and architecture papers (Ampere GA100, Ada AD102,
Hopper, Blackwell), those of 4090, 5090 and L20 at half rate for sums in fp32; memory as torch tells it. Which part is
reached: fitted on published times of one device (`tests/bench/published.py`); of H200's memory, seen: modulations are
read at 3.2 to 3.7 TB/s (`tests/bench/first_light.py`). Those of B200 are assumed."""
