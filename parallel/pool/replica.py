"""A replica: the ranks that do one main job at a time, together, and the process group that they have joined.

A pool's ranks are divided into replicas of equal size, which work on different jobs. All ranks of a replica join one
process group when they are there, and stay in it while they are in step: a job on some of them makes groups within it
(`parallel/process_groups.py`).
"""

import logging
import time
from pathlib import Path

from ..errors import RankFailed
from ..ranks.messages import Join, Joined
from ..ranks.seat import World
from ..ranks.shortage import advice
from .attempt import JobRun
from .job import Again, Job
from .known import Known
from .limits import Limits
from .rank_process import RankProcess

logger = logging.getLogger("latentloom")


class Replica:
    """The ranks that do one main job at a time. It runs on its first `num_ranks` ranks; beside it each rank may have
    one side job."""

    def __init__(
        self, name: str, ranks: list[RankProcess], *, folder: Path, limits: Limits, known: Known | None = None
    ) -> None:
        self.name = name
        self.ranks = ranks
        self.folder = folder
        self.limits = limits
        self._known = known or Known()
        self.job: Job | None = None  # the main job, from when it is taken from the queue to when it is settled
        self.run: JobRun | None = None
        self.side: dict[RankProcess, JobRun] = {}
        self.size = len(ranks)  # how many ranks the present or last job takes
        self.world: World | None = None
        # The ranks in the process group `world`, in the order of their numbers there.
        self.members: list[RankProcess] = []
        # While ranks join `world`: what each said, or None where it has not; "" is well.
        self.joining: dict[RankProcess, str | None] = {}
        self._join_time = 0.0
        self._problem = ""
        self._are_wires_bad = False
        self._generation = 0

    @property
    def is_whole(self) -> bool:
        """Whether every rank is there, so that it can take any job."""
        return all(rank.is_ready for rank in self.ranks)

    @property
    def is_joined(self) -> bool:
        if self._wanted is None and self.size == 1:
            return True
        return self.world is not None and (self._is_own if self._wanted is None else self.world == self._wanted)

    @property
    def _wanted(self) -> World | None:
        """The process group that the job names."""
        return None if self.job is None else self.job.work.world

    @property
    def _is_own(self) -> bool:
        return self.world is not None and self.world.store.startswith(str(self.folder))

    def take(self, job: Job) -> None:
        self.job = job
        self.size = job.work.num_ranks

    def advance(self) -> None:
        """Join or start what can be started now."""
        if self.run is not None or self.joining:
            return
        # All join, also for a job of fewer: the next one, which may want more, then finds them joined.
        needed = self.ranks[: self.size] if self.is_joined or self._wanted is not None else self.ranks
        if not all(rank.is_ready for rank in needed):
            return
        if not self.is_joined:
            self._join(needed)
        elif self.job is not None:
            self._start(self.job, needed)

    def _start(self, job: Job, ranks: list[RankProcess]) -> None:
        run = JobRun(job, ranks, self.limits)
        try:
            run.dispatch()
        except OSError as error:
            self.job = None
            job.end(RankFailed(f"the ranks cannot begin: {advice(error)}"))
        else:
            self.run = run

    def _join(self, members: list[RankProcess]) -> None:
        wanted = self._wanted
        if wanted is None:
            # A new file for each try: a rank that is late in the rendezvous before would meet those of this one.
            (self.folder / f"{self.name}-{self._generation}").unlink(missing_ok=True)
            self._generation += 1
            name = f"{self.name}-{self._generation}"
            wanted = World(name=name, store=str(self.folder / name), size=len(members))
        self.world = wanted
        self.members = members
        self._join_time = time.monotonic()
        self._problem, self._are_wires_bad = "", False
        is_proven = self._is_of_proof and self._known.are_proven(self._gpus)
        for index, rank in enumerate(self.members):
            self.joining[rank] = None
            rank.send(Join(world=wanted, rank=wanted.first + index, is_proven=is_proven))

    @property
    def _gpus(self) -> list[str]:
        return [rank.uuid for rank in self.members]

    @property
    def _is_of_proof(self) -> bool:
        """Whether it proves the wires between these GPUs and no others."""
        # Not by way of the host's memory; and not with ranks of other machines, for all have to send as many bytes, and
        # what those know of their wires we do not.
        return self._is_own and all(rank.has_p2p for rank in self.members)

    def hear_joined(self, rank: RankProcess, told: Joined) -> None:
        if self.world is None or told.world != self.world.name or rank not in self.joining:
            return  # of a join that was given up meanwhile
        self.joining[rank] = told.problem
        self._are_wires_bad |= told.are_wires_bad
        # From the first problem on the clock runs anew, and shorter: the others wait for one that will not come.
        if told.problem and not self._problem:
            self._join_time, self._problem = time.monotonic(), f"rank {rank.number}: {told.problem}"
        if all(said is not None for said in self.joining.values()):
            self.joining = {}
            if self._is_of_proof and (self._are_wires_bad or not self._problem):
                self._known.keep_proof(self._gpus, is_good=not self._problem)
            if self._problem:
                self._fail_join()
            else:
                logger.info("%s: %d ranks have joined", self.world.name, len(self.members))

    def _fail_join(self) -> None:
        is_own, self.world = self._is_own, None
        # Once only, and never because of other machines: it costs a start of all ranks.
        if self._are_wires_bad and is_own and all(rank.has_p2p for rank in self.ranks):
            self._give_up_p2p()
            return
        if self.job is not None:
            job, self.job = self.job, None
            job.end(RankFailed(f"the ranks could not connect: {self._problem}"))
        self.size = 1  # the next job that wants more tries again

    def _give_up_p2p(self) -> None:
        """Try the join again in new ranks whose accelerators do not read each other's memory."""
        devices = ", ".join(rank.device for rank in self.members)
        logger.warning(
            "%s: %s; they start again without peer-to-peer, which is slower; `latentloom doctor` says more",
            devices,
            self._problem,
        )
        if self.job is not None:
            self.job.told.put(Again(f"starting again without peer-to-peer between {devices}: {self._problem}"))
        for rank in self.ranks:
            rank.has_p2p = False
            rank.kill("was to start again without peer-to-peer")

    def lose(self, rank: RankProcess, reason: str) -> None:
        """A rank is gone: its jobs know, and its process group is of no more use."""
        if self.run is not None and rank in self.run.ranks:
            self.run.lose(rank, reason)
        if rank in self.side:
            self.side[rank].lose(rank, reason)
        if rank in self.joining:
            self._end_join(f"rank {rank.number} ({rank.device}) {reason}", rank.log)
        if rank in self.members:
            self.world = None  # nobody can take its place in it: gloo's connections are made when a group is

    def withdraw(self, job: Job) -> bool:
        """Whether it was taken and has not begun; it will not now."""
        if self.job is not job or self.run is not None:
            return False
        self.job = None
        if self.joining and job.work.world is not None:  # other machines may never come
            self._end_waits("waited for other machines in a job that was cancelled")
            self.world = None
        return True

    def _end_join(self, reason: str, log: Path) -> None:
        self._end_waits("waited for another rank, which was lost")
        self.world = None
        if self.job is not None and not self.job.try_again(reason, log):
            self.job = None

    def _end_waits(self, why: str) -> None:
        """End the ranks that wait in the rendezvous; who has joined or failed lives on."""
        # Nothing else ends such a wait: it is in torch's C++, in the rank's lane, and has no group yet to be aborted.
        for each, said in self.joining.items():
            if said is None:
                each.kill(why)
        self.joining = {}

    def check_time(self, now: float) -> None:
        for run in self.runs():
            run.check_time(now)
        if not self.joining:
            return
        if self._problem and now - self._join_time > self.limits.abort_s:
            self._end_waits("waited for another rank, which could not connect")
            self._fail_join()
        elif now - self._join_time > self.limits.start_s:
            self._end_join(f"the ranks did not find one another in {self.limits.start_s:g} s", self.members[0].log)

    def runs(self) -> list[JobRun]:
        return [*([] if self.run is None else [self.run]), *self.side.values()]

    def shift(self, seconds: float) -> None:
        self._join_time += seconds
        for run in self.runs():
            run.shift(seconds)
