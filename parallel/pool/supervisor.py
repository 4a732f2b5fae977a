"""The thread that owns a pool: it gives jobs to ranks, hears what becomes of them, and looks at the clock.

All state is this thread's; others only post orders. It waits for file descriptors, and looks at the clock in between.
"""

import contextlib
import os
import queue
import selectors
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence

from ..errors import BadInput, Cancelled, RankFailed
from ..ranks.channel import Received
from ..ranks.messages import FromRank, Hello, Joined, Kernels, Phase, Ping
from .attempt import JobRun
from .job import Job
from .limits import Limits
from .processes import Crew
from .rank_process import RankProcess
from .replica import Replica


class JobQueue:
    """Jobs that wait. Owners take turns, and each keeps its own order; one that is tried again has had its turn."""

    def __init__(self) -> None:
        self._again: deque[Job] = deque()
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()

    def put(self, job: Job) -> None:
        self._waiting.setdefault(job.work.owner, deque()).append(job)

    def put_again(self, job: Job) -> None:
        self._again.append(job)

    def take(self, fits: Callable[[Job], bool] = lambda job: True) -> Job | None:
        """The next job that fits; its owner goes to the end of the line."""
        if (job := next(filter(fits, self._again), None)) is not None:
            self._again.remove(job)
            return job
        for owner, jobs in self._waiting.items():
            if (job := next(filter(fits, jobs), None)) is not None:
                jobs.remove(job)
                del self._waiting[owner]
                if jobs:
                    self._waiting[owner] = jobs
                return job
        return None

    def remove(self, job: Job) -> bool:
        """Whether it was waiting here."""
        for jobs in (self._again, *self._waiting.values()):
            if job in jobs:
                jobs.remove(job)
                self._waiting = OrderedDict((owner, left) for owner, left in self._waiting.items() if left)
                return True
        return False

    def __iter__(self) -> Iterator[Job]:
        yield from self._again
        for jobs in self._waiting.values():
            yield from jobs


TICK_S = 0.02
IDLE_TICK_S = 0.5
CLOSE_S = 15.0


