"""A rank's seat in one job: which of how many ranks it is, and its device.

Plain values: what a job's function is told of its rank (`Seat`), and which process group it is in (`World`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Seat:
    rank: int  # among the job's ranks, which are the first of those in the process group; a job on one rank needs none
    num_ranks: int
    device: str


@dataclass(frozen=True, kw_only=True)
class World:
    """A process group of `size` ranks, those here from number `first` on.

    A replica's own holds all its ranks, and lasts; `store` is a path then, and nothing listens beyond the loopback.
    That of a job over several machines holds all of the job's, and `store` is HOST:PORT on a network that the pool's
    interface reaches.
    """

    name: str
    store: str
    size: int
    first: int = 0
