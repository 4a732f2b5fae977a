"""A job under way on its ranks: what each has told, what time is left, and what comes of it.

One attempt at a job, from its dispatch to the last rank's end. The first part that ends badly breaks it; after a moment
in which the others may fail by themselves, so that the first cause is known, it is aborted: ranks are told to leave the
collective they may wait in. Whoever has not left in time is killed, the others keep what they have loaded.

    dispatch -> steps ... -> all done                                  the answers are compared and delivered
                          -> one fails or dies -(grace_s)-> abort      -(leaving)-> whoever is left is killed
                          -> silent for too long ---------> abort      -(leaving)-> whoever is left is killed
             cancel ----> after the last step granted                  -(leaving)-> abort, then killed
"""

import contextlib
import time
from collections.abc import Callable

from ..errors import Cancelled, OutOfMemory, RankFailed
from ..ranks.channel import read_body
from ..ranks.grants import AHEAD, Grants
from ..ranks.messages import Abort, Cancel, Ended, OfJob, Phase, Preview, RunJob, SpreadWork, StepDone, Stuck
from .folder import keep_logs
from .job import Again, End, Job, Picture, failure, first_cause
from .limits import Limits
from .rank_process import RankProcess

DID_NOT_LEAVE = "did not leave a job that another rank had failed in"
DID_NOT_STOP = "did not stop when its job was cancelled"