class Supervisor:
    """Its public functions are for any thread, and post orders; what begins with an underscore is the thread's own."""

    def __init__(self, replicas: Sequence[Replica], crew: Crew, limits: Limits) -> None:
        self.replicas = replicas
        self.queues = {"main": JobQueue(), "side": JobQueue()}
        self.is_closed = False
        self._limits = limits
        self._has_ended = False
        # What was told, by the numbers of jobs, while ranks start; None once all have been there.
        self._starts: dict[int, str] | None = {}
        self._lock = threading.Lock()  # between an order and the thread's end
        self._orders: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._woken, self._wake = socket.socketpair()  # one byte ends a wait for descriptors that may last long
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._crew, crew.listener = crew, self
        crew.selector.register(self._woken, selectors.EVENT_READ, self._on_wake)
        self._thread = threading.Thread(target=self._serve, name="latentloom pool", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        self._post(lambda: self._submit(job))

    def cancel(self, job: Job) -> None:
        self._post(lambda: self._cancel(job))

    def rest_spares(self) -> None:
        self._post(lambda: self._crew.spares.rest())

    def close(self) -> None:
        """Every job ends with an error, every process ends; returns when they have."""
        self._post(self._close)
        if threading.current_thread() is not self._thread:  # which may be the one to collect a forgotten pool
            self._thread.join(CLOSE_S)

    def _post(self, order: Callable[[], object]) -> None:
        """Have the thread do this; once it has ended, do it here."""
        # Under the lock: an order that is put while the thread empties its queue for the last time would wait for ever.
        with self._lock:
            has_ended = self._has_ended
            if not has_ended:
                self._orders.put(order)
                with contextlib.suppress(BlockingIOError):  # enough to wake it is there already
                    self._wake.send(b"!")
        if has_ended:
            order()

    # The thread

    def _serve(self) -> None:
        try:
            while not self.is_closed:
                # Ranks first: one that was lost in the turn before is on its way again before its job is looked at.
                self._crew.keep()
                self._tell_start()
                for replica in self.replicas:
                    self._schedule(replica)
                self._wait()
        except BaseException as error:  # callers wait for a last word, which nobody else would give them
            self._close(f"the pool stopped with {type(error).__name__}: {error}")
            raise
        finally:
            self._crew.close()
            with self._lock:
                self._has_ended = True
            while not self._orders.empty():  # those who came late hear it too
                self._orders.get()()
            for each in (self._crew.selector, self._woken, self._wake):
                each.close()

    def _tell_start(self) -> None:
        """To those who wait for ranks to start, which takes seconds: what they do."""
        starting = [rank for replica in self.replicas for rank in replica.ranks if not rank.is_ready]
        if self._starts is None or not starting:
            self._starts = None
            return
        trying = sorted({rank.device for rank in starting if rank.is_told})
        text = f"trying attention kernels on {', '.join(trying)}" if trying else "starting ranks"
        # Asked each turn, told once: a job hears only of what is new to it.
        for job in self._jobs():
            if self._starts.get(job.number) != text:
                self._starts[job.number] = text
                job.told.put(Phase(job=job.number, text=text, is_loading=True))

    def _wait(self) -> None:
        is_whole = all(rank.channel is not None for rank in self._crew.ranks)
        is_busy = not is_whole or any(replica.runs() or replica.joining for replica in self.replicas)
        tick = TICK_S if is_busy else IDLE_TICK_S
        before = time.monotonic()
        for key, _ in self._crew.selector.select(tick):
            if self._crew.selector.get_map().get(key.fd) is key:  # one that was read first may have closed another
                key.data()
        # Orders after messages: a job whose answer has come is over, and a cancel that came with it is too late.
        while not self._orders.empty():
            self._orders.get()()
        now = time.monotonic()
        # A laptop that slept, a debugger: every deadline would have passed, and ranks be killed that did nothing wrong.
        if now - before > tick + 1:  # this process was stopped, not the ranks
            self._crew.shift(now - before)
            for replica in self.replicas:
                replica.shift(now - before)
        self._crew.check_time(now)
        for replica in self.replicas:
            replica.check_time(now)

    def _on_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    # Orders

    def _submit(self, job: Job) -> None:
        num_ranks = len(self.replicas[0].ranks)
        if self.is_closed:
            job.end(RankFailed("the pool was closed"))
        elif not 1 <= job.work.num_ranks <= num_ranks:
            job.end(BadInput(f"{job.work.num_ranks} ranks are asked for; {num_ranks} work together here"))
        else:
            self.queues[job.work.lane].put(job)

    def _cancel(self, job: Job) -> None:
        job.is_cancelled = True
        if self._withdraw(job):
            job.end(Cancelled())
            return
        for replica in self.replicas:
            for run in replica.runs():
                if run.job is job:
                    run.cancel()

    def _withdraw(self, job: Job) -> bool:
        """Whether it had not begun; it will not now."""
        if any(jobs.remove(job) for jobs in self.queues.values()):
            return True
        return any(replica.withdraw(job) for replica in self.replicas)

    def _close(self, reason: str = "the pool was closed") -> None:
        self.is_closed = True
        for job in self._jobs():
            job.end(RankFailed(reason))

    def _jobs(self) -> list[Job]:
        waiting = [job for jobs in self.queues.values() for job in jobs]
        taken = [replica.job for replica in self.replicas if replica.job is not None]
        return [*waiting, *taken, *(run.job for replica in self.replicas for run in replica.side.values())]

    # What the crew tells

    def on_message(self, rank: RankProcess, received: Received[FromRank]) -> None:
        message, body = received.message, received.fds[0] if received.fds else None
        replica = next(each for each in self.replicas if rank in each.ranks)
        if isinstance(message, Joined):
            replica.hear_joined(rank, message)
        elif not isinstance(message, Hello | Kernels | Ping):
            run = next((r for r in replica.runs() if r.job.number == message.job and rank in r.ranks), None)
            if run is not None:
                run.hear(rank, message, body)
                self._settle(replica)
            elif body is not None:
                os.close(body)

    def on_loss(self, rank: RankProcess, reason: str) -> None:
        for replica in self.replicas:
            if rank in replica.ranks:
                replica.lose(rank, reason)
                self._settle(replica)

    def on_failure(self, reason: str) -> None:
        """Other replicas take what waits; what one that is not whole has taken waits in vain."""
        can_work = any(replica.is_whole for replica in self.replicas)
        stuck = [replica.job for replica in self.replicas if not replica.is_whole]
        for job in self._jobs():
            if (job in stuck or not can_work) and self._withdraw(job):
                job.end(RankFailed(reason))

    # Jobs

    def _schedule(self, replica: Replica) -> None:
        if self._crew.spares.are_leaving(limit_s=self._limits.die_s):
            return  # a job that begins now would find the memory taken for want of which they go
        if replica.job is None and replica.is_whole and (job := self.queues["main"].take()) is not None:
            replica.take(job)
            self._crew.spares.wake()
        replica.advance()

        def fits(job: Job) -> bool:
            rank = replica.ranks[job.work.rank]
            return rank.is_ready and rank not in replica.side

        while (job := self.queues["side"].take(fits)) is not None:
            rank = replica.ranks[job.work.rank]
            replica.side[rank] = run = JobRun(job, [rank], self._limits)
            run.dispatch()  # of one rank, and so without memory to share: this cannot fail

    def _settle(self, replica: Replica) -> None:
        if (run := replica.run) is not None and run.is_over:
            replica.run, replica.job = None, None
            if not run.leaves_world_whole:  # some may be in a collective that others left: they have to meet anew
                replica.world = None
            self._finish(run)
        for rank, side in list(replica.side.items()):
            if side.is_over:  # its rank used no process group
                del replica.side[rank]
                self._finish(side)

    def _finish(self, run: JobRun) -> None:
        if not run.settle(frees=lambda: self._crew.spares.rest(for_good=True)):
            self.queues[run.job.work.lane].put_again(run.job)
