"""Devices as they compute, what joins them, and what software asks of both: rates, memory, kernels and launches.

A *fabric* is the make of a machine's links, as data sheets tell it or as its ranks measured them; `Speed` is what
follows of it for one operation in groups of one kind.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from ..values import Dtype

GIB = 1 << 30
# Rows and columns of a tile of a matrix product, and which part of the best rate it reaches.
TILES = ((128, 256, 1.0), (128, 128, 0.93), (64, 128, 0.8), (64, 64, 0.62))
# The products of a block (queries, keys and values; output; up; down): each one's share of the arithmetic, and how
# many times the block's width it is wide.
PRODUCTS = ((3, 3), (1, 1), (4, 4), (4, 1))
QUERIES_PER_TILE = 128
LEAST_SHARE = 0.55  # of the units that an attention kernel keeps busy: it splits the keys where there are few queries
CONVOLUTION_SHARE = 0.3  # where nobody measured it; an assumption
LAUNCH_S = 5e-6  # a launch by a line of Python, on a server's processor of 2023

Operation = Literal["exchange", "gather", "hop"]
OPERATIONS: tuple[Operation, ...] = ("exchange", "gather", "hop")
LATER_HOP = 0.3  # of a hop's start, what each further member adds to a gather's


# What groups of `degree` ranks do, each `stride` from the next, while `talking` ranks do so in groups alike.
Kind = tuple[Operation, int, int, int]
# How long an operation takes to start, in seconds, and at how many bytes a second each rank sends then.
Speed = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """What joins the devices of a machine; rates are of one direction, and both are used at a time."""

    name: str
    bytes_per_s: float = 0.0  # what one rank sends to a neighbour, as far as it can be reached
    # What all send together at most, through the host's memory say; 0 has no limit, as a switch has none.
    total_bytes_per_s: float = 0.0
    start_s: float = 20e-6  # of a collective, as the device sees it
    hop_s: float = 12e-6
    # From how many ranks on an all-to-all reaches which part of the rate: it leaves a PCIe switch, and its messages
    # are small.
    exchange_shares: Mapping[int, float] = field(default_factory=dict)
    # How much longer attention takes while a ring's blocks travel, whose kernels take units; an assumption.
    tax: float = 0.03
    # What was measured, in place of the rates above. It stands for the groups that it was not measured for, the nearest
    # one by its degree first.
    measured: Mapping[Kind, Speed] = field(default_factory=dict)

    def speed(self, operation: Operation, degree: int, stride: int, talking: int) -> Speed:
        if found := self.measured.get((operation, degree, stride, talking)):
            return found

        def distance(kind: Kind) -> tuple[float, ...]:
            pairs = ((kind[1], degree), (kind[3], talking), (kind[2], stride))
            return *(abs(math.log2(one / other)) for one, other in pairs), kind[1]

        if self.measured:
            return self.measured[min((kind for kind in self.measured if kind[0] == operation), key=distance)]
        rate = self.bytes_per_s
        if self.total_bytes_per_s:
            rate = min(rate, self.total_bytes_per_s / talking)
        if operation == "exchange":
            share = [part for least, part in sorted(self.exchange_shares.items()) if least <= max(2, talking)][-1]
            return self.start_s, rate * share
        if operation == "gather":
            return self.start_s + self.hop_s * LATER_HOP * (degree - 2), rate
        return self.hop_s, rate

    def seconds(self, operation: Operation, degree: int, stride: int, talking: int, sent_bytes: float) -> float:
        start_s, bytes_per_s = self.speed(operation, degree, stride, talking)
        return start_s + sent_bytes / bytes_per_s


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One device, or one rank's share of a processor, while so many of a machine's work together.

    Peaks are dense, with sums in fp32. Where `num_units` is 0 (processors, and rates that were measured) work of any
    size reaches them.
    """

    name: str
    half_flops: float
    single_flops: float
    bytes_per_s: float  # of its memory
    memory_bytes: int = 0
    num_units: int = 0  # multiprocessors
    gemm_share: float = 1.0
    attention_share: float = 1.0
    query_s: float = 0.0  # what a head takes for each query, however few keys there are; counted on processors alone
    # Of what matrix products reach, by a decoder of convolutions and norms.
    convolution_share: float = CONVOLUTION_SHARE
    # Of its caches, which hold tensors of up to `near_bytes`; from `far_bytes` on all come from memory. 0 where none
    # differ.
    near_bytes_per_s: float = 0.0
    near_bytes: int = 0
    far_bytes: int = 0
    # How it works with others and with the host.
    wires: Fabric | None = None  # None where it works alone
    launch_s: float = LAUNCH_S  # what one launch costs the host
    is_async: bool = True  # whether the host runs ahead of the device; on a CPU it is the device

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


