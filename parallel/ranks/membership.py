"""A rank's membership in process groups that come and go: joining one, and leaving it without the others.

A process group lasts until a job ends with its ranks out of step, or a rank is lost. It is never destroyed together,
which would wait for a rank that is gone; each has a store of its own, so that nothing of the last one is met. What the
group is of is sockets; accelerators are connected in groups within it, first of all in one of all ranks.
"""

import threading
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import FileStore, Store, TCPStore
from torch.distributed.distributed_c10d import _abort_process_group, _world

from .. import process_groups
from ..errors import BadInput
from ..group import Group
from ..machine.deadline import or_end
from ..sharding.captured import forget_all
from . import wires
from .revoke import abort, revoke
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
        `wires.prove`.

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
                    wires.prove(group, self._device, is_proven=is_proven)
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
