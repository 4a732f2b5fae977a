"""The crew: every rank's process, started, watched and replaced when it is lost, and the fork server they come from.

    start            Fork goes to the server         a channel, no pidfd: only the server can tell what became of it
    Forked           the server sends its pidfd      from here on the kernel tells of its death
    Hello, Kernels   it speaks for itself            is_ready: it can be asked
    _tell_loss       silent, closed, or not sane     is_gone: jobs hear of it at once, and nobody listens any more
    _bury            its pidfd says that it is dead  the place is empty: another may start

Between the last two may be seconds, in which a driver clears up. A rank that started meanwhile would find the GPU's
memory taken; jobs that waited for it would lose them.
"""

import contextlib
import logging
import os
import select
import selectors
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import BadMessage, Closed
from ..ranks.channel import Channel, Received
from ..ranks.messages import Exited, Forked, FromServer, Hello, Kernels, NoSpare, NotForked, ServerReady
from ..ranks.shortage import MemoryKills, advice
from .folder import keep_logs
from .known import Known
from .limits import Limits
from .rank_process import Listener, RankProcess
from .server_process import ServerProcess, how_it_ended, is_stopped, last_line
from .spare import Spare, SpareRanks

logger = logging.getLogger("latentloom")
MAX_FAILURES = 3  # to start something, in a row, before those who wait for it are told
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0  # after the first of them, and at most; each is four times the last
CODE_S = 0.1  # to wait for the fork server to tell how a rank ended, after the kernel has told that it did


