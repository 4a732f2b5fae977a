"""A rank's membership in process groups that come and go: joining one, whose wires are tried, and leaving
it without the others, by revoking what is NCCL's.

A process group lasts until a job ends with its ranks out of step, or a rank is lost. It is never destroyed together,
which would wait for a rank that is gone; each has a store of its own, so that nothing of the last one is met. What the
group is of is sockets; accelerators are connected in groups within it, first of all in one of all ranks.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import FileStore, Store, TCPStore
from torch.distributed.distributed_c10d import _abort_process_group, _world

from .. import process_groups
from ..collectives import add, start_exchange, start_hop
from ..errors import BadInput, BadWires
from ..group import Group
from ..machine.deadline import or_end
from ..sharding.captured import forget_all
from .seat import World

NO_LOOPBACK = "ifa != nullptr"  # of what gloo says where the interface that it is to use has no address
PROVE_S = 60.0  # for the proof of wires to end, which waits for 20 s itself: a call into a driver may not come back
# To revoke and abort, which hang where a driver does; the host is done waiting before that where a job is aborted.
STOP_S = 20.0


class Membership:
    """This rank's membership in its present process group, if any. `abort` may come from another thread than the
    rest."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._is_joined = False
        self._revoked: list[dist.ProcessGroup] = []  # what NCCL holds of the group that was stopped
        self._lock = threading.Lock()
        # Since the last `join`: whatever then goes wrong in the group's work, the cause lies with another rank.
        self.was_aborted = False

    def join(self, world: World, rank: int, *, is_proven: bool = False) -> None:
        """Collective: leave the present group and join another, as its `rank` of `world.size`; `is_proven` as of
        `prove`.

        Raises `BadWires` where what accelerators send to each other does not arrive whole.
        """
        self.leave()
        self.was_aborted = False  # an abort that comes late is of a job before, and finds nothing joined
        is_cuda = self._device.type == "cuda"
        try:
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if is_cuda else "gloo",  # NCCL connects groups within it, and never all of it
                store=_store(world, rank),
                rank=rank,
                world_size=world.size,
                timeout=process_groups.COLLECTIVE,
            )
            self._is_joined = True
            process_groups.begin(self._device)
            everyone = range(world.size)
            process_groups.group_of(everyone, process_groups.Use.VOTES)  # now, where all are waited for anyway
            if is_cuda:  # gloo's are sockets, which check what they carry
                group = Group(everyone, rank, process_groups.group_of(everyone))
                with or_end("the proof of the wires between ranks", limit_s=PROVE_S):
                    prove(group, self._device, is_proven=is_proven)
        except BaseException as error:
            self.leave()
            _world.group_count = 0  # torch names groups by it, and those who were not here have not counted
            if NO_LOOPBACK in str(error):
                raise BadInput(
                    "this machine's loopback is down, over which its ranks meet; bring it up (ip link set lo up), or "
                    "give the container a network of its own"
                ) from error
            raise

    def stop(self) -> None:
        """Not collective: collectives under way end with an error here, or where they wait for this rank. Revoked where
        NCCL can, which keeps what other ranks' kernels may still read until `leave`; otherwise aborted."""
        with or_end("leaving a process group", limit_s=STOP_S), self._lock:
            self._end(revokes=True)

    def abort(self) -> None:
        """`stop`, from another thread."""
        self.was_aborted = True
        self.stop()

    def leave(self) -> None:
        """Not collective: the others may be gone, and whoever is not has stopped, so that nothing of it is in use."""
        with or_end("leaving a process group", limit_s=STOP_S), self._lock:
            self._end(revokes=False)
            abort(self._revoked, self._device)
            self._revoked = []

    def _end(self, *, revokes: bool) -> None:
        if not self._is_joined:
            return
        # In this order: NCCL waits for graphs that hold its work, and a graph that asks for a group by name would keep
        # it, or find one that is gone.
        forget_all()
        process_groups.forget_names()
        connected = process_groups.connected()
        if revokes and revoke(connected, self._device):
            self._revoked = connected
        else:
            abort(connected, self._device)
        for group in connected:
            del _world.pg_names[group]  # torch aborts those in it, one after the other
        self._is_joined = False
        _abort_process_group()


def _store(world: World, rank: int) -> Store:
    if world.store.startswith("/"):
        return FileStore(world.store, world.size)
    host, _, port = world.store.rpartition(":")
    return TCPStore(host, int(port), world.size, is_master=rank == 0, timeout=timedelta(seconds=60))


# ---- Revoking groups of NCCL: what they have under way ends in an error, their memory stays until they are aborted
#
# NCCL asks for it since abort frees memory at once that kernels of other ranks may still read: all ranks stop first,
# and free afterwards. It does so from 2.28.7 on, by a function that torch 2.13 does not offer (pytorch pull request
# 190753 is to); so it is called here, on the communicators that torch tells. Torch's `shrink_group` does not serve: it
# excludes one rank at least, needs all others at the same time, and aborts every other group one by one.

DEFAULT, SUCCESS = 0, 0  # NCCL's flag, and its answer

Revoke = Callable[[int], int]  # of NCCL: a communicator's address to its answer


def revoke(groups: Sequence[Any], device: torch.device) -> bool:
    """Whether there are such groups, and all were revoked; otherwise they are to be aborted. Not collective.

    On idle communicators it takes 0.5 to 1 s, and longer where a driver hangs: who calls this bounds it.
    """
    call = _nccl()
    backends = [group._get_backend(device) for group in groups]
    if not backends or call is None or not all(hasattr(backend, "_comm_ptr") for backend in backends):
        return False
    return _at_once(lambda backend: call(backend._comm_ptr()), backends, device) == [SUCCESS] * len(backends)


def abort(groups: Sequence[Any], device: torch.device) -> None:
    """Each takes up to 1 s where it was not revoked."""
    _at_once(lambda backend: backend.abort(), [group._get_backend(device) for group in groups], device)


def _at_once(action: Callable[[Any], Any], backends: Sequence[Any], device: torch.device) -> list[Any]:
    """What it gives for each, in a thread for each: a kernel of one may wait for that of another, and NCCL's own
    grouping holds for one thread, while torch aborts in others.

    It waits for the last. What is under way ends at once, but NCCL then joins its proxy threads, which look for an
    abort each 500 ms, one of them twice. An abort beside a revoke would join a thread for the second time, and both
    would wait for ever (seen with NCCL 2.28.9 and 2.30.7, of one rank and of two).
    """

    def act(backend: Any) -> Any:
        if device.type == "cuda":
            torch.cuda.set_device(device)  # of this thread
        return action(backend)

    if not backends:
        return []
    with ThreadPoolExecutor(len(backends), thread_name_prefix="latentloom nccl") as threads:
        return list(threads.map(act, backends))


def _nccl() -> Revoke | None:
    """NCCL's function, of the library that torch has loaded; None where there is neither."""
    try:
        function = ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOW | os.RTLD_NOLOAD).ncclCommRevoke
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_int), ctypes.c_int
    return lambda address: function(address, DEFAULT)


# ---- Whether the wires between ranks carry what is sent: tried when ranks join, before anything depends on them
#
# Peer-to-peer between GPUs may be there and not work, with ACS or an IOMMU in the way, in a virtual machine, by a
# driver: then the first exchange of a job would hang until its deadline, or bring other bytes than were sent.

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
