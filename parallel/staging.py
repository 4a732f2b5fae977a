"""What an accelerator holds, in the host's memory: piece by piece through pinned buffers, so that no whole copy waits
between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

PIECE_BYTES = 16 << 20


def in_host_memory(tensor: Tensor) -> Iterator[memoryview]:
    """The bytes of a tensor's elements in their order, in pieces; each is good until the next one is asked for.

    Of a contiguous tensor of the host they are its own memory. Those of a GPU come by two pinned buffers: while one is
    read, the other is filled.
    """
    import torch

    flat = tensor.detach().contiguous().flatten().view(torch.uint8)
    if not flat.numel():
        return
    if flat.device.type != "cuda":
        yield flat.cpu().numpy().data
        return
    size = min(PIECE_BYTES, flat.numel())
    buffers = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    with torch.cuda.device(flat.device):
        yield from by_turns(flat.split(size), buffers, _marked)


def by_turns(
    pieces: Sequence[Tensor], buffers: Sequence[Tensor], mark: Callable[[], Callable[[], None]]
) -> Iterator[memoryview]:
    """Each piece, copied into the buffer whose turn it is. `mark` gives what waits for the copies asked for so far."""

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


def _marked() -> Callable[[], None]:
    import torch

    event = torch.cuda.Event()
    event.record()
    return event.synchronize
