"""Which blocks a section holds: consecutive ones, so that the largest section is as small as can be.

The linear partition by dynamic programming (Skiena, The Algorithm Design Manual), under each device's memory.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...group import Axis
from ...mesh import Mesh

if TYPE_CHECKING:  # whoever only plans need not load it
    from torch import nn

GIB = 1 << 30
UNBOUNDED = 1 << 60


@dataclass(frozen=True)
class Dealt:
    """A transformer's blocks as one section sees them."""

    owners: tuple[int, ...]  # of each block the section that holds it
    own: tuple[nn.Module, ...]
    others: tuple[tuple[nn.Module, int], ...]  # each with the section that holds it
    elsewhere: frozenset[str]  # the names of parameters that only other sections need


@dataclass(frozen=True, kw_only=True)
class Dealing:
    """How blocks are to be dealt out."""

    work: Callable[[nn.Module], float]  # how long a block takes, beside others
    rooms: Sequence[int] = ()  # for how many bytes of weights each section has room, where that is known
    shrinks: float = 1.0  # to which part of their bytes weights are packed as they are read
    lent: Sequence[nn.Module] = ()  # modules that are also called outside of their blocks, and so are needed by all


def dealt_to(index: int, module: nn.Module, blocks: Sequence[nn.Module], count: int, how: Dealing) -> Dealt:
    """The blocks of one of `count` sections, the same on all ranks. Raises ValueError if they cannot be dealt out."""
    blocks = outermost(blocks)
    if len(blocks) < count:
        raise ValueError(f"its {len(blocks)} blocks are fewer than {count} sections; make layers smaller")
    sizes = [int(size_of(block) * how.shrinks) for block in blocks]
    outside = int(size_of(module) * how.shrinks) - sum(sizes)
    rooms = tuple(room - outside for room in how.rooms)
    owners = deal(tuple(how.work(block) for block in blocks), count, sizes=tuple(sizes), rooms=rooms)
    if not owners:
        raise ValueError(
            f"its blocks of {sum(sizes) / GIB:.1f} GiB have no room in {count} sections, which have "
            f"{' and '.join(f'{max(0, room) / GIB:.1f}' for room in rooms)} GiB for them; make layers larger"
        )
    pairs = list(zip(blocks, owners, strict=True))
    own = tuple(block for block, owner in pairs if owner == index)
    others = tuple((block, owner) for block, owner in pairs if owner != index)
    needed = {id(parameter) for each in (*own, *how.lent) for parameter in each.parameters()}
    absent = {id(parameter) for block, _ in others for parameter in block.parameters()} - needed
    names = (name for name, each in module.named_parameters(remove_duplicate=False) if id(each) in absent)
    return Dealt(owners, own, others, frozenset(names))


def rooms_among(room: int, mesh: Mesh) -> list[int]:
    """Collective, on the CPU: of each section the least room of its ranks, each of which tells of its own."""
    import torch

    from ...collectives import start_highest

    assert mesh.voters is not None, f"the mesh of plan {mesh.plan} is of `mesh_for`"
    told = torch.full((mesh.plan.layers,), -UNBOUNDED)
    told[mesh[Axis.LAYERS].index] = -room
    return [-each for each in start_highest(told, mesh.voters)().tolist()]


def outermost(blocks: Sequence[nn.Module]) -> list[nn.Module]:
    """Each once, and none that lies in another."""
    inside = {id(inner) for block in blocks for inner in block.modules() if inner is not block}
    return [block for block in dict.fromkeys(blocks) if id(block) not in inside]


def size_of(block: nn.Module) -> int:
    """The bytes of its weights."""
    return sum(parameter.nbytes for parameter in block.parameters())


BY_SIZE = Dealing(work=size_of)


@functools.lru_cache(maxsize=1024)
def deal(
    times: tuple[float, ...], count: int, *, sizes: tuple[int, ...], rooms: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """Of each block the section that holds it; nothing where there is no room.

    Each of `count` sections holds a block at least, and no more than its `rooms` if given. The longest takes as little
    time as can be; of such cuts that is taken whose largest section, by `sizes` in bytes, is the smallest.
    """
    until, held = ([0, *itertools.accumulate(each)] for each in (times, sizes))

    def has_room(section: int, start: int, end: int) -> bool:
        return not rooms or held[end] - held[start] <= rooms[section]

    longest = _least(until, count, has_room)[0]

    def may_hold(section: int, start: int, end: int) -> bool:
        return until[end] - until[start] <= longest and has_room(section, start, end)

    return _least(held, count, may_hold)[1]


def _least(
    until: Sequence[float], count: int, may_hold: Callable[[int, int, int], bool]
) -> tuple[float, tuple[int, ...]]:
    """The least that the largest section can have of something, which the blocks before each have so much of; and the
    cut."""
    num = len(until) - 1
    # By how many blocks the sections so far hold: what the largest of them has, and the section of each block.
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for section in range(count):
        found: dict[int, tuple[float, tuple[int, ...]]] = {}
        for start, (largest, cut) in best.items():
            for end in range(start + 1, num + 1):
                if may_hold(section, start, end):
                    now = max(largest, until[end] - until[start])
                    if end not in found or now < found[end][0]:
                        found[end] = now, (*cut, *[section] * (end - start))
        best = found
    return best.get(num, (0.0, ()))
