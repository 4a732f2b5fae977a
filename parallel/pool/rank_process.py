"""The host's view of one rank: its process, its connection, and when it was last heard.

A rank is a place with a number and a device; processes that die are followed by others in the same place, by the
device's spare where it has one. So is that a place, with a number behind those of the ranks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..errors import Closed
from ..ranks.channel import Channel, Received
from ..ranks.messages import Fork, FromRank, ToRank
from .server_process import ServerProcess, reap


class Listener(Protocol):
    """Who is told of ranks."""

    def on_message(self, rank: RankProcess, received: Received[FromRank]) -> None: ...

    def on_loss(self, rank: RankProcess, reason: str) -> None: ...

    def on_failure(self, reason: str) -> None:
        """Something cannot be started, now that it was tried several times."""


class RankProcess:
    """One place in a replica, and the process that fills it at present. `number` counts over the whole pool."""

    def __init__(
        self, number: int, device: str, *, num_threads: int, folder: Path, interface: str = "lo", is_spare: bool = False
    ) -> None:
        self.number = number
        self.device = device
        self.num_threads = num_threads
        self.interface = interface
        self.is_spare = is_spare
        self.log = folder / f"rank{number}.log"
        self.channel: Channel[FromRank] | None = None
        self.has_p2p = True  # whether the next process may use peer-to-peer between accelerators
        # How many processes have filled this place: what is told of an earlier one is not meant for this one.
        self.birth = 0
        self.pid = 0
        self.pidfd = -1
        self.gpu = ""  # what kind of GPU it has, once it has said hello; "" for none of which anything is to be known
        self.uuid = ""
        self.memory_bytes = 0
        self.is_told = False  # whether it was told what attends there, or that it is to try that
        self.has_begun = False  # whether it has said hello, and what attends on its GPU
        # Whether it was given up: it is dying, and an accelerator may hold it, and it its accelerator, for a while.
        self.is_gone = False
        self.heard = 0.0
        self.why_killed = ""
        self.end_time: float | None = None  # since when it should be dead

    @property
    def title(self) -> str:
        """For people."""
        return f"the spare rank of {self.device}" if self.is_spare else f"rank {self.number} ({self.device})"

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked."""
        return self.has_begun and not self.is_gone and not self.why_killed

    def start(self, server: ServerProcess, *, ping_s: float) -> Channel[FromRank]:
        """The connection to what will fill this place. Raises `OSError` or `Closed`."""
        assert self.channel is None, f"rank {self.number} is there already"
        self.heard = time.monotonic()
        self.why_killed = ""
        self.birth += 1  # before it is asked: what the server still says of the last one is of another birth
        order = Fork(
            rank=self.number,
            birth=self.birth,
            device=self.device,
            num_threads=self.num_threads,
            ping_s=ping_s,
            interface=self.interface,
            has_p2p=self.has_p2p,
            is_spare=self.is_spare,
        )
        self.channel = server.fork(order, log=self.log)
        return self.channel

    def take_over(self, spare: RankProcess) -> Channel[FromRank]:
        """Fill this place with the process of another, and leave that empty. Gives its connection."""
        assert self.channel is None and spare.is_ready and spare.channel is not None, (
            f"rank {self.number} is there already"
        )
        self.birth += 1
        self.channel, self.pid, self.pidfd, self.heard = spare.channel, spare.pid, spare.pidfd, spare.heard
        self.gpu, self.uuid, self.memory_bytes = spare.gpu, spare.uuid, spare.memory_bytes
        self.log, spare.log = spare.log, self.log  # its process has the file open, and goes on writing there
        self.why_killed, self.is_told, self.has_begun = "", True, True
        spare.channel, spare.pidfd = None, -1  # so that `forget` closes nothing that is ours now
        spare.forget()
        return self.channel

    def send(self, message: ToRank, fds: Sequence[int] = ()) -> None:
        """To a rank that is gone nothing is sent: its death is told elsewhere. One that cannot be told is ended."""
        if self.channel is not None:
            try:
                self.channel.send(message, fds)
            except Closed:
                pass
            except OSError as error:
                self.kill(f"could not be told its work: {error.strerror or error}")

    def kill(self, why: str) -> None:
        """By its pidfd, so that no other process is ever meant."""
        if self.pidfd >= 0:
            self.why_killed = self.why_killed or why
            self.end_time = self.end_time or time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def forget(self) -> None:
        """After its death."""
        if self.channel is not None:
            self.channel.close()
        if self.pidfd >= 0:
            reap(self.pidfd)
            os.close(self.pidfd)
        self.channel, self.pid, self.pidfd, self.end_time = None, 0, -1, None
        self.has_begun, self.is_gone, self.is_told = False, False, False
        self.gpu, self.uuid, self.memory_bytes = "", "", 0

    def shift(self, seconds: float) -> None:
        """The host itself was stopped for so long."""
        self.heard += seconds
        if self.end_time is not None:
            self.end_time += seconds
