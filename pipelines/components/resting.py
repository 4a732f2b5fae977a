"""A component whose blocks rest in the host's memory, because its device has no room for all of them.

What is in no block is on the device, and so are as many blocks as there is room for, spread evenly, so that a copy
hides under more than one block's work. The others come when they are wanted (`parallel/streaming`). On a CPU the files
are mapped and lie where they rest; for a GPU they are pinned.
"""

from __future__ import annotations

import functools
import logging
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from ...parallel.group import Axis, Group
from ...parallel.mesh import Mesh, gatherers
from ...parallel.sharding.hooks import modules_ending
from ...parallel.streaming.layout import Layout, Leaf, align_of, leaves, num_bytes_under, outside_of, shared_by_several
from ...parallel.streaming.movers import NUM_SHARES, is_sooner, mover_for, padded
from ...parallel.streaming.pinned import Pinned
from ...parallel.streaming.streamed import NUM_SLOTS, Streamed
from ...parallel.together import start_agreeing
from ..split_plans import SPLIT_PLANS
from .memory import MEMORY, USABLE_SHARE, memory_limit

logger = logging.getLogger("latentloom")
Blocks = Iterable[nn.Module] | None
Wish = tuple[int, int, int]  # of one rank: whether it goes on, how many blocks may stay, whether it has tried shares
NO_WISH: Wish = (0, -1, 0)  # of one where nothing rests
GROWS_BY = 8  # so many of all blocks more must fit before a streamed component is laid out anew for them


