"""A rank: a forked process that holds one device, joins process groups and runs named functions, until it is ended.

Its first thread only listens, so that it hears a cancel in the middle of a step. Two lanes do the work: `main` what
takes a process group or the most time, `side` what one rank does meanwhile (encode the next text, decode the last).
"""

import contextlib
import errno
import importlib
import logging
import os
import queue
import select
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..attention import choice
from ..errors import BadWires, Closed, one_line
from ..machine import logs
from ..process_groups import is_in_rendezvous, work_among
from . import guard
from .channel import Channel, Received, read_body
from .grants import Granted
from .heap import give_back_large
from .membership import Membership
from .messages import Abort, Attends, Cancel, Fork, Hello, Join, Joined, Kernels, Moves, Ping, RunJob, Stuck, ToRank
from .rank_job import RankJob, loses_device
from .seat import Seat, World

logger = logging.getLogger("latentloom")
# With the priority of each one's stream on an accelerator, the lowest number first: what one rank does meanwhile takes
# what the steps leave, and no step waits for it in a queue. No tensor goes from one lane to the other: results travel
# by way of the host, and what is loaded is lent to a lane once it is whole and until a stage, which waits for its
# stream, has ended well (`pipelines/components/store.py`). After one that failed nobody waits, since its collectives
# may never end; what it still has under way only reads what was lent.
LANES = {"main": -1, "side": 0}
# Of ranks that meet on one machine, unless the user says otherwise: NCCL looks for no network, which takes it time in
# every rank, and starts no thread that listens for questions about it.
ALONE = {"NCCL_RAS_ENABLE": "0", "NCCL_IB_DISABLE": "1", "NCCL_NET_PLUGIN": "none"}


def main(channel: Channel[ToRank], host_pidfd: int, order: Fork, *, server_pidfd: int) -> None:
    """Serve `channel` until the host ends it or is gone; does not return."""
    with contextlib.suppress(ValueError):  # which the host has told
        logs.begin(os.environ, rank=order.rank)
    torch.set_num_threads(order.num_threads)
    if order.device == "cpu":
        give_back_large()
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ[name] = order.interface
    if not order.has_p2p:
        os.environ["NCCL_P2P_DISABLE"] = "1"  # NCCL reads it once, when it makes its first group
    if order.interface == "lo":
        for name, value in ALONE.items():
            os.environ.setdefault(name, value)
    _take(order.device)  # what this thread aborts is there too, and CUDA would open a context on the first GPU
    with contextlib.suppress(Closed):
        Rank(channel, order).listen(host_pidfd)
    guard.tell_after(host_pidfd, server_pidfd, signal.SIGCONT)
    os._exit(0)  # leaving in good order would wait for others, and for threads in the middle of a step


