"""Which blocks a section holds: consecutive ones, so that the largest section is as small as can be.

The linear partition of Bellman's dynamic programming, over times where they are known, under each device's memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Dealt:
    """A transformer's blocks as one section sees them."""

    owners: tuple[int, ...]  # of each block the section that holds it
    own: tuple[nn.Module, ...]
    others: tuple[tuple[nn.Module, int], ...]  # each with the section that holds it
    elsewhere: frozenset[str]  # the names of parameters that only other sections need


def dealt_to(
    index: int, module: nn.Module, blocks: Sequence[nn.Module], count: int, *, lent: Sequence[nn.Module]
) -> Dealt | None:
    """The blocks of one of `count` sections; None if there are fewer. `lent` are modules that are also called outside
    of their blocks, and so are needed by all."""
    blocks = outermost(blocks)
    if len(blocks) < count:
        return None
    owners = deal([size_of(block) for block in blocks], count)
    pairs = list(zip(blocks, owners, strict=True))
    own = tuple(block for block, owner in pairs if owner == index)
    others = tuple((block, owner) for block, owner in pairs if owner != index)
    needed = {id(parameter) for each in (*own, *lent) for parameter in each.parameters()}
    absent = {id(parameter) for block, _ in others for parameter in block.parameters()} - needed
    names = (name for name, each in module.named_parameters(remove_duplicate=False) if id(each) in absent)
    return Dealt(owners, own, others, frozenset(names))


def outermost(blocks: Sequence[nn.Module]) -> list[nn.Module]:
    """Each once, and none that lies in another."""
    inside = {id(inner) for block in blocks for inner in block.modules() if inner is not block}
    return [block for block in dict.fromkeys(blocks) if id(block) not in inside]


def size_of(block: nn.Module) -> int:
    """The bytes of its weights."""
    return sum(parameter.nbytes for parameter in block.parameters())


def deal(
    times: Sequence[float], count: int, *, sizes: Sequence[int] = (), rooms: Sequence[int] = ()
) -> tuple[int, ...]:
    """Of each block the section that holds it; nothing where there is no room.

    At least one block to each section; the longest takes as little time as can be, and of such cuts the first has most.
    `rooms` are how many bytes of blocks each section may hold, whose `sizes` are given then.
    """
    num = len(times)
    # By how many of the first blocks the sections so far hold: the longest of them, and how many the last one holds.
    best: list[tuple[float, int] | None] = [(0.0, 0)] + [None] * num
    rows: list[list[tuple[float, int] | None]] = []
    for section in range(count):
        row: list[tuple[float, int] | None] = [None] * (num + 1)
        for end in range(section + 1, num + 1):
            for held in range(1, end - section + 1):
                before = best[end - held]
                if rooms and sum(sizes[end - held : end]) > rooms[section]:
                    break
                if before is not None:
                    longest = max(before[0], sum(times[end - held : end]))
                    known = row[end]
                    if known is None or longest < known[0]:
                        row[end] = longest, held
        rows.append(row)
        best = row
    if best[num] is None:
        return ()
    counts, end = list[int](), num
    for row in reversed(rows):
        found = row[end]
        assert found is not None, "it was reached from there"
        counts.append(found[1])
        end -= found[1]
    return tuple(section for section, held in enumerate(reversed(counts)) for _ in range(held))
