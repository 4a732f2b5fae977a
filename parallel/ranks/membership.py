"""A rank's membership in process groups that come and go: joining one, and leaving it without the others.

A process group lasts until a job ends with its ranks out of step. It is aborted then and never destroyed together,
which would wait for a rank that is gone; each has a store of its own, so that nothing of the last one is met.
"""

from __future__ import annotations

import os
import threading
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import FileStore, Store, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.distributed_c10d import _abort_process_group, _world

from ..group import Group
from . import wires
from .seat import World

COLLECTIVE = timedelta(hours=6)
"""Longer than any wait that the pool allows: it knows more than a rank, and ends waits by aborting."""


class Membership:
    """This rank's membership in its present process group, if any. `abort` may come from another thread than the
    rest.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._is_joined = False
        self._lock = threading.Lock()
        self.was_aborted = False
        """Since the last `join`: whatever then goes wrong in the group's work, the cause lies with another rank."""

    def join(self, world: World, rank: int) -> None:
        """Collective: leave the present group and join another, as its `rank` of `world.size`.

        Raises `BadWires` where what accelerators send to each other does not arrive whole.
        """
        self.leave()
        self.was_aborted = False
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ[name] = world.interface
        is_cuda = self._device.type == "cuda"
        try:
            dist.init_process_group(
                "nccl" if is_cuda else "gloo",
                store=_store(world, rank),
                rank=rank,
                world_size=world.size,
                timeout=COLLECTIVE,
                device_id=self._device if is_cuda else None,
            )
            self._is_joined = True
            if is_cuda:  # gloo's are sockets, which check what they carry
                wires.prove(Group(range(world.size), rank, dist.group.WORLD), self._device)
        except BaseException:
            self.leave()
            _world.group_count = 0  # torch names groups by it, and those who were not here have not counted
            raise

    def leave(self) -> None:
        """Not collective: the others may be gone."""
        with self._lock:
            if self._is_joined:
                self._is_joined = False
                _abort_process_group()

    def abort(self) -> None:
        """From another thread: collectives under way end with an error here, or where they wait for this rank."""
        self.was_aborted = True
        self.leave()


def _store(world: World, rank: int) -> Store:
    if world.store.startswith("/"):
        return FileStore(world.store, world.size)
    host, _, port = world.store.rpartition(":")
    return TCPStore(host, int(port), world.size, is_master=rank == 0, timeout=timedelta(seconds=60))
