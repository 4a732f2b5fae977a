"""Whether the wires between ranks carry what is sent: tried when ranks join, before anything depends on them.

Peer-to-peer between GPUs may be there and not work, with ACS or an IOMMU in the way, in a virtual machine, by a driver:
then the first exchange of a job would hang until its deadline, or bring other bytes than were sent.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from ..collectives import add, start_exchange, start_hop
from ..errors import BadWires
from ..group import Group

LIMIT_S = 20.0  # also for NCCL to connect each two ranks, which takes it seconds where there are many
EXCHANGED_BYTES = 1 << 20  # to each other rank
BRIEF_BYTES = 4 << 10


def prove(group: Group, device: torch.device, *, is_proven: bool = False, limit_s: float = LIMIT_S) -> None:
    """Collective: send by all-reduce, to the next rank and from each to each, and look at every byte that arrives; of
    few bytes where that was seen to be well before.

    Raises `BadWires` where that is another, or nothing, within `limit_s` on an accelerator.
    """
    start, num_sent = time.monotonic(), (BRIEF_BYTES if is_proven else EXCHANGED_BYTES) // 4

    def sent(sender: int, receiver: int) -> Tensor:
        return _sent(device, sender, receiver, num_sent)

    # The three ways in which ranks send: NCCL may take another path for each.
    before, after = ((group.index + step) % group.size for step in (-1, 1))
    others = [other for other in range(group.size) if other != group.index]
    total = add(sent(group.index, group.index), group=group)
    received = {other: sent(other, group.index).zero_() for other in others}
    hop = start_hop(sent(group.index, after), size_in=num_sent, group=group)()
    start_exchange(
        [[] if other == group.index else [sent(group.index, other)] for other in range(group.size)],
        [[] if other == group.index else [received[other]] for other in range(group.size)],
        group=group,
    )()
    if device.type == "cuda":
        event = torch.cuda.Event()
        event.record()
        _wait(event.query, start + limit_s, limit_s)
    sums = sum(sent(other, other) for other in range(group.size))
    assert isinstance(sums, Tensor), "of several ranks"
    _check_values("an all-reduce", total, sums)
    _check_values(f"rank {before}'s send", hop, sent(before, group.index))
    for other in others:
        _check_values(f"rank {other}'s part of an exchange", received[other], sent(other, group.index))


def _sent(device: torch.device, sender: int, receiver: int, num_sent: int) -> Tensor:
    """What one sends to another: no two pairs the same, no two neighbours in it, every byte in use; int32."""
    numbers = torch.arange(num_sent, dtype=torch.int32, device=device)
    return numbers * 16_777_619 + (sender * 64 + receiver) * 69_069


def _wait(is_done: Callable[[], bool], end: float, limit_s: float) -> None:
    """Until what was launched is done."""
    while not is_done():
        if time.monotonic() > end:
            raise BadWires(f"what ranks send does not arrive in {limit_s:g} s")
        time.sleep(0.002)  # asked and not waited for, because a kernel that hangs ends no wait


def _check_values(what: str, found: Tensor, wanted: Tensor) -> None:
    wrong = int((found != wanted).sum())
    if wrong:
        raise BadWires(f"{what} arrived with {wrong} of {wanted.numel()} numbers changed")
