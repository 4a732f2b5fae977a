"""A rank's seat in one job: which of how many ranks it is, and its device.

Plain values: what a job's function is told of its rank (`Seat`), and which process group the ranks form (`World`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Seat:
    rank: int
    """In the job's process group, which the job's ranks have joined when there are several."""
    num_ranks: int
    device: str


@dataclass(frozen=True, kw_only=True)
class World:
    """The process group that a job's ranks join: `num_ranks` of them here, from `first` of `size` in all.

    Where `size` is larger than `num_ranks`, the others are on other machines, and `store` is HOST:PORT on a network
    that `interface` reaches. Otherwise `store` is a path, and nothing listens beyond the loopback.
    """

    name: str
    store: str
    size: int
    first: int = 0
    interface: str = "lo"
