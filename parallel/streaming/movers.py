"""What brings a block into a slot: a thread on a CPU, a copy stream and events on a GPU.

Who asks is the computing thread alone, in the order of its calls, so that all ranks ask alike. On a GPU the host never
waits: a copy waits for the event of the block that last read its slot, the next block for that of the copy.

    compute     wait ready[a]  block n    record free[a]   wait ready[b]  block n+1 ...
    copy        wait free[a]   block n+2 into a   record ready[a]   wait free[b] ...
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..collectives import gather_into
from ..group import Group
from ..progress import finish
from .layout import Layout

UNIT_BYTES = 512  # shares are multiples of it
NUM_SHARES = 2  # one comes from the host while the other is gathered
NUM_TRIALS = 3  # the first one connects the ranks
ASK_S = 0.02  # between looks for an exception that another thread has set, while a copy is waited for


def padded(num_bytes: int, group: Group) -> int:
    """So many bytes, in equal shares."""
    return -(-num_bytes // (group.size * UNIT_BYTES)) * group.size * UNIT_BYTES


class HostMover:
    """A thread that copies, in the order in which it was asked. With a group it brings a share, and gathers the others'
    into the slot: one module at a time, as threads of a rank would ask gloo in an order of their own. If it `keeps`
    shares, it reads each once."""

    def __init__(self, slots: Sequence[Tensor], group: Group | None = None, *, keeps: bool = False) -> None:
        self._slots, self._group, self._keeps, self.num_bytes = slots, group, keeps, 0
        self._kept: dict[Layout, Tensor] = {}
        self._asked: queue.SimpleQueue[tuple[_Ticket, Tensor, Layout] | None] = queue.SimpleQueue()
        self._tickets: dict[int, _Ticket] = {}
        self._thread = threading.Thread(target=self._work, name="latentloom-blocks", daemon=True)
        self._thread.start()

    def bring(self, slot: int, layout: Layout) -> None:
        """Into a slot whose last block is done, or asked for; returns at once. Collective with a group."""
        ticket = _Ticket()
        self._tickets[slot] = ticket
        self._asked.put((ticket, self._slots[slot], layout))

    def wait(self, slot: int) -> None:
        """What computes next finds the slot full. Raises what the copy failed with."""
        self._tickets[slot].wait()

    def used(self, slot: int) -> None:
        """What was asked of the device until now is the last that reads the slot; here it is done."""

    def end(self) -> None:
        """Waits for all copies; nobody may ask for more."""
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        torch.set_num_threads(1)  # of this thread: the others compute
        while (asked := self._asked.get()) is not None:
            ticket, slot, layout = asked
            try:
                self._fill(slot, layout)
            except BaseException as error:  # told where the block is wanted
                ticket.error = error
            ticket.ring()

    def _fill(self, slot: Tensor, layout: Layout) -> None:
        group, share, begin = self._group, slot, 0
        if group is not None:
            slot = slot[: padded(layout.num_bytes, group)]
            size = len(slot) // group.size
            begin = size * group.index
            share = self._kept.get(layout, slot[begin : begin + size])
        for into, rest in layout.copies(share, begin=begin) if layout not in self._kept else ():
            into.copy_(rest)
        if self._keeps and layout not in self._kept:
            self._kept[layout] = share.clone()
            self.num_bytes += len(share)
        if group is not None:
            gather_into(slot, share, group=group, is_async=False)


class _Ticket:
    """A copy that was asked for. By a bare lock: an exception set by another thread would leave `threading.Event`'s own
    lock held for ever."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._is_done = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def ring(self) -> None:
        self._is_done = True
        self._bell.release()

    def wait(self) -> None:
        while not self._is_done:
            self._bell.acquire(timeout=ASK_S)
        if self.error is not None:
            raise self.error


