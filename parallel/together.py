"""Weights that several ranks of a machine need alike, read once: each rank brings a share of the bytes to its device,
and all gather the others' over the links between the devices.

    rank 0   file[0:n/P]    -> device -+
    rank 1   file[n/P:2n/P] -> device -+- all-gather -> all n bytes on every device
    ...

Whether all read together has to be decided alike on all of them: a rank that has the weights already, or was replaced
and reads alone, would be waited for without end. So they vote. And what was gathered is compared with what was read.
"""

# P ranks, n bytes of a tensor

from __future__ import annotations

import platform
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .group import Group
from .mesh import Mesh, everyone
from .staging import bytes_of, moving

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.distributed import ProcessGroup

LEAST_BYTES = 1 << 20  # of smaller tensors each rank reads all: to gather one costs more
UNIT_BYTES = 16  # shares are multiples of it


class Readers:
    """The ranks that read the same tensors together, in the same order, until each has called `check`."""

    def __init__(self, group: Group, voters: ProcessGroup) -> None:
        self._group, self._voters = group, voters
        self._sums: Tensor | None = None  # of each rank's shares, as they are here: P

    def moving(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """Collective in what it gives, as `staging.moving`: a tensor of the host on `device`. Of a large one that lies
        in a mapped file a rank reads its share only."""
        import torch

        from .collectives import gather_into

        move, count, own = moving(device), self._group.size, self._group.index

        def moved(tensor: Tensor) -> Tensor:
            if tensor.nbytes < LEAST_BYTES:
                return move(tensor)
            whole = bytes_of(tensor)
            each = -(-len(whole) // (count * UNIT_BYTES)) * UNIT_BYTES
            gathered = torch.empty(count * each, dtype=torch.uint8, device=device)
            share = gathered[own * each : (own + 1) * each]
            source = whole[own * each : (own + 1) * each]
            share[: len(source)].copy_(move(source))
            gather_into(gathered, share, group=self._group, is_async=False)
            # Of all that came, on the device and by no wait: an exchange that is aborted ends without its bytes, and
            # without a word, and the numbers of a model would be of memory that was never written.
            sums = gathered.view(torch.int32).view(count, -1).sum(1)  # P
            self._sums = sums if self._sums is None else self._sums + sums
            return gathered[: len(whole)].view(tensor.dtype).view(tensor.shape)

        return moved

    def check(self) -> None:
        """Collective, and waits for the device: raise RuntimeError if this rank was not given what the others read."""
        import torch

        from .collectives import start_highest

        here = torch.zeros(self._group.size, dtype=torch.int64) if self._sums is None else self._sums.cpu()
        self._sums = None
        own = torch.full_like(here, torch.iinfo(torch.int64).min)  # by a vote that gives the highest: one says each
        own[self._group.index] = here[self._group.index]
        read = start_highest(own, self._voters)()  # of each rank what it alone knows
        wrong = (read != here).nonzero().flatten().tolist()
        if wrong:
            raise RuntimeError(
                f"weights that rank {wrong[0]} read did not arrive here as they are; run again, and if it stays so "
                "look at the links between the devices with latentloom doctor"
            )


def start_highest_of(mesh: Mesh, *values: int) -> Callable[[], list[int]]:
    """Collective: of each number the highest of all ranks of the mesh. Returns at once; the function it gives back
    waits."""
    import torch

    from .collectives import start_highest

    assert mesh.voters is not None, f"the mesh of plan {mesh.plan} is of `mesh_for`"
    wait = start_highest(torch.tensor(values, dtype=torch.int64), mesh.voters)
    return lambda: wait().tolist()


def highest(mesh: Mesh, *values: int) -> list[int]:
    """`start_highest_of`, and wait for it."""
    return start_highest_of(mesh, *values)()


def start_agreeing(wishes: Sequence[int], same: object, mesh: Mesh) -> Callable[[], list[int] | None]:
    """Collective: of each wish the least of all ranks of the mesh; None unless `same` is equal on all of them and they
    are on one machine. Returns at once; the function it gives back waits."""
    # A number that is equal, and so the highest and the lowest, where all ranks of a machine have the same.
    mark = zlib.crc32(repr((platform.node(), same)).encode())
    wait = start_highest_of(mesh, mark, -mark, *(-wish for wish in wishes))

    def found() -> list[int] | None:
        highest, lowest, *least = wait()
        return [-each for each in least] if highest == -lowest else None

    return found


def who_reads(lacking: Sequence[object], mesh: Mesh) -> Readers | None:
    """Collective: who reads what this rank lacks: all ranks of the mesh together if all lack the same and are on one
    machine, or None: each by itself. Only a rank that lacks something waits for the others' votes."""
    agreed = start_agreeing([bool(lacking)], lacking, mesh)
    if not lacking:
        return None
    assert mesh.voters is not None, "they vote"
    return Readers(everyone(mesh), mesh.voters) if agreed() == [1] else None
