"""The way between an accelerator and the host's memory: piece by piece through two pinned buffers, so that no whole
copy waits between the two; and files without a name, where what is large lies without filling that memory.
"""

from __future__ import annotations

import functools
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PIECE_BYTES = 16 << 20  # of each of two buffers by which tensors leave an accelerator
# Of each of two buffers by which tensors get there: all that the host's memory holds of weights on their way.
UPLOAD_BYTES = 32 << 20
LARGE_BYTES = 16 << 20  # what has more lies on a disk where it can: a long video is as large as a model
MOST_PARTS = 4096  # frames of a video; of more, smaller ones a copy costs less
Mark = Callable[[], Callable[[], None]]  # gives what waits for the copies asked for so far

logger = logging.getLogger("latentloom")


def unnamed_file(num_bytes: int) -> int:
    """A descriptor of a new file for so many bytes, which is in no folder and gone with its last descriptor: in memory,
    or on the disk of temporary files where it is large and that has the room."""
    has_memory = hasattr(os, "memfd_create")  # as on Linux
    if num_bytes > LARGE_BYTES or not has_memory:
        try:
            with tempfile.TemporaryFile() as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, num_bytes)
                return os.dup(file.fileno())
        except OSError as error:
            if not has_memory:
                raise
            said = "%.1f GB lie in memory, because the folder of temporary files did not take them: %s"
            logger.warning(said, num_bytes / 1e9, error.strerror)
    return os.memfd_create("latentloom", os.MFD_CLOEXEC)


def bytes_of(tensor: Tensor) -> Tensor:
    """A tensor's elements in their order as one row of bytes: its own memory where that holds them so."""
    import torch

    # Torch calls a tensor contiguous whatever the stride of a dim of one element is, and keeps marks of what it has not
    # conjugated or negated yet; neither can be viewed as bytes.
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return flat.as_strided((flat.numel(),), (1,)).view(torch.uint8)


def in_host_memory(tensor: Tensor) -> Iterator[memoryview]:
    """The bytes of a tensor's elements in their order, in pieces; each is good until the next one is asked for."""
    import torch

    is_large = tensor.device.type != "cuda" and tensor.nbytes > LARGE_BYTES and not tensor.is_contiguous()
    if is_large and len(tensor) <= MOST_PARTS:  # of which some are as they lie: a whole copy would be as large
        for part in tensor:
            yield from in_host_memory(part)
        return
    flat = bytes_of(tensor)
    if not flat.numel():
        return
    if flat.device.type != "cuda":
        yield flat.cpu().numpy().data  # of the host: its own memory, and no copy
        return
    size = min(PIECE_BYTES, flat.numel())
    # Pinned: into pageable memory the driver copies by a buffer of its own, and the call waits. Two: the host reads one
    # while the device writes into the other.
    buffers = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    with torch.cuda.device(flat.device):
        yield from by_turns(flat.split(size), buffers, _marked)


def by_turns(pieces: Sequence[Tensor], buffers: Sequence[Tensor], mark: Mark) -> Iterator[memoryview]:
    """Each piece, copied into the buffer whose turn it is."""

    def copied(index: int) -> tuple[Tensor, Callable[[], None]]:
        buffer = buffers[index % len(buffers)][: len(pieces[index])]
        buffer.copy_(pieces[index], non_blocking=True)
        return buffer, mark()

    coming = copied(0)
    for index in range(1, len(pieces) + 1):
        buffer, wait = coming
        wait()
        if index < len(pieces):
            coming = copied(index)  # into the buffer of the piece before, which nobody reads any more
        yield buffer.numpy().data


class DeviceUpload:
    """Many tensors on their way to a device, one after the other by one thread: `copy` fills a buffer with the next
    piece while the other is under way, and waits only for a buffer that it needs again.

    On the thread's stream, so that what is then done to a tensor there comes after its bytes.
    """

    def __init__(self, buffers: Sequence[Tensor], mark: Mark) -> None:
        self._buffers = buffers
        self._mark = mark
        # By buffer: who writes one that is still under way changes bytes that were sent.
        self._done: list[Callable[[], None] | None] = [None] * len(buffers)  # waits until a buffer may be written again
        self._turn = 0
        self._filled = 0

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Into a contiguous tensor of the device; returns before its bytes are there."""
        into, whole = bytes_of(target), bytes_of(source)
        assert into.data_ptr() == target.data_ptr(), "the bytes are the target's own, not those of a copy"
        start = 0
        while start < len(whole):
            room = self._room()
            end = min(start + len(room), len(whole))
            piece = room[: end - start]
            piece.copy_(whole[start:end])
            self._send(into[start:end], piece)
            self._filled += end - start
            start = end

    def _send(self, target: Tensor, piece: Tensor) -> None:
        target.copy_(piece, non_blocking=True)

    def _room(self) -> Tensor:
        """What is free of the buffer whose turn it is; of the next one where nothing is."""
        buffer = self._buffers[self._turn]
        # One mark for a full buffer, not for each tensor: a model has thousands of small ones, which share a buffer.
        if self._filled == len(buffer):
            self._done[self._turn] = self._mark()
            self._turn, self._filled = (self._turn + 1) % len(self._buffers), 0
            buffer = self._buffers[self._turn]
            if (wait := self._done[self._turn]) is not None:
                wait()
        return buffer[self._filled :]


def moving(device: torch.device) -> Callable[[Tensor], Tensor]:
    """What gives tensors of the host on `device`, one after the other, by this thread: on a GPU by way of two pinned
    buffers, elsewhere as torch does."""
    import torch

    if device.type != "cuda":
        return lambda tensor: tensor.to(device)
    buffers = [torch.empty(UPLOAD_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    upload = DeviceUpload(buffers, functools.partial(_marked, device))

    def moved(tensor: Tensor) -> Tensor:
        there = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
        upload.copy(there, tensor)
        return there

    return moved


def _marked(device: torch.device | None = None) -> Callable[[], None]:
    import torch

    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event.synchronize
