"""What stands for CUDA graphs where there is no GPU: a tape computes anew, from the buffers that were captured."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

CPU = torch.device("cpu")


class Tape:
    """A graph that runs its action again, and writes over what it gave."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.action, self.found = action, action()
        self.num_replays, self.is_reset = 0, False

    def replay(self) -> None:
        assert not self.is_reset
        self.num_replays += 1
        for old, new in zip(tree_leaves(self.found), tree_leaves(self.action()), strict=True):
            old.copy_(new)

    def reset(self) -> None:
        self.is_reset = True

    def pool(self) -> None:
        return None


class Tapes:
    def __init__(self, device: torch.device = CPU) -> None:
        self.device = device
        self.made: list[Tape] = []
        self.num_aside = self.num_settled = 0
        self.taken_bytes, self.num_free = 100, 1 << 40

    def aside(self, action: Callable[[], Any]) -> tuple[Any, int]:
        self.num_aside += 1
        return action(), self.taken_bytes

    def free_bytes(self) -> int:
        return self.num_free

    def settle(self) -> None:
        self.num_settled += 1

    def record(self, action: Callable[[], Any], *, beside: object) -> tuple[Tape, Any, int]:
        assert (beside is None) == all(each.is_reset for each in self.made)
        tape = Tape(action)
        self.made.append(tape)
        return tape, tape.found, 100