class Crew:
    """Owned by the thread of the supervisor, which listens; the selector's keys hold what to call."""

    listener: Listener

    def __init__(
        self,
        ranks: Sequence[RankProcess],
        *,
        folder: Path,
        preload: Sequence[str],
        limits: Limits,
        known: Known | None = None,
        spare_ranks: bool | None = False,
    ) -> None:
        self.ranks = ranks
        self.spares = SpareRanks(ranks, wanted=spare_ranks, folder=folder)
        self._places = [*ranks, *self.spares.ranks]
        self.selector = selectors.DefaultSelector()
        self._folder, self._preload, self._limits = folder, preload, limits
        self._known = known or Known()
        self._server: ServerProcess | None = None
        self._server_log = folder / "server.log"
        self._spare = Spare(listen=self._listen, ignore=self._ignore)
        self._memory_kills = MemoryKills()
        self.culprit = ""  # as of `ServerReady`, once it is known
        self._num_failures = 0
        self._next_time = 0.0
        self._codes: dict[int, int] = {}  # how processes ended, by pid, of which the kernel has not told yet

    @property
    def is_failing(self) -> bool:
        """Whether something could not be started so often that those who wait for it were told."""
        return self._num_failures >= MAX_FAILURES

    def keep(self) -> None:
        """Start what is missing."""
        can_start = time.monotonic() >= self._next_time
        try:
            if self._server is None and can_start:
                gpus = {rank.device for rank in self.ranks if rank.device.startswith("cuda")}
                self._take(ServerProcess.start(self._server_log, self._preload, num_gpus=len(gpus)))
            if (server := self._server) is None:
                return
            self._spare.keep(server)  # before the ranks: a server that has none is slow to replace
            for rank in self.ranks:
                if rank.channel is None and not self._seat_spare(rank) and can_start:
                    self._start(server, rank)
            for rank in self.spares.due():
                self._start(server, rank)
            self._known.tell_kernels(self._places)
        except OSError as error:
            self._fail(f"no rank can be started: {advice(error)}")
        except Closed:
            self._lose_server()

    def close(self) -> None:
        """End every process; returns when they have gone."""
        for rank in self._places:
            rank.kill("the pool was closed")
        self._spare.close()  # before the server, which collects what it has forked
        if self._server is not None:
            self._server.close()
        for rank in self._places:
            rank.forget()

    def shift(self, seconds: float) -> None:
        """The host itself was stopped for so long."""
        for rank in self._places:
            rank.shift(seconds)

    def check_time(self, now: float) -> None:
        for rank in self._places:
            silence = now - rank.heard
            if rank.end_time is not None:  # first: who was killed is silent, too
                if now - rank.end_time > self._limits.die_s:
                    self._insist(rank, now)
            elif rank.has_begun and silence > self._limits.silence_s:
                frozen = ": its process is stopped" if is_stopped(rank.pid) else ""
                rank.kill(f"was silent for {self._limits.silence_s:g} s{frozen}")
            elif rank.channel is not None and not rank.has_begun and (why := self._why_late(rank, silence)):
                why = f"did not start in {silence:.0f} s: {why}"
                if rank.is_spare:
                    rank.kill(why)
                    continue
                self._fail(f"rank {rank.number} {why}")
                # It may hang by what it inherited, such as a library's lock that was held at the fork: then the next
                # one from this server would, too.
                if self._server is not None:
                    self._server.kill()
                    self._lose_server()
                return

    def _why_late(self, rank: RankProcess, silence_s: float) -> str:
        """Why a rank that should have said hello by now has not; empty while there is time."""
        if self._server is not None and silence_s > self._limits.silence_s and is_stopped(self._server.pid):
            return "the fork server is stopped"
        return last_line(rank.log) if silence_s > self._limits.start_s else ""

    def _insist(self, rank: RankProcess, now: float) -> None:
        """A rank that was killed does not go: it waits in a driver, perhaps for ever."""
        rank.end_time = now  # so that those who wait for it are told now and again
        was_killed = bool(rank.why_killed)
        rank.kill("closed its connection")
        if was_killed:
            reason = f"{rank.why_killed}, but process {rank.pid} does not end and holds the device; restart the machine"
            if not rank.is_gone:
                self._tell_loss(rank, reason)
            if not rank.is_spare:
                self.listener.on_failure(f"{rank.title} {reason}")

    def _seat_spare(self, rank: RankProcess) -> bool:
        """Whether the place of a rank could be filled with the spare of its device."""
        if (spare := self.spares.take(rank)) is None:
            return False
        self._ignore(spare.channel)
        self._ignore(spare.pidfd)
        self._listen(rank.take_over(spare), lambda: self._on_rank(rank))
        self._listen(rank.pidfd, lambda: self.lose(rank))
        return True

    def _start(self, server: ServerProcess, rank: RankProcess) -> None:
        try:
            # Five times as often as it must: one that is late by a busy machine is no frozen one.
            channel = rank.start(server, ping_s=self._limits.silence_s / 5)
            self._listen(channel, lambda: self._on_rank(rank))
        except OSError as error:
            if not rank.is_spare:
                raise
            self.spares.lose(rank, f"cannot be had: {advice(error)}")

    def _take(self, server: ServerProcess) -> None:
        self._server = server
        self._listen(server.channel, self._on_server)

    def _fail(self, reason: str) -> None:
        """What fails before the next attempt has failed with the last."""
        if time.monotonic() < self._next_time:
            return  # else many ranks that die of one fault would count as many faults
        pause = FIRST_PAUSE_S * 4 ** min(self._num_failures, MAX_FAILURES)
        self._next_time = time.monotonic() + min(pause, LONGEST_PAUSE_S)
        self._num_failures += 1
        if self._num_failures >= MAX_FAILURES:
            self.listener.on_failure(reason)

    # The fork server

    def _on_server(self) -> None:
        if not self._read_server():
            self._lose_server()

    def _read_server(self) -> bool:
        """Hear all that it has said; False where it is gone."""
        while self._server is not None:
            try:
                received = self._server.channel.receive()
            except Closed:
                return False
            except BadMessage as error:
                logger.warning("the fork server is not understood, and ended: %s", error)
                return False
            if received is None:
                break
            self._hear_server(received)
        return True

    def _hear_server(self, received: Received[FromServer]) -> None:
        match received.message:
            case ServerReady() as told:
                assert self._server is not None, "it has spoken"
                self.culprit = told.culprit
                if not self._server.hear_ready(told, received.fds):  # it could not be ended, should it be stopped
                    self._lose_server()
            case NoSpare(problem):
                self._spare.refuse(problem)
            case Exited() as told:
                if any(rank.pid == told.pid for rank in self._places):
                    self._codes[told.pid] = told.code
            case Forked() | NotForked() as told:
                self._hear_forked(told, received.fds)

    def _hear_forked(self, told: Forked | NotForked, fds: Sequence[int]) -> None:
        rank = self._places[told.rank]
        if rank.channel is None or rank.birth != told.birth:  # lost already: it sees that nobody listens
            for fd in fds:
                os.close(fd)
        elif isinstance(told, NotForked):
            rank.why_killed = f"could not be started: {told.problem}; end other processes"
            self.lose(rank)
        elif not fds:
            rank.why_killed = "could not be watched: too many open files; raise the limit (ulimit -n)"
            self.lose(rank)
        else:
            rank.pid, rank.pidfd = told.pid, fds[0]
            self._listen(rank.pidfd, lambda: self.lose(rank))

    def _lose_server(self) -> None:
        """The fork server is gone: its ranks die with it, by the kernel, and its spare goes on in its place."""
        assert self._server is not None, "it was there"
        self._ignore(self._server.channel)
        code = self._server.close()
        how = how_it_ended(code, log=self._server_log, starved=self._memory_kills.reason())
        self._server = None
        # Before losses are told: who hears of one asks for a rank at once, and finds the new server.
        if (spare := self._spare.take()) is None:
            logger.warning("the fork server %s; another is started, and imports what ranks need", how)
        else:
            logger.warning("the fork server %s; its spare goes on in its place", how)
            self._take(spare)
        if not any(rank.has_begun for rank in self.ranks):
            self._fail(f"ranks do not start: the fork server {how}")
        for rank in self._places:
            if rank.channel is not None:
                rank.why_killed = rank.why_killed or f"was ended with the fork server, which {how}"
                rank.kill(rank.why_killed)
                if not rank.is_gone:
                    self._tell_loss(rank, rank.why_killed)
                if rank.pidfd < 0:  # not yet born, as far as we know: no pidfd will tell of its death
                    self._bury(rank)
        self.spares.forgive()

    # Ranks

    def lose(self, rank: RankProcess) -> None:
        """After its death."""
        if not rank.is_gone:
            self._read(rank)  # what it said before: an answer may lie in the socket of a process that is dead
            self._miss(rank)
        self._bury(rank)

    def _miss(self, rank: RankProcess) -> None:
        reason = self._reason(rank)
        if rank.is_gone:  # that it was lost with the server was found out meanwhile
            return
        if not rank.has_begun and not rank.is_spare:
            self._fail(f"{rank.title} {reason}")
        self._tell_loss(rank, reason)

    def _tell_loss(self, rank: RankProcess, reason: str) -> None:
        """Once for each process, as soon as it cannot work."""
        if rank.is_spare:
            self.spares.lose(rank, reason)
        else:
            logger.warning("%s %s; it is started again", rank.title, reason)
            keep_logs(self._folder)
        self._ignore(rank.channel)
        rank.is_gone = True
        rank.end_time = rank.end_time or time.monotonic()
        self.listener.on_loss(rank, reason)

    def _bury(self, rank: RankProcess) -> None:
        """Forget a rank that is dead and has let go of its device, so that another can be started."""
        self._codes.pop(rank.pid, None)
        self._ignore(rank.channel)
        self._ignore(rank.pidfd)
        rank.forget()

    def _reason(self, rank: RankProcess) -> str:
        # The kernel tells by the pidfd that it is dead, the server by `Exited` how: in either order. Without the wait
        # the user would read that a rank ended, and not that it was killed for its memory.
        end = time.monotonic() + CODE_S
        while not rank.why_killed and rank.pid and rank.pid not in self._codes and self._server is not None:
            poll = select.poll()
            poll.register(self._server.channel.fileno(), select.POLLIN)
            left_s = end - time.monotonic()
            if left_s <= 0 or not poll.poll(1000 * left_s):
                break
            if not self._read_server():
                self._lose_server()
        starved = self._memory_kills.reason()
        return rank.why_killed or how_it_ended(self._codes.get(rank.pid), log=rank.log, starved=starved)

    def _on_rank(self, rank: RankProcess) -> None:
        if self._read(rank):
            return
        if rank.pidfd < 0 and not self._read_server():
            self._lose_server()  # which was to fork it
        elif rank.channel is None:
            pass  # the server has told that it could not
        elif rank.pidfd < 0:
            self.lose(rank)  # it died before the server told of its birth
        else:
            self._miss(rank)

    def _read(self, rank: RankProcess) -> bool:
        """Hear all that a rank has said; False where its connection is closed."""
        while rank.channel is not None:
            try:
                received = rank.channel.receive()
            except Closed:
                return False
            except BadMessage as error:
                rank.kill(f"is not understood: {error}")
                break
            if received is None:
                break
            rank.heard = time.monotonic()
            if isinstance(received.message, Hello | Kernels):
                if self._known.hear(rank, received.message) and not rank.is_spare:
                    self._num_failures = 0  # one has started: what failed before does not fail always
            elif not rank.is_spare:
                self.listener.on_message(rank, received)
        return True

    def _listen(self, what: Channel[Any] | int, call: Callable[[], None]) -> None:
        self.selector.register(what, selectors.EVENT_READ, call)

    def _ignore(self, what: Channel[Any] | int | None) -> None:
        if what is not None and what != -1:
            with contextlib.suppress(KeyError):  # ignored before: a loss is told of, and the rank buried later
                self.selector.unregister(what)