class DeviceMover:
    """A stream of copies beside the stream that computes, and two events for each slot. `cuda` is `torch.cuda`."""

    num_bytes = 0

    def __init__(self, slots: Sequence[Tensor], *, cuda: Any = torch.cuda) -> None:
        self._slots, self._cuda, self._device = slots, cuda, slots[0].device
        self._stream = cuda.Stream(self._device)
        self._ready = [cuda.Event() for _ in slots]
        self._free = [cuda.Event() for _ in slots]
        for slot in range(len(slots)):  # its memory's last user may still be at work
            self.used(slot)

    def bring(self, slot: int, layout: Layout) -> None:
        self._stream.wait_event(self._free[slot])
        with self._cuda.stream(self._stream):
            for into, rest in layout.copies(self._slots[slot]):
                into.copy_(rest, non_blocking=True)
        self._ready[slot].record(self._stream)

    def wait(self, slot: int) -> None:
        self._cuda.current_stream(self._device).wait_event(self._ready[slot])

    def used(self, slot: int) -> None:
        self._free[slot].record(self._cuda.current_stream(self._device))

    def end(self) -> None:
        """The only wait of the host: the resting copy may be changed or given back from now on."""
        self._stream.synchronize()
        # and what is made of the slots' memory next comes behind the copies, on the stream that computes
        self._cuda.current_stream(self._device).wait_stream(self._stream)


class GatheringMover(DeviceMover):
    """Each rank copies its share from the host, and all ranks gather them over the wire between their devices.

        copy        wait left[i]  share of block n+2 -> i   record came[i]
        wire        wait came[i]  wait free[a]  all shares -> slot a   record left[i], ready[a]

    So a share comes while the slot's last block still computes. All ranks call alike: one communicator, its own. If it
    `keeps` shares, each comes from the host once, and lies on the device from then on.
    """

    def __init__(self, slots: Sequence[Tensor], group: Group, *, keeps: bool = False, cuda: Any = torch.cuda) -> None:
        super().__init__(slots, cuda=cuda)
        self._keeps, self._kept = keeps, dict[Layout, Tensor]()
        self._group, self._wire, self._turn = group, cuda.Stream(self._device), 0
        size = 0 if keeps else len(slots[0]) // group.size
        self._shares = [torch.empty(size, dtype=torch.uint8, device=self._device) for _ in range(NUM_SHARES)]
        self._came = [cuda.Event() for _ in self._shares]
        self._left = [cuda.Event() for _ in self._shares]
        for left in self._left:  # as with slots
            left.record(cuda.current_stream(self._device))
        self.num_bytes = NUM_SHARES * size

    def bring(self, slot: int, layout: Layout) -> None:
        """Collective."""
        whole = self._slots[slot][: padded(layout.num_bytes, self._group)]
        size, turn = len(whole) // self._group.size, self._turn
        self._turn = (turn + 1) % NUM_SHARES
        share = self._kept.get(layout)
        if share is None:
            share = self._share(turn, size)
            self._stream.wait_event(self._left[turn])
            with self._cuda.stream(self._stream):
                for into, rest in layout.copies(share, begin=size * self._group.index):
                    into.copy_(rest, non_blocking=True)
            self._came[turn].record(self._stream)
            self._wire.wait_event(self._came[turn])
        if self._keeps:
            self._kept[layout] = share
        self._wire.wait_event(self._free[slot])
        with self._cuda.stream(self._wire):
            gather_into(whole, share, group=self._group, is_async=False)
        self._left[turn].record(self._wire)
        self._ready[slot].record(self._wire)

    def _share(self, turn: int, size: int) -> Tensor:
        if not self._keeps:
            return self._shares[turn][:size]
        self.num_bytes += size
        share = torch.empty(size, dtype=torch.uint8, device=self._device)
        self._stream.wait_stream(self._cuda.current_stream(self._device))  # its memory's last user may be at work
        return share

    def end(self) -> None:
        super().end()
        self._wire.synchronize()  # the slots may go to another thread's stream


Mover = HostMover | DeviceMover


def mover_for(slots: Sequence[Tensor], group: Group | None, *, keeps: bool = False) -> Mover:
    if slots[0].device.type != "cuda":
        return HostMover(slots, group, keeps=keeps)
    return DeviceMover(slots) if group is None else GatheringMover(slots, group, keeps=keeps)


def is_sooner(layout: Layout, device: torch.device, group: Group) -> bool:
    """Collective: whether a block is there sooner by shares than if all ranks copy all of it at a time. Where their
    wire passes the host it is not."""
    slots = [torch.empty(padded(layout.num_bytes, group), dtype=torch.uint8, device=device)]
    seconds = list[float]()
    for mover in (mover_for(slots, None), mover_for(slots, group)):
        for _ in range(NUM_TRIALS):
            begun = time.perf_counter()
            mover.bring(0, layout)
            mover.wait(0)
            finish(str(device))
            seconds.append(time.perf_counter() - begun)
        mover.end()
    return min(seconds[:NUM_TRIALS]) > min(seconds[NUM_TRIALS:])
