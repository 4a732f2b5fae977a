"""How much a step asks of host and memory beside its arithmetic: ours, eager, compiled, and replayed as a CUDA graph.

Where each number comes from: *seen* is one NVIDIA H200 with a slow host, torch 2.11, FLUX at 1024 x 1024 on one device,
and as rank 0 of 8 with nothing on a wire, at commit 8c3eb376 (`tests/bench/first_light.py` has the eight rows, and
prints what is predicted of them). A launch is taken for 5 us (`machine.py`); nobody measured that host's.

| of a layer | eager | compiled | source |
| --- | --- | --- | --- |
| kernels | 56 + 4 | 27.4 + 4 | seen: 3194 and 1560 in 57 layers, 3407 and 1810 where tokens are spread |
| passes | 75 | 10 | seen: what products, attention and kernels leave |
| host, launches | 320 | 120 | eager: counted (91 ms; 105 seen); compiled: 222 seen (63 ms), less guards |
| host, where tokens are spread | 112 | 206 | eager: seen (130 ms); compiled: 248 seen (141 ms), less mends |
| host, replayed | 20 | 20 | seen: 5 to 7.6 ms a step |

Compiled host time is an *estimate* until a GPU is at hand: blocks were mended since (61 calls in Python a block became
2, 763 guards 60), by which a block on a CPU takes a quarter less, attention and all. What was seen before the mends is
in `tests/bench/first_light.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

KERNEL_S = 4e-6
"""What a device takes for each kernel, however little it does: 1.5 us between two of a graph, and the least time of a
small one (seen: the 1,300 smallest of a compiled step of rank 0 of 8 took 4.2 us each)."""


@dataclass(frozen=True, kw_only=True)
class Software:
    """Counts, in units that a machine's rates turn into seconds. A *pass* reads or writes a tensor once."""

    name: str
    passes: float  # over tokens x width, in each layer: norms, modulation, rotation, residuals
    kernels: float = 0.0  # of a layer, each of which takes `KERNEL_S` beside what it reads and writes
    sharded_kernels: float = 0.0  # more of them where tokens are spread
    merge_passes: float  # over a ring's fp32 answers, for each block that is merged
    relay_passes: float  # over what is exchanged, to pack it and to put it in order
    hop_s: float
    """What a device loses at each hop of a ring beside the transfer: start, waiting of one stream for the other, and
    the launch of a merge."""
    calls_in: int = 1  # exchanges in which queries, keys and values travel; one more brings the answers back
    launches: float
    """Host work for one layer, in the time that one line of Python takes to launch a small kernel."""
    sharded_launches: float = 0.0
    """What it adds that tokens are spread: hooks, the mode that sees calls of torch, and Python around an attention
    call."""
    exchange_launches: float = 24.0
    gather_launches: float = 21.0
    hop_launches: float = 18.0
    """What an attention call adds likewise: 8, 7 and 6 kernels (`tests/bench/exchange_cost.py` counts them), each with
    Python around it that takes as long twice over."""
    overlap: float = 1.0  # which part of a hop can hide under the attention to a block
    is_captured: bool = False
    """Whether steps are replayed as CUDA graphs; those of ranks that share weights are not."""


EAGER = Software(
    name="eager",
    passes=75,
    kernels=56,
    sharded_kernels=4,
    merge_passes=8,
    relay_passes=2,
    hop_s=0.12e-3,
    launches=320,
    sharded_launches=112,
)
COMPILED = Software(
    name="compiled",
    passes=10,
    kernels=27.4,
    sharded_kernels=4,
    merge_passes=4,
    relay_passes=2,
    hop_s=0.1e-3,
    launches=120,
    sharded_launches=206,
)
"""A hop's cost is fitted on published figures (`tests/bench/published.py`): 0.12 ms on H100 in xDiT's table."""
REPLAY_LAUNCHES = 20.0
"""For one layer of a step that is replayed."""

COMPILE_S = 60.0
"""To compile the blocks of a transformer the first time, on all devices side by side: a graph and its twin of each kind
of block. An assumption, on the long side; the next process finds most of it on the disk."""

IN_A_RUN = 230.0
"""What a block of a sharded transformer on a CPU adds to its attention call, in launches: the mode that sees each call
of torch (80), and code and threads that the block before drove out of the caches. Fitted on runs of the built-in model
(`tests/bench/predicted_runs.py`)."""
BY_PIECES = {
    "sharded_launches": 0.0,
    "exchange_launches": 150.0 + IN_A_RUN,
    "gather_launches": 55.0 + IN_A_RUN,
    "hop_launches": 50.0 + IN_A_RUN,
}
"""On gloo, which sends each stream and member by itself: 544, 222 and 216 us a call, attention included, where a launch
takes 3.4 (`tests/bench/exchange_cost.py`, column `pieces`, two ranks)."""


CPU_PASSES = 40.0
"""Of an eager layer on a CPU, as runs of the built-in model took."""


def software_of(*, is_compiled: bool, is_captured: bool = False, sends_pieces: bool = False) -> Software:
    """`sends_pieces` as ranks on a CPU do, which replay nothing."""
    software = COMPILED if is_compiled else EAGER
    if not sends_pieces:
        return replace(software, is_captured=is_captured)
    return replace(software, passes=min(software.passes, CPU_PASSES), **BY_PIECES)
