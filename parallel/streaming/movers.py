"""What brings a block into a slot: a thread on a CPU, a copy stream and events on a GPU.

Who asks is the computing thread alone, in the order of its calls, so that all ranks ask alike. On a GPU the host never
waits: a copy waits for the event of the block that last read its slot, the next block for that of the copy.

    compute     wait ready[a]  block n    record free[a]   wait ready[b]  block n+1 ...
    copy        wait free[a]   block n+2 into a   record ready[a]   wait free[b] ...
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

Copies = Sequence[tuple[Tensor, Tensor]]  # (bytes of a slot, bytes at rest)
ASK_S = 0.02  # between looks for an exception that another thread has set, while a copy is waited for


class Mover(Protocol):
    """Slots are numbered from 0."""

    def bring(self, slot: int, copies: Copies) -> None:
        """Into a slot whose last block is done, or asked for; returns at once."""

    def wait(self, slot: int) -> None:
        """What computes next finds the slot full. Raises what the copy failed with."""

    def used(self, slot: int) -> None:
        """What was asked of the device until now is the last that reads the slot."""

    def end(self) -> None:
        """Waits for all copies; nobody may ask for more."""


class HostMover:
    """A thread that copies, in the order in which it was asked."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[_Ticket, Copies] | None] = queue.SimpleQueue()
        self._tickets: dict[int, _Ticket] = {}
        self._thread = threading.Thread(target=self._work, name="latentloom-blocks", daemon=True)
        self._thread.start()

    def bring(self, slot: int, copies: Copies) -> None:
        ticket = _Ticket()
        self._tickets[slot] = ticket
        self._asked.put((ticket, copies))

    def wait(self, slot: int) -> None:
        self._tickets[slot].wait()

    def used(self, slot: int) -> None:
        pass  # the computing thread has done what it asked for

    def end(self) -> None:
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        torch.set_num_threads(1)  # of this thread: the others compute
        while (asked := self._asked.get()) is not None:
            ticket, copies = asked
            try:
                for slot, rest in copies:
                    slot.copy_(rest)
            except BaseException as error:  # told where the block is wanted
                ticket.error = error
            ticket.ring()


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

    def __init__(self, device: torch.device, num_slots: int, *, cuda: Any = torch.cuda) -> None:
        self._device, self._cuda = device, cuda
        self._stream = cuda.Stream(device)
        self._ready = [cuda.Event() for _ in range(num_slots)]
        self._free = [cuda.Event() for _ in range(num_slots)]
        for slot in range(num_slots):  # its memory's last user may still be at work
            self.used(slot)

    def bring(self, slot: int, copies: Copies) -> None:
        self._stream.wait_event(self._free[slot])
        with self._cuda.stream(self._stream):
            for into, rest in copies:
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


def mover_for(device: torch.device, num_slots: int) -> Mover:
    return DeviceMover(device, num_slots) if device.type == "cuda" else HostMover()
