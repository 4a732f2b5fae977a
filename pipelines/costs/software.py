"""How much a step asks of host and memory beside its arithmetic: ours, eager and compiled."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Software:
    """Counts, in units that a machine's rates turn into seconds. A *pass* reads or writes a tensor once."""

    name: str
    passes: float
    """Over tokens x width, in each layer: norms, modulation, rotation, residuals."""
    merge_passes: float
    """Over a ring's fp32 answers, for each block that is merged."""
    relay_passes: float
    """Over what is exchanged, to pack it and to put it in order."""
    hop_s: float
    """What a device loses at each hop of a ring beside the transfer: start, waiting of one stream for the other, and
    the launch of a merge."""
    calls_in: int = 1
    """Exchanges in which queries, keys and values travel; one more brings the answers back."""
    launches: float
    """Host work for one layer, in the time that one line of Python takes to launch a small kernel."""
    exchange_launches: float = 24.0
    gather_launches: float = 21.0
    hop_launches: float = 18.0
    """What an attention call adds likewise: 8, 7 and 6 kernels (`tests/bench/exchange_cost.py` counts them), each with
    Python around it that takes as long twice over."""
    overlap: float = 1.0
    """Which part of a hop can hide under the attention to a block."""


EAGER = Software(
    name="eager",
    passes=40,
    merge_passes=8,
    relay_passes=2,
    hop_s=0.12e-3,
    launches=320,  # FLUX: 3086 kernels in 57 layers, and modules of Python around each: 1.6 ms at 5 us
)
COMPILED = Software(
    name="compiled",
    passes=14,
    merge_passes=4,
    relay_passes=2,
    hop_s=0.1e-3,
    launches=60,
)
"""Passes and a hop's cost are fitted on published figures (`tests/bench/published.py`): a ring's hop costs 0.12 ms on
H100 in xDiT's table. Launches of a compiled block are an assumption."""

COMPILE_S = 60.0
"""To compile the blocks of a transformer the first time, on all devices side by side: a graph and its twin of each kind
of block. An assumption, on the long side; the next process finds most of it on the disk."""

IN_A_RUN = 230.0
"""What a block of a sharded transformer on a CPU adds to its attention call, in launches: the mode that sees each call
of torch (80), and code and threads that the block before drove out of the caches. Fitted on runs of the built-in model
(`tests/bench/predicted_runs.py`)."""
BY_PIECES = {
    "exchange_launches": 150.0 + IN_A_RUN,
    "gather_launches": 55.0 + IN_A_RUN,
    "hop_launches": 50.0 + IN_A_RUN,
}
"""On gloo, which sends each stream and member by itself: 544, 222 and 216 us a call, attention included, where a launch
takes 3.4 (`tests/bench/exchange_cost.py`, column `pieces`, two ranks)."""


def software_of(*, is_compiled: bool, sends_pieces: bool = False) -> Software:
    software = COMPILED if is_compiled else EAGER
    return replace(software, **BY_PIECES) if sends_pieces else software