class Resting:
    """A loaded component on the host, made ready for its device: streamed from `begin` to `end`.

    Processes of a machine that give the same `key` share what is pinned for it. Without `pins`, for which the host may
    have no room, blocks stay where they were loaded: in files that are mapped, or in memory where they were converted.
    `blocks` are those of its lists, where none are named.
    """

    def __init__(
        self, component: nn.Module, name: str, device: str, *, key: str = "", pins: bool = True, blocks: Blocks = None
    ) -> None:
        self.name, self.device, self.key, self._pins = name, torch.device(device), key, pins
        self._component = component
        first = next(component.parameters(), None)  # libraries take its device for that of the whole component
        found = blocks_of(component) if blocks is None else blocks
        self.blocks = [block for block in found if all(each is not first for each in block.parameters())]
        split = SPLIT_PLANS.get(type(component).__name__)
        self._kept = modules_ending(component, self.blocks, split.lent) if split else []
        self._pinned: Pinned | None = None
        self._streamed: Streamed | None = None
        self.resident: tuple[int, ...] = ()  # the blocks that stay, or stayed when it was streamed last
        self._mesh: Mesh | None = None  # whose ranks gather what they bring, if they do
        self._judged: Mesh | None = None  # whose ranks have tried whether that is sooner
        self._is_sooner = self._keeps = False
        self._most = len(self.blocks)  # so many may stay
        try:
            self._settle()
        except BaseException:
            self.free()
            raise

    @property
    def num_bytes(self) -> int:
        """What it takes of the device now."""
        return self.outside_bytes + (self._streamed.num_bytes if self._streamed else 0)

    @property
    def least_bytes(self) -> int:
        """What it takes of the device while no block stays there."""
        return self.outside_bytes + self._taken(())

    @property
    def host_bytes(self) -> int:
        """What it has pinned."""
        return 0 if self._pinned is None else self._pinned.num_bytes

    @property
    def num_resident(self) -> int:
        return len(self.resident) if self._streamed else 0

    @property
    def num_there(self) -> int:
        """Of how many blocks something stays on the device: of all where ranks hold them between them."""
        return len(self.blocks) if self._keeps else len(self.resident)

    def shared_bytes(self, group: Group) -> int:
        """What it takes of the device where ranks hold its blocks between them."""
        sizes = [padded(size, group) for size in self.sizes]
        return self.outside_bytes + NUM_SLOTS * max(sizes, default=0) + sum(sizes) // group.size

    def begin(self, room: float, mesh: Mesh | None = None, *, most: float | None = None, keeps: bool = False) -> None:
        """Within so many bytes of the device, as many blocks on it as fit, and at `most` so many. Raises `ValueError`
        for a budget that someone has set and that is too small for any way to run it.

        Collective with a mesh: if it rests and lies alike on all its ranks, those that share tokens bring a share of
        each block and gather it, where that is sooner; of blocks then as many stay as where the least do. If it `keeps`
        shares, these lie on the devices, if all have room, and no block stays.
        """
        self._most = len(self.blocks) if most is None else int(min(most, len(self.blocks)))
        stay, goes_on = self._most_resident(room), self._streamed is not None
        if mesh is not None and (agreed := self._agreed(room, mesh, keeps)) is not None:
            goes_on, stay = agreed
        else:
            mesh = None
        if goes_on and self._mesh is mesh:
            now = len(self.resident)
            if now == stay or now < stay < now + max(1, len(self.blocks) // GROWS_BY):
                return
        self.end()
        if self.least_bytes > room and memory_limit():
            least = memory_limit() + (self.least_bytes - room) / USABLE_SHARE
            allowed = f"{MEMORY} or --memory allows {memory_limit() / 1e9:.3g} GB"
            raise ValueError(
                f"{allowed}, and {self.name} needs {least / 1e9:.3g} GB even with its blocks brought one by one; allow "
                "that much, or use quantization or a smaller picture"
            )
        self.resident, self._mesh = spread(len(self.blocks), stay), mesh
        self._keeps = keeps and mesh is not None
        self._streamed = Streamed(
            self.blocks,
            device=self.device,
            resident=self.resident,
            without=frozenset(self._without),
            group=gatherers(mesh) if mesh is not None else None,
            mover=functools.partial(mover_for, keeps=self._keeps),
        )
        if stay < len(self.blocks):
            told = "%s: %d of %d blocks stay on %s, the others come from the host's memory%s"
            how = f", in shares of {mesh[Axis.SEQUENCE].size} ranks{', once' * keeps}" if mesh is not None else ""
            logger.info(told, self.name, stay, len(self.blocks), self.device, how)

    def end(self) -> None:
        """Of the device it takes only what is in no block. A second call does nothing."""
        if self._streamed is not None:
            self._streamed.end()
            self._streamed = None

    def refitted(self, key: str) -> None:
        """After its LoRAs were exchanged, while it was not streamed; by the same key only their scales were."""
        if key != self.key:
            self.key = key
            self._settle()

    def free(self) -> None:
        """It pins nothing any more, and is of no more use."""
        self.end()
        if self._pinned is not None:
            self._pinned.free()

    def _settle(self) -> None:
        """What is in blocks at rest, all else on the device."""
        self._without = shared_by_several(self._component, self.blocks, kept=self._kept)
        if self.device.type == "cuda":
            if self._pinned is not None:
                self._pinned.free()
            if self._pins:
                cudart = torch.cuda.cudart()
                self._pinned = Pinned(self.blocks, cudart=cudart, without=self._without, key=self.key)
            else:
                told = "%s: the host's memory has no room for its blocks, which are read from the disk in each step"
                logger.warning(told, self.name)
            inside = leaves(each for block in self.blocks for each in block.modules())
            left_out = [leaf for leaf in inside if leaf.value.data_ptr() in self._without]
            _move([*leaves(outside_of(self._component, self.blocks)), *left_out], self.device)
            self._without = shared_by_several(self._component, self.blocks, kept=self._kept)  # by where they are now
        layouts = [self._layout(block) for block in self.blocks]
        self.sizes = [each.num_bytes for each in layouts]
        self._lies = zlib.crc32(repr([each.places for each in layouts]).encode())
        every = {leaf.value.data_ptr(): num_bytes_under(leaf.value) for leaf in leaves(self._component.modules())}
        self.outside_bytes = max(0, sum(every.values()) - sum(self.sizes))

    def _layout(self, block: nn.Module) -> Layout:
        return Layout(block, without=self._without, align=align_of(self.device))

    def _most_resident(self, room: float) -> int:
        count = len(self.blocks)
        fits = (n for n in range(self._most, 0, -1) if self.outside_bytes + self._taken(spread(count, n)) <= room)
        return next(fits, 0)

    def _agreed(self, room: float, mesh: Mesh, keeps: bool) -> tuple[bool, int] | None:
        """Collective: whether all go on as they did, and how many blocks stay; None where each brings whole ones."""
        # One that begins anew alone would ask for other blocks than the others, and so all do.
        goes_on = self._streamed is not None and self._mesh is mesh
        group = mesh[Axis.SEQUENCE]
        has_room = self.shared_bytes(group) <= room and self._most == len(self.blocks)
        most = has_room - 1 if keeps else self._most_gathering(room, group)
        wish: Wish = goes_on, most, keeps or self._judged is mesh
        alike = start_agreeing(wish, (self.name, self.key, self._lies), mesh)()
        if alike is None or alike[1] < 0:
            return None
        if not alike[2]:
            self.end()
            largest = self._layout(self.blocks[self.sizes.index(max(self.sizes))])
            sooner = is_sooner(largest, self.device, gatherers(mesh))
            self._is_sooner, self._judged = start_agreeing((sooner,), None, mesh)() == [1], mesh
        return (bool(alike[0]), alike[1]) if keeps or self._is_sooner else None

    def _most_gathering(self, room: float, group: Group) -> int:
        """As many as stay beside shares that are gathered; -1 where these have no room."""
        largest = padded(max(self.sizes, default=0), group)
        room -= NUM_SHARES * largest // group.size + NUM_SLOTS * (largest - max(self.sizes, default=0))
        return self._most_resident(room) if self.sizes and self.least_bytes <= room else -1

    def _taken(self, resident: Sequence[int]) -> int:
        """What slots take while these blocks stay."""
        coming = [size for index, size in enumerate(self.sizes) if index not in set(resident)]
        return sum(self.sizes[index] for index in resident) + min(NUM_SLOTS, len(coming)) * max(coming, default=0)


def blocks_of(module: nn.Module) -> Iterator[nn.Module]:
    """The members of its outermost lists, which are called one after the other."""
    for child in module.children():
        if not isinstance(module, nn.ModuleList) or isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from blocks_of(child)
        elif next(child.parameters(), None) is not None:
            yield child


def spread(num_blocks: int, num_resident: int) -> tuple[int, ...]:
    """Which of so many blocks stay, as evenly as can be; the last one does before the first."""
    return tuple(i for i in range(num_blocks) if i * num_resident // num_blocks != (i + 1) * num_resident // num_blocks)


def _move(found: Iterable[Leaf], device: torch.device) -> None:
    """Tensors that are one stay one."""
    moved: dict[tuple[Any, ...], torch.Tensor] = {}
    for leaf in found:
        value = leaf.value
        key = (value.data_ptr(), value.shape, value.stride())
        if key not in moved:
            moved[key] = value.to(device)
        leaf.point(moved[key])
