"""The pool: warm ranks, one per device, that run named functions together or one by one, and survive their faults."""

from __future__ import annotations

import functools
import os
import queue
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import RankFailed
from ..machine.folders import user_cache
from ..machine.now import num_free_cores
from ..progress import SILENT, Preview, Progress
from ..ranks.channel import write_body
from ..ranks.messages import Phase, SpreadWork, StepDone
from ..ranks.seat import World
from ..ranks.shortage import advice
from .folder import PoolFolder
from .job import Again, Job, Lane, Last, Picture, Work
from .known import Known
from .limits import Limits
from .processes import Crew
from .rank_process import RankProcess
from .replica import Replica
from .supervisor import Supervisor

CHECK_S = 0.02  # how often whoever waits for ranks asks its own caller whether to go on


class Pool:
    """`len(devices)` ranks in `replicas` groups of equal size; each group does one main job at a time.

    Functions are named, ".pipelines.placement:on_rank" (the dot is our package), and called as
    function(request, progress, seat) with plain data; what they give back is plain data too. Close the pool, or use it
    as a context: its processes end then, and in any case when this process does. Ranks meet over the network
    `interface`; but for the loopback it is one by which other machines reach this one. With `spare_ranks` each device
    has one more, ready to take the place of a rank that dies; None: where it has at least 40 GB.
    """

    def __init__(
        self,
        devices: Sequence[str],
        *,
        replicas: int = 1,
        preload: Sequence[str] = (),
        limits: Limits | None = None,
        interface: str = "lo",
        spare_ranks: bool | None = False,
    ) -> None:
        check_platform()
        if not devices or replicas < 1 or len(devices) % replicas:
            raise ValueError(
                f"{len(devices)} devices cannot be shared out to {replicas} replicas; give a number that divides them"
            )
        limits = limits or Limits()
        self.devices, self.size = tuple(devices), len(devices) // replicas
        try:
            folder = PoolFolder()
        except OSError as error:
            raise ValueError(f"no folder can be made for ranks: {advice(error)}") from None
        self.folder = folder.path
        num_threads, known = max(1, num_free_cores() // len(devices)), Known(user_cache())
        ranks = [
            RankProcess(i, d, num_threads=num_threads, folder=self.folder, interface=interface)
            for i, d in enumerate(devices)
        ]
        groups = [ranks[start : start + self.size] for start in range(0, len(ranks), self.size)]
        self._replicas = [
            Replica(f"group{i}", each, folder=self.folder, limits=limits, known=known) for i, each in enumerate(groups)
        ]
        try:
            self._crew = Crew(
                ranks, folder=self.folder, preload=preload, limits=limits, known=known, spare_ranks=spare_ranks
            )
            self._supervisor = Supervisor(self._replicas, self._crew, limits)
        except OSError as error:
            folder.remove()
            raise ValueError(f"no rank can be started: {advice(error)}") from None
        # No thread holds the pool itself: one that is forgotten is collected, and so closed.
        self._finalizer = weakref.finalize(self, _close, self._supervisor, folder, os.getpid())

    def call(
        self,
        function: str,
        request: Mapping[str, Any],
        progress: Progress = SILENT,
        *,
        num_ranks: int = 1,
        lane: Lane = "main",
        rank: int = 0,
        world: World | None = None,
    ) -> Any:
        """The first rank's answer; the others' must have the same bits. Blocks; may be called from many threads.

        On the main lane `num_ranks` ranks of a replica work together; on the side lane one does, number `rank` of it,
        beside main jobs. A rank's death is mended and the job tried once more. Raises ValueError where a rank refused
        the request, `OutOfMemory`, `RankFailed` naming the rank, or what `progress` raised once the ranks have
        stopped.
        """
        work = Work(function=function, num_ranks=num_ranks, lane=lane, rank=rank % self.size, world=world)
        return self._do(work, request, progress)[0]

    def call_every(
        self, function: str, request: Mapping[str, Any], progress: Progress = SILENT, *, num_ranks: int
    ) -> list[Any]:
        """Run a function as `call` does, on the main lane, and give every rank's answer, which may differ."""
        return self._do(Work(function=function, num_ranks=num_ranks, every=True), request, progress)

    def states(self) -> list[RankProcess]:
        """The ranks, to look at only: they are the supervisor's, and what is read of one was so a moment ago."""
        return [rank for replica in self._replicas for rank in replica.ranks]

    @property
    def is_working(self) -> bool:
        """Whether a main job is under way."""
        return any(replica.run is not None for replica in self._replicas)

    def rest_spares(self) -> None:
        """End the spare ranks, for their memory, until the next job begins."""
        self._supervisor.rest_spares()

    @property
    def culprit(self) -> str:
        """The module for which ranks import for themselves when they start, or "" (`ServerReady.culprit`)."""
        return self._crew.culprit

    @property
    def restarts(self) -> int:
        """How many processes of ranks were followed by others in their place."""
        return sum(max(0, rank.birth - 1) for rank in self.states())

    @property
    def is_failing(self) -> bool:
        """Whether ranks cannot be started, though it was tried several times."""
        return self._crew.is_failing

    @property
    def is_closed(self) -> bool:
        """By `close`, or because its thread ended."""
        return self._supervisor.is_closed

    def close(self) -> None:
        """End all processes; jobs under way end with an error. A second call does nothing."""
        self._finalizer()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, work: Work, request: Mapping[str, Any], progress: Progress) -> list[Any]:
        try:
            body = write_body(request)
        except OSError as error:
            raise RankFailed(f"the request cannot be written to memory: {advice(error)}") from None
        job = Job(replace(work, owner=progress.owner, node=progress.node, previews=progress.wants_previews), body)
        self._supervisor.submit(job)
        try:
            return _wait(job, progress)
        except BaseException:
            if not job.is_over:
                self._supervisor.cancel(job)
                while not isinstance(job.told.get(), Last):
                    pass  # nothing of it runs on when the caller hears of its end
            raise


def check_platform() -> None:
    """Raises ValueError where ranks cannot be."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise ValueError(
            f"several devices need Linux 5.3 or newer, and this is {sys.platform}; use one device, such as cpu"
        )


def _wait(job: Job, progress: Progress) -> list[Any]:
    preview: Preview | None = None
    while True:
        progress.check()
        try:
            told = job.told.get(timeout=CHECK_S)
        except queue.Empty:
            continue
        match told:
            case Phase():
                progress.phase(told.text, is_loading=told.is_loading)
            case Again():
                progress.again(told.text)
            case Picture(pixels):
                preview = functools.partial(lambda picture: picture, pixels)  # told with the step that follows
            case StepDone():
                progress.step(told.done, told.total, preview)
                preview = None
            case SpreadWork():
                progress.spread(told.plan, told.work)
            case Last():
                if told.error is not None:
                    raise told.error
                return told.answers


def _close(supervisor: Supervisor, folder: PoolFolder, owner: int) -> None:
    if os.getpid() == owner:  # not a child that the host has forked
        supervisor.close()
        folder.remove()
