"""A pool's spares: of its fork server and of its ranks, there while those live, and in office when one dies.

Importing torch takes a second or more. The fork server forks a copy of itself, the spare, before any rank, so that
neither a lost rank nor a lost server costs an import.

On a GPU a rank takes seconds more until it can work: for the driver, for libraries, for NCCL. So on a large card one is
started ahead, on each device, which is in no process group and has no weights. It is the first to go where memory is
short.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import BadMessage, Closed
from ..ranks.channel import Channel
from ..ranks.guard import has_ended
from ..ranks.messages import FromServer, ServerReady
from ..ranks.shortage import advice
from .rank_process import RankProcess
from .server_process import ServerProcess, is_stopped

logger = logging.getLogger("latentloom")
# Before another is forked, after the loss of one; four times as long where that one was never ready.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 60.0
MOST_LOSSES = 3  # of the spares of a device, in a row, before it gets no other
# From the moment when a spare has become a rank, until another is started: those that wait for it come first.
AFTER_S = 2.0
LARGE_BYTES = 40 * 10**9  # of memory on a GPU, from which on there is room for a spare


class Spare:
    """Of the fork server; owned by the crew. `listen` and `ignore` are its: what to call when a connection has news."""

    def __init__(
        self,
        *,
        listen: Callable[[Channel[FromServer], Callable[[], None]], None],
        ignore: Callable[[Channel[FromServer]], None],
    ) -> None:
        self._listen = listen
        self._ignore = ignore
        self._process: ServerProcess | None = None
        self._num_losses = 0  # in a row, of those that were not ready
        self._next_time = 0.0

    def keep(self, server: ServerProcess) -> None:
        """Have the server fork one where there is none. Raises `Closed` where it was the server that is gone."""
        if self._process is not None or time.monotonic() < self._next_time:
            return
        try:
            self._process = server.spare()
        except OSError as error:
            self._fail(f"cannot be had: {advice(error)}")
        else:
            self._listen(self._process.channel, self._read)

    def take(self) -> ServerProcess | None:
        """Give the spare away, to be the fork server from now on; None where there is none that is ready. Another is to
        be asked for."""
        self._read()  # it may have said by now that it is ready
        if self._process is not None and not self._process.pid:
            self.close()  # one that is not ready dies with its server (`ForkServer._become_spare`)
        return self._give_up()

    def refuse(self, message: str) -> None:
        """The server could not fork it."""
        if self._process is None:
            return  # its connection has ended, too, which may have been heard before
        self._lose(f"could not be started: {message}; end other processes")

    def close(self) -> None:
        """Kill the spare: it has nothing to end in good order, and may be stopped."""
        if (process := self._give_up()) is not None:
            process.kill()
            process.close()

    def _give_up(self) -> ServerProcess | None:
        process, self._process = self._process, None
        if process is not None:
            self._ignore(process.channel)
        return process

    def _read(self) -> None:
        while self._process is not None:
            try:
                received = self._process.channel.receive()
            except Closed:
                self._lose("has ended")
                return
            except BadMessage as error:
                self._lose(f"is not understood: {error}")
                return
            if received is None:
                return
            if isinstance(received.message, ServerReady) and self._process.hear_ready(received.message, received.fds):
                self._num_losses = 0
                logger.info("the spare of the fork server is process %d", self._process.pid)
            else:
                self._lose("could not be watched: too many open files; raise the limit (ulimit -n)")

    def _lose(self, reason: str) -> None:
        self.close()
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        pause_s = min(FIRST_PAUSE_S * 4**self._num_losses, LONGEST_PAUSE_S)
        self._num_losses += 1
        self._next_time = time.monotonic() + pause_s
        logger.warning("the spare of the fork server %s; the next is tried in %g s", reason, pause_s)


class SpareRanks:
    """One spare rank for each device; owned by the crew, which starts and loses them as it does ranks. `wanted`:
    whether there are any, as of `Pool`."""

    def __init__(self, seats: Sequence[RankProcess], *, wanted: bool | None, folder: Path) -> None:
        devices = {seat.device: seat for seat in seats} if wanted is not False else {}
        self.ranks = [
            RankProcess(
                len(seats) + index,
                device,
                num_threads=seat.num_threads,
                folder=folder,
                interface=seat.interface,
                is_spare=True,
            )
            for index, (device, seat) in enumerate(devices.items())
        ]
        self._seats = seats
        self._wanted = wanted
        # By device, since its spare became a rank or the fork server was lost, with which they all die.
        self._losses: Counter[str] = Counter()
        self._next_time = 0.0
        self._is_resting = self._is_over = False

    def due(self) -> list[RankProcess]:
        """Those to be started now: once all ranks are there, which have need of the same devices."""
        if self._is_resting:
            self._end()
        if self._is_resting or time.monotonic() < self._next_time or not all(seat.is_ready for seat in self._seats):
            return []
        return [rank for rank in self.ranks if rank.channel is None and self._may_have(rank)]

    def take(self, seat: RankProcess) -> RankProcess | None:
        """The spare that can take a rank's place, or None."""
        spare = next((each for each in self.ranks if each.device == seat.device and each.is_ready), None)
        if spare is None or has_ended(spare.pidfd, wait_s=0) or is_stopped(spare.pid):
            return None
        if spare.has_p2p != seat.has_p2p:  # NCCL has read by now whether it may
            spare.kill("had been started with peer-to-peer")
            return None
        self._losses[seat.device] = 0
        self._next_time = time.monotonic() + AFTER_S
        logger.info("%s is ready, process %d, which was the spare", seat.title, spare.pid)
        return spare

    def lose(self, rank: RankProcess, reason: str) -> None:
        self._losses[rank.device] += not self._is_resting  # one that we ended for its memory is no fault of it
        is_last = self._losses[rank.device] >= MOST_LOSSES
        pause_s = FIRST_PAUSE_S * 4 ** min(self._losses[rank.device], MOST_LOSSES)
        self._next_time = time.monotonic() + pause_s
        level = logging.INFO if self._is_resting else logging.WARNING
        then = "it gets no other" if is_last else "another is started"
        logger.log(level, "%s %s; %s", rank.title, reason, "it rests" if self._is_resting else then)

    def forgive(self) -> None:
        """They were lost with the fork server."""
        self._losses.clear()

    def rest(self, *, for_good: bool = False) -> bool:
        """Give their memory back, until a job begins or for good; whether there were any."""
        were_there = not self._is_over and any(rank.channel is not None for rank in self.ranks)
        self._is_resting, self._is_over = True, self._is_over or for_good
        self._end()
        return were_there

    def wake(self) -> None:
        self._is_resting = self._is_over

    def are_leaving(self, *, limit_s: float) -> bool:
        """Whether memory is about to be free, unless a driver does not let go of a dead process."""
        ends = [rank.end_time for rank in self.ranks if rank.end_time is not None]
        return self._is_resting and any(time.monotonic() - end < limit_s for end in ends)

    def _end(self) -> None:
        for rank in self.ranks:  # `due` comes by again: one that is being forked is ended as soon as it is there
            rank.kill("was given up for its memory")

    def _may_have(self, rank: RankProcess) -> bool:
        seats = [seat for seat in self._seats if seat.device == rank.device]  # several ranks may share a CPU
        rank.has_p2p = all(seat.has_p2p for seat in seats)
        is_large = all(seat.memory_bytes >= LARGE_BYTES for seat in seats)
        return self._losses[rank.device] < MOST_LOSSES and (self._wanted or is_large)