# Peaks, memory rates and multiprocessors: NVIDIA's data sheets and architecture papers (Ampere GA100, Ada AD102,
# Hopper, Blackwell), those of GeForce and L20 at half rate for sums in fp32; memory as torch tells it. A laptop's 4060
# is at its 2.37 GHz, of which NVIDIA makes 233 "AI TOPS" (fp8, sparse), and reaches the shares of a 4090. Which part is
# reached: fitted on published times of one device (`tests/bench/published.py`); of H200's memory, seen: modulations are
# read at 3.2 to 3.7 TB/s (`tests/bench/first_light.py`). Those of B200 are assumed.
CHIPS: Mapping[str, Chip] = {
    name: Chip(
        name=name,
        half_flops=half * 1e12,
        single_flops=single * 1e12,
        bytes_per_s=passes * memory * 1e12,
        memory_bytes=int(gib * GIB),
        num_units=units,
        gemm_share=gemm,
        attention_share=attention,
    )
    # TFLOP/s, TB/s, GiB; then which part of them products, attention and passes over memory reach.
    for name, half, single, memory, gib, units, gemm, attention, passes in (
        ("B200", 2250, 75, 8.0, 178.3, 148, 0.68, 0.6, 0.7),
        ("H200", 989, 67, 4.8, 139.7, 132, 0.68, 0.6, 0.7),
        ("H100", 989, 67, 3.35, 79.1, 132, 0.66, 0.58, 1.0),
        ("H800", 989, 67, 3.35, 79.1, 132, 0.66, 0.58, 1.0),
        ("H20", 148, 44, 4.0, 95.0, 78, 0.8, 0.7, 1.0),
        ("A100", 312, 19.5, 2.0, 79.1, 108, 0.8, 0.62, 1.0),
        ("L40S", 362, 91.6, 0.864, 44.4, 142, 0.55, 0.45, 1.0),
        ("L20", 119.5, 59.8, 0.864, 44.4, 92, 0.85, 0.8, 1.0),
        ("4090", 165, 82.6, 1.008, 23.5, 128, 0.88, 0.8, 1.0),
        ("4060Laptop", 29.1, 14.6, 0.256, 7.62, 24, 0.88, 0.8, 1.0),
        ("5090", 209, 104.8, 1.79, 31.3, 170, 0.85, 0.78, 1.0),
    )
}

_switched = partial(Fabric, exchange_shares={2: 0.9, 4: 0.85, 8: 0.8}, tax=0.08)
_peer = partial(Fabric, start_s=30e-6, hop_s=20e-6, exchange_shares={2: 1.0, 4: 0.65, 8: 0.45})
_through_host = partial(Fabric, start_s=45e-6, hop_s=35e-6, exchange_shares={2: 1.0, 4: 0.95, 8: 0.85})
# NVLink 3, 4, 5: 300, 450, 900 GB/s each way by NVIDIA's data sheets (H800 200), of which 80 % are reached
# (nccl-tests). PCIe x16: 32 and 64 GB/s each way by the standard, of which 25 and 50 are. Through the host, where GPUs
# cannot read each other's memory (GeForce): fitted on one published row of 4 x 4090, PCIe 5 is twice that. Starts and
# shares of an all-to-all are fitted on rows of `tests/bench/published.py` that do not count there.
FABRICS: Mapping[str, Fabric] = {
    fabric.name: fabric
    for fabric in (
        _switched(name="nvlink5", bytes_per_s=720e9, start_s=18e-6, hop_s=10e-6),
        _switched(name="nvlink4", bytes_per_s=360e9, start_s=18e-6, hop_s=10e-6),
        _switched(name="nvlink3", bytes_per_s=234e9),
        _switched(name="nvlink-h800", bytes_per_s=160e9, start_s=18e-6, hop_s=10e-6),
        _peer(name="pcie4-p2p", bytes_per_s=25e9),
        _peer(name="pcie5-p2p", bytes_per_s=50e9),
        _through_host(name="pcie4-host", bytes_per_s=14e9, total_bytes_per_s=48e9),
        _through_host(name="pcie5-host", bytes_per_s=26e9, total_bytes_per_s=90e9),
    )
}