class JobRun:
    """One attempt. `ranks` are in the order of the job's process group."""

    def __init__(self, job: Job, ranks: list[RankProcess], limits: Limits) -> None:
        self.job = job
        self.ranks = ranks
        self.limits = limits
        self.size = job.work.num_ranks if job.work.world is None else job.work.world.size
        self.ends: dict[int, End] = {}  # by the index of a rank in the job
        self.phases: dict[int, Phase] = {}
        self.steps: dict[int, int] = {}
        self.longest_step_s = 0.0
        self.broken_time: float | None = None  # when the first part of it ended other than well
        self.abort_time: float | None = None
        self.cancel_time: float | None = None
        self.late = ""  # what was waited for too long, where that is why it was aborted
        self.sign_time = self.start_time = time.monotonic()
        self._step_time: float | None = None
        # Of ranks that share memory, once they are asked; those of several machines vote, and one alone is told.
        self._grants: Grants | None = None

    @property
    def is_over(self) -> bool:
        return len(self.ends) == len(self.ranks)

    def dispatch(self) -> None:
        """Ask the ranks. Raises `OSError` where none was, for want of memory or descriptors."""
        work = self.job.work
        first = 0 if work.world is None else work.world.first
        fds = [self.job.body]
        # Memory that is shared reaches as far as this machine: where the job has ranks on others there are no grants.
        if 1 < self.size == len(self.ranks):
            self._grants = Grants(self.size)
            fds.append(self._grants.fd)
        for index, rank in enumerate(self.ranks):
            order = RunJob(
                job=self.job.number,
                function=work.function,
                lane=work.lane,
                rank=first + index,
                num_ranks=self.size,
                previews=work.previews and index == 0,
                answers=work.every or index == 0,
                owner=work.owner,
                node=work.node,
            )
            rank.send(order, fds)
        if self._grants is not None:
            self._grants.sent()

    def cancel(self) -> None:
        self.cancel_time = self.cancel_time or time.monotonic()
        if self._grants is not None:
            self._grants.stop()
        for index, rank in enumerate(self.ranks):
            if index not in self.ends:
                rank.send(Cancel(self.job.number))

    def hear(self, rank: RankProcess, message: OfJob, body: int | None) -> None:
        """`body` is read and closed here."""
        index = self.ranks.index(rank)
        now = self.sign_time = time.monotonic()
        match message:
            case Ended():
                self._end(index, End.read(message, body))
                if message.is_last:
                    rank.kill("lost its device by an error that CUDA repeats from then on")
            case Phase():
                self.phases[index] = message
                self.steps.pop(index, None)
                self._step_time, self.longest_step_s = None, 0.0  # it may compile, and the steps after it be others
            case StepDone():
                self.steps[index] = message.done
                if self._grants is not None:
                    self._grants.hear_step(index)
                if index == 0:  # the pace of one is that of all, and the time of a border is the same on each
                    if self._step_time is not None:
                        self.longest_step_s = max(self.longest_step_s, now - self._step_time)
                    self._step_time = now if message.done < message.total else None
            case Stuck():  # no abort frees it from a rendezvous, and it has nothing to lose but what it has loaded
                self._end_rank(rank)
            case Preview():
                if body is not None:
                    with contextlib.suppress(Exception):  # whatever is wrong with a picture, the next one may arrive
                        self.job.told.put(Picture(read_body(body)))
        if index == 0 and isinstance(message, Phase | StepDone):
            self.job.told.put(message)

    def lose(self, rank: RankProcess, reason: str) -> None:
        """A rank died, or was ended."""
        index = self.ranks.index(rank)
        # Whom we killed is no cause, but a consequence of one: only a death of its own lets a job be tried again.
        if index not in self.ends:
            is_ours = rank.why_killed == DID_NOT_LEAVE
            self._end(index, End("ended" if is_ours else "died", reason=f"rank {rank.number} ({rank.device}) {reason}"))

    def check_time(self, now: float) -> None:
        """End what cannot go on, and whoever has not left by then: the others keep what they have loaded."""
        if self.abort_time is None:
            self.late = "" if self.broken_time is not None else self._overdue(now)
            is_broken = self.broken_time is not None and now - self.broken_time > self.limits.grace_s
            if self.late or is_broken or self._ignores_cancel(now):
                self._abort(now)
            return
        for index, rank in enumerate(self.ranks):
            if index not in self.ends and now - self.abort_time > self._time_to_leave(index):
                self._end_rank(rank)

    def _end_rank(self, rank: RankProcess) -> None:
        rank.kill(self.late or (DID_NOT_LEAVE if self.cancel_time is None else DID_NOT_STOP))

    def shift(self, seconds: float) -> None:
        """The host itself was stopped for so long."""
        self.sign_time += seconds
        if self._step_time is not None:
            self._step_time += seconds
        if self.abort_time is not None:
            self.abort_time += seconds
        if self.cancel_time is not None:
            self.cancel_time += seconds

    def _abort(self, now: float) -> None:
        self.abort_time = now
        for index, rank in enumerate(self.ranks):
            if index not in self.ends:
                rank.send(Abort(self.job.number))

    def _time_to_leave(self, index: int) -> float:
        """Seconds that a rank gets, after the abort, to leave the job."""
        # What a rank loads is worth waiting for: it waits for a disk and not for the others, it will come to a border,
        # and killed it would have to load again. Only where loading itself was too slow does it get no more.
        if self._is_loading(index) and not self.late:
            return self.limits.work_s
        if self.cancel_time is not None:  # which it has heard of long ago
            return self.limits.abort_s + self.longest_step_s
        return self.limits.leaving(self.longest_step_s)

    def _is_loading(self, index: int) -> bool:
        return index in self.phases and self.phases[index].is_loading

    def _ignores_cancel(self, now: float) -> bool:
        """Whether a rank should have come to the last step granted by now, after which it ends."""
        # On an accelerator the step that was told last may be under way, too: one more than was granted ahead.
        time_s = self.limits.leaving((AHEAD + 1) * self.longest_step_s)
        if self.cancel_time is None or now - self.cancel_time <= time_s:
            return False
        # Loading has no steps, so a rank that loads is waited for.
        return any(index not in self.ends and not self._is_loading(index) for index in range(len(self.ranks)))

    def _overdue(self, now: float) -> str:
        """What has been waited for too long; empty while all is in time."""
        # Any sign of any rank counts, because ranks that share a sequence wait for each other: one that is late makes
        # all silent. The pace is that of the longest step since the last phase, since a phase may compile.
        deadline = self.limits.work_s
        if self._step_time is not None and self.longest_step_s:
            deadline = self.limits.step_deadline(self.longest_step_s)
        if now - self.sign_time <= deadline:
            return ""
        index = next(index for index in range(len(self.ranks)) if index not in self.ends)
        phase = self.phases[index].text if index in self.phases else "at the start"
        doing = f"after step {self.steps[index]}" if index in self.steps else phase
        return f"was silent about its work for {deadline:g} s ({doing})"

    def _end(self, index: int, end: End) -> None:
        self.ends[index] = end
        if end.state == "done" and self._grants is not None:
            self._grants.hear_end(index)
        if end.state != "done" and self.broken_time is None and not self.is_over:
            self.broken_time = time.monotonic()  # not aborted at once: the others may tell a better reason

    @property
    def leaves_world_whole(self) -> bool:
        """Whether the ranks can go on in their process group."""
        if self.size == 1:
            return True  # it was not used
        if self.abort_time is not None:
            return False  # a rank may have done its part all the same
        states = {end.state for end in self.ends.values()}
        return len(states) == 1 and all(end.is_whole for end in self.ends.values())

    def settle(self, *, frees: Callable[[], bool] = lambda: False) -> bool:
        """Tell the caller how it ended; False where it is to be tried again. `frees` gives memory back that ranks may
        have, where there is some."""
        job, ends = self.job, self.ends
        if self._grants is not None:
            self._grants.close()
        # Cancelled before all else: who has cancelled waits for that, and is not to be told of ranks that we ended for
        # it.
        if job.is_cancelled:
            job.end(Cancelled())
        elif all(end.state == "done" for end in ends.values()):
            self._deliver()
        elif reason := self._loss():
            lost = next((index for index, end in ends.items() if end.state == "died"), 0)
            return not job.try_again(reason, self.ranks[lost].log)
        else:
            index, end = first_cause(ends)
            rank = self.ranks[index]
            if end.code == OutOfMemory.code and job.work.world is None and frees():
                why = f"rank {rank.number} ({rank.device}): {end.reason}"
                job.told.put(Again(f"starting again without a spare rank: {why}"))
                return False
            if end.state == "failed":
                keep_logs(rank.log.parent)
            are_alike = all(each.reason == end.reason for each in ends.values())  # some of them late
            job.end(failure(end, f"rank {rank.number} ({rank.device})", log=rank.log, are_alike=are_alike))
        return True

    def _loss(self) -> str:
        """Why it came to nothing, where that is not its own fault as far as we know."""
        died = [end.reason for end in self.ends.values() if end.state == "died"]
        return died[0] if died else self.late and f"every rank {self.late}"

    def _deliver(self) -> None:
        job, ends = self.job, self.ends
        marks = {index: end.mark for index, end in ends.items()}
        if not job.work.every and (other := next((p for p in marks if marks[p] != marks[0]), None)) is not None:
            first, second = (self.ranks[index].number for index in (0, other))
            job.end(RankFailed(f"rank {second} has another result than rank {first}; run `latentloom verify`"))
            return
        spreads = [end.spread for _, end in sorted(ends.items()) if end.spread is not None]
        if spreads:
            job.told.put(
                SpreadWork(plan=spreads[0].plan, work=tuple(work for spread in spreads for work in spread.work))
            )
        job.end(answers=[ends[index].value for index in sorted(ends)])
