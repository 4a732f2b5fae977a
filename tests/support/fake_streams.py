"""CUDA's streams and events as far as streaming uses them, with a checker of what happens before what.

Vector clocks (Fidge, Mattern 1988): each stream, and the host, counts its own operations. What the host asks of a
stream comes after all that the host has seen; who waits for an event has seen what the stream had when it was recorded.
Two touches of the same memory, one of them a write, have to be in an order, whatever a clock would have said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

LAUNCH_S = 5e-6
Clock = dict[str, int]


class Race(Exception):
    pass


class Stream:
    def __init__(self, cuda: FakeCuda, name: str) -> None:
        self.cuda, self.name, self.clock, self.ends = cuda, name, Clock(), 0.0

    def seen(self, clock: Clock) -> None:
        for name, count in clock.items():
            self.clock[name] = max(self.clock.get(name, 0), count)

    def work(self, what: str, *, reads: list[Tensor] = [], writes: list[Tensor] = [], seconds: float) -> None:  # noqa: B006
        """Something that the host asks this stream for."""
        self.seen(self.cuda.host)
        self.clock[self.name] = self.clock.get(self.name, 0) + 1
        for tensor in reads:
            self.cuda.touch(self.name, self.clock, what, tensor, is_write=False)
        for tensor in writes:
            self.cuda.touch(self.name, self.clock, what, tensor, is_write=True)
        self.cuda.now += LAUNCH_S
        self.ends = max(self.ends, self.cuda.now) + seconds
        self.cuda.log.append((what, self.cuda.now, self.ends))

    def wait_event(self, event: Event) -> None:
        if not any(self.cuda.leaves_out(self.name, what) for what in ("wait", f"wait for {event.by}")):
            self.seen(event.clock)
            self.ends = max(self.ends, event.time)

    def wait_stream(self, other: Stream) -> None:
        if not self.cuda.leaves_out(self.name, f"wait for all of {other.name}"):
            self.seen(other.clock)
            self.ends = max(self.ends, other.ends)

    def synchronize(self) -> None:
        self.cuda.num_syncs += 1
        if not self.cuda.leaves_out(self.name, "synchronize"):
            self.cuda.see(self.clock)
            self.cuda.now = max(self.cuda.now, self.ends)


class Event:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.clock, self.time, self.by = cuda, Clock(), 0.0, ""

    def record(self, stream: Stream) -> None:
        self.by = stream.name
        if not self.cuda.leaves_out(stream.name, "record"):
            self.clock, self.time = dict(stream.clock), stream.ends

    def synchronize(self) -> None:
        self.cuda.num_syncs += 1


class FakeCuda:
    """Stands for `torch.cuda`. `without` is asked, by a stream's name and what it does, whether that is left out."""

    def __init__(
        self,
        without: Callable[[str, str], bool] = lambda stream, what: False,
        *,
        copy_s: float = 8e-4,
        gather_s: float = 2e-4,
    ) -> None:
        self.leaves_out, self.copy_s, self.gather_s = without, copy_s, gather_s
        self._names = iter(("copy", "wire"))
        self.within: list[Stream] = []
        self.host: Clock = {}
        self.now, self.num_syncs = 0.0, 0
        self.log: list[tuple[str, float, float]] = []  # what, when it was asked for, when it ends
        self._touched: dict[int, list[tuple[str, int, str, bool]]] = {}
        self.compute = Stream(self, "compute")

    def Stream(self, device: Any) -> Stream:
        return Stream(self, next(self._names))

    def Event(self) -> Event:
        return Event(self)

    def current_stream(self, device: Any) -> Stream:
        return self.compute

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self.within.append(stream)
        with _Copies(stream, self.copy_s):
            yield
        self.within.pop()

    def gather_into(self, out: Tensor, block: Tensor, *, group: Any, is_async: bool) -> None:
        """In place of the collective, whose other ranks there are not."""
        assert not is_async and out.numel() == group.size * block.numel()
        self.within[-1].work("gather", reads=[block], writes=[out], seconds=self.gather_s)

    def see(self, clock: Clock) -> None:
        for name, count in clock.items():
            self.host[name] = max(self.host.get(name, 0), count)

    def by_host(self, what: str, tensor: Tensor) -> None:
        """The host writes there itself, or gives it back."""
        self.host["host"] = self.host.get("host", 0) + 1
        self.touch("host", self.host, what, tensor, is_write=True)

    def touch(self, name: str, clock: Clock, what: str, tensor: Tensor, *, is_write: bool) -> None:
        slot = tensor.untyped_storage().data_ptr()
        for other, count, by, wrote in self._touched.get(slot, []):
            if (is_write or wrote) and clock.get(other, 0) < count:
                raise Race(f"{what} and {by} both touch the same memory, in no order")
        touches = self._touched.setdefault(slot, [])
        if is_write:
            touches.clear()  # those before it come before all that comes after it
        touches.append((name, clock[name], what, is_write))


class _Copies(TorchFunctionMode):
    """Copies within it are the stream's work, and are done at once."""

    def __init__(self, stream: Stream, seconds: float) -> None:
        super().__init__()
        self.stream, self.seconds = stream, seconds

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.copy_:
            assert (kwargs or {}).get("non_blocking"), "the host would wait"
            self.stream.work("copy", reads=[args[1]], writes=[args[0]], seconds=self.seconds)
        return func(*args, **(kwargs or {}))
