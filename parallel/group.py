"""A group: the ranks that work together along one axis of a plan, and what one of them has sent over it.

A plan spreads a denoise along several axes at once: `cfg` (branches of guidance), `layers` (sections of blocks),
`ulysses` (heads), `exchange` (keys and values, by ring or the like), `sequence` (the last two together) and `weights`.
Each rank has one group along each.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Axis(StrEnum):
    CFG = "cfg"
    LAYERS = "layers"  # the ranks of all sections that hold the same part of a sequence
    ULYSSES = "ulysses"
    EXCHANGE = "exchange"  # keys and values
    SEQUENCE = "sequence"  # ulysses and exchange together
    WEIGHTS = "weights"


@dataclass
class Count:
    """What this rank has sent over one group."""

    sent_bytes: int = 0
    calls: int = 0


class Group:
    """The ranks along one axis, in order, and this rank's index among them."""

    def __init__(
        self,
        ranks: Sequence[int],
        index: int,
        process_group: ProcessGroup | None = None,
        count: Count | None = None,  # of another group, with which this one is counted
    ) -> None:
        self.ranks = tuple(ranks)
        self.index = index
        self.process_group = process_group  # None for a group of one, and for a mesh that is only planned
        self.count = count or Count()
        self.flying: list[tuple[Any, Any]] = []  # what is sent, and what waits for that
        self.uses = itertools.count()  # a number for each use that tells its messages from those of others

    @functools.cached_property
    def packs(self) -> bool:
        """Whether what travels goes in one buffer by one collective, for want of launches; gloo is quicker by pieces.

        A group that is only planned does as one of GPUs.
        """
        if self.process_group is None:
            return True
        from torch.distributed import get_backend

        return get_backend(self.process_group) != "gloo"

    @property
    def size(self) -> int:
        return len(self.ranks)

    def __repr__(self) -> str:
        return f"Group({self.index} of {self.ranks})"