class Rank:
    """What a rank's first thread does: hear the host, and hand work to the lanes."""

    def __init__(self, channel: Channel[ToRank], order: Fork) -> None:
        self.channel = channel
        self.device = order.device
        self.ping_s = order.ping_s
        self.is_spare = order.is_spare
        self.membership = Membership(self.device)
        self.kernels = Kernels()  # what attends on its device, as the host was told
        self.jobs: dict[int, RankJob] = {}
        self.lanes: dict[str, queue.SimpleQueue[Callable[[], None]]] = {}
        for name, priority in LANES.items():
            self.lanes[name] = queue.SimpleQueue()
            threading.Thread(
                target=_work, args=(self.lanes[name], order, priority), name=f"lane {name}", daemon=True
            ).start()

    def listen(self, host_pidfd: int) -> None:
        if self.is_spare:
            self._warm_up()
        own = torch.device(self.device)
        gpu = torch.cuda.get_device_properties(own) if own.type == "cuda" else None
        uuid, memory_bytes = str(getattr(gpu, "uuid", "")), getattr(gpu, "total_memory", 0)
        self.channel.send(Hello(gpu=choice.kind_of(own), uuid=uuid, memory_bytes=memory_bytes))
        poll = select.poll()
        poll.register(self.channel.fileno(), select.POLLIN)
        poll.register(host_pidfd, select.POLLIN)
        while True:
            ready = poll.poll(1000 * self.ping_s)
            if any(fd == host_pidfd for fd, _ in ready):
                return
            if ready:
                received = self.channel.receive()
                assert received is not None, "this end waits"
                self._hear(received)
            else:
                moving = [Moves(number) for number, job in [*self.jobs.items()] if job.has_moved()]
                for message in moving or [Ping()]:
                    self.channel.send(message)

    def _hear(self, received: Received[ToRank]) -> None:
        match received.message:
            case Kernels() as told:  # before any lane computes, so that all it ever gives has the same bits
                self._choose(told)
            case Join() as order:  # into the lane: the others are waited for
                self.lanes["main"].put(lambda: self._join(order))
            case RunJob() as order:
                job = self.jobs[order.job] = RankJob(order, self.channel)
                self.lanes[order.lane].put(lambda: self._run(job, received.fds))
            case Cancel(number) | Abort(number) as told:
                if job := self.jobs.get(number):
                    job.is_cancelled = True  # of an abort, too: a part that waits for nobody ends at its next border
                    if isinstance(told, Abort) and job.order.num_ranks > 1:
                        self._abort(job)

    def _warm_up(self) -> None:
        """Join a group of this rank alone and leave it, which loads and starts what any other takes. Where that fails,
        it will be told when it matters."""
        try:
            with tempfile.TemporaryDirectory() as folder:
                self.membership.join(World(name="alone", store=f"{folder}/store", size=1), 0, is_proven=True)
                self.membership.leave()
        except Exception as error:
            logger.warning("a spare rank could not join a group of its own: %s", one_line(error, most=1000))

    def _choose(self, told: Kernels) -> None:
        """Attend with what another rank has found on such a device; try it where none has, or that cannot be."""
        device, is_sound = torch.device(self.device), told.is_first if told.found else None
        try:
            for each in told.found:
                choice.adopt(device, each.dtype, each.kernel, dict(each.left_out))
        except ValueError as error:
            logger.warning("what was found of attention kernels is tried again: %s", error)
            is_sound = None
        is_first = choice.prefer(device, is_sound=is_sound)
        if self.is_spare:  # it has time: a rank that takes another's place is waited for
            choice.load(device)
        self._tell_kernels(is_first=is_first)

    def _tell_kernels(self, *, is_first: bool) -> None:
        found = choice.found(torch.device(self.device))
        self.kernels = Kernels(
            found=tuple(
                Attends(dtype=dtype, kernel=each.kernel.name, left_out=tuple(each.left_out.items()))
                for dtype, each in found.items()
            ),
            is_first=is_first,
            is_news=any(each.is_news or (each.kernel.name == "cudnn" and not is_first) for each in found.values()),
        )
        self.channel.send(self.kernels)

    def _abort(self, job: RankJob) -> None:
        job.aborted.set()  # for a lane that waits for a grant; the abort wakes one that waits in a collective
        self.membership.abort()
        if is_in_rendezvous():  # after the abort, which does not reach a group that is not yet
            self.channel.send(Stuck(job.order.job))

    def _join(self, order: Join) -> None:
        try:
            self.membership.join(order.world, order.rank, is_proven=order.is_proven)
            told = Joined(world=order.world.name, problem="")
        except Exception as error:  # the disk is full, a port is taken: the host tells the user
            is_wire = isinstance(error, BadWires)
            told = Joined(world=order.world.name, problem=one_line(error, most=1000), are_wires_bad=is_wire)
        self.channel.send(told)

    def _run(self, job: RankJob, fds: Sequence[int]) -> None:
        job.thread_id = threading.get_ident()
        try:
            with logs.about(run=job.order.owner, node=job.order.node, rank=job.order.rank):
                try:
                    job.finish(self._answer(job, fds))
                except Closed:
                    raise
                except BaseException as error:
                    self._fail(job, error)
        except Closed:
            pass  # the first thread hears of it too, and wakes a stopped server before it ends this process
        except BaseException:  # it cannot even say so; the host hears of its death
            traceback.print_exc()
            os._exit(1)

    def _answer(self, job: RankJob, fds: Sequence[int]) -> Any:
        seat = Seat(rank=job.order.rank, num_ranks=job.order.num_ranks, device=self.device)
        try:
            if not fds:
                raise OSError(errno.EMFILE, "the request did not arrive, too many open files; raise ulimit -n")
            request, job.granted = _opened(*fds)
            if job.order.lane == "main":
                work_among(job.order.num_ranks)
            with torch.no_grad():  # of this thread: a lane's
                module, _, function = job.order.function.partition(":")  # its first dot is our package
                work = getattr(importlib.import_module(module, (__package__ or "").partition(".")[0]), function)
                return work(request, job, seat)
        finally:
            # A number format that nobody had met was tried by this job: ranks to come need not.
            if len(self.kernels.found) < len(choice.found(torch.device(self.device))) and self.kernels.found:
                self._tell_kernels(is_first=self.kernels.is_first)
            del self.jobs[job.order.job]  # before its end is told: the host may send it again at once
            if job.granted is not None:
                job.granted.close()

    def _fail(self, job: RankJob, error: BaseException) -> None:
        is_late = job.order.num_ranks > 1 and self.membership.was_aborted  # before `stop`, which is no abort
        if job.order.num_ranks > 1 and not job.is_in_step:
            self.membership.stop()  # so that those who wait for this rank in a collective hear of it at once
        if not job.is_cancelled:
            logger.error("a job failed", exc_info=error)  # into this rank's log
        job.fail(error, is_late=is_late)
        if loses_device(error):  # each call would repeat the error until the process ends
            os._exit(1)


def _work(orders: queue.SimpleQueue[Callable[[], None]], order: Fork, priority: int) -> None:
    torch.set_num_threads(order.num_threads)  # OpenMP counts for each thread: a matrix product would take all cores
    _take(order.device)
    with _stream(order.device, priority):
        while True:
            orders.get()()


def _stream(device: str, priority: int) -> contextlib.AbstractContextManager[Any]:
    """Within it this thread's work goes to a stream of its own, where the device has any."""
    if not device.startswith("cuda"):
        return contextlib.nullcontext()
    return torch.cuda.stream(torch.cuda.Stream(device, priority=priority))


def _take(device: str) -> None:
    """CUDA's current device, which each thread has of its own."""
    if device.startswith("cuda"):
        torch.cuda.set_device(device)


def _opened(body: int, grants: int = -1) -> tuple[Any, Granted | None]:
    """What came with a job; the descriptors are closed, whatever is wrong with one of them."""
    try:
        granted = Granted(grants) if grants >= 0 else None
    finally:
        request = read_body(body)
    return request, granted