# ----
# How much a step asks of host and memory beside its arithmetic: ours, eager, compiled, and replayed as a CUDA graph.
#
# Where each number comes from: *seen* is one NVIDIA H200 with a slow host, torch 2.11, FLUX at 1024 x 1024 on one
# device, and as rank 0 of 8 with nothing on a wire, at commit 8c3eb376 (`tests/bench/first_light.py` has the eight
# rows, and prints what is predicted of them). A launch is taken for 5 us (`machine.py`); nobody measured that host's.
#
# | of a layer | eager | compiled | source |
# | --- | --- | --- | --- |
# | kernels | 56 + 4 | 27.4 + 4 | seen: 3194 and 1560 in 57 layers, 3407 and 1810 where tokens are spread |
# | passes | 75 | 10 | seen: what products, attention and kernels leave |
# | host, launches | 320 | 120 | eager: counted (91 ms; 105 seen); compiled: 222 seen (63 ms), less guards |
# | host, where tokens are spread | 112 | 206 | eager: seen (130 ms); compiled: 248 seen (141 ms), less mends |
# | host, replayed | 20 | 20 | seen: 5 to 7.6 ms a step |
#
# Compiled host time is an *estimate* until a GPU is at hand: blocks were mended since (61 calls in Python a block
# became 2, 763 guards 60), by which a block on a CPU takes a quarter less, attention and all. What was seen before the
# mends is in `tests/bench/first_light.py`.

# What a device takes for each kernel, however little it does: 1.5 us between two of a graph, and the least time of a
# small one (seen: the 1,300 smallest of a compiled step of rank 0 of 8 took 4.2 us each).
KERNEL_S = 4e-6


@dataclass(frozen=True, kw_only=True)
class Software:
    """Counts, in units that a machine's rates turn into seconds. A *pass* reads or writes a tensor once."""

    passes: float  # over tokens x width, in each layer: norms, modulation, rotation, residuals
    kernels: float = 0.0  # of a layer, each of which takes `KERNEL_S` beside what it reads and writes
    sharded_kernels: float = 4.0  # more of them where tokens are spread
    merge_passes: float  # over a ring's fp32 answers, for each block that is merged
    relay_passes: float = 2.0  # over what is exchanged, to pack it and to put it in order
    # What a device loses at each hop of a ring beside the transfer: start, waiting of one stream for the other, and
    # the launch of a merge.
    hop_s: float
    calls_in: int = 1  # exchanges in which queries, keys and values travel; one more brings the answers back
    launches: float  # host work for one layer, in the time that one line of Python takes to launch a small kernel
    # What it adds that tokens are spread: hooks, the mode that sees calls of torch, and Python around an attention
    # call.
    sharded_launches: float = 0.0
    exchange_launches: float = 24.0
    gather_launches: float = 21.0
    # What an attention call adds likewise: 8, 7 and 6 kernels (`tests/bench/exchange_cost.py` counts them), each with
    # Python around it that takes as long twice over.
    hop_launches: float = 18.0
    overlap: float = 1.0  # which part of a hop can hide under the attention to a block
    is_captured: bool = False  # whether steps are replayed as CUDA graphs; those of ranks that share weights are not


EAGER = Software(passes=75, kernels=56, merge_passes=8, hop_s=0.12e-3, launches=320, sharded_launches=112)
# A hop's cost is fitted on published figures (`tests/bench/published.py`): 0.12 ms on H100 in xDiT's table.
COMPILED = Software(passes=10, kernels=27.4, merge_passes=4, hop_s=0.1e-3, launches=120, sharded_launches=206)
REPLAY_LAUNCHES = 20.0  # for one layer of a step that is replayed

# To compile the blocks of a transformer the first time, on all devices side by side: a graph and its twin of each kind
# of block. An assumption, on the long side; the next process finds most of it on the disk.
COMPILE_S = 60.0

# What a block of a sharded transformer on a CPU adds to its attention call, in launches: the mode that sees each call
# of torch (80), and code and threads that the block before drove out of the caches. Fitted on runs of the built-in
# model (`tests/bench/predicted_runs.py`).
IN_A_RUN = 230.0
# On gloo, which sends each stream and member by itself: 544, 222 and 216 us a call, attention included, where a launch
# takes 3.4 (`tests/bench/exchange_cost.py`, column `pieces`, two ranks).
BY_PIECES = {
    "sharded_launches": 0.0,
    "exchange_launches": 150.0 + IN_A_RUN,
    "gather_launches": 55.0 + IN_A_RUN,
    "hop_launches": 50.0 + IN_A_RUN,
}


CPU_PASSES = 40.0  # of an eager layer on a CPU, as runs of the built-in model took


def software_of(*, is_compiled: bool, is_captured: bool = False, sends_pieces: bool = False) -> Software:
    """`sends_pieces` as ranks on a CPU do, which replay nothing."""
    software = COMPILED if is_compiled else EAGER
    if not sends_pieces:
        return replace(software, is_captured=is_captured)
    return replace(software, passes=min(software.passes, CPU_PASSES), **BY_PIECES)
