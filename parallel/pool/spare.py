"""The spare of a pool's fork server: there while the server lives, and in office when it dies.

Importing torch takes a second or more. The fork server forks a copy of itself, the spare, before any rank, so that
neither a lost rank nor a lost server costs an import.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..errors import BadMessage, Closed
from ..ranks.channel import Channel
from ..ranks.messages import FromServer, Ready
from ..ranks.shortage import advice
from .server_process import ServerProcess

logger = logging.getLogger("latentloom")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 60.0
"""Before another is forked, after the loss of one; four times as long where that one was never ready."""


class Spare:
    """Owned by the crew. `listen` and `ignore` are the crew's: what to call when a connection has news."""

    def __init__(
        self,
        *,
        listen: Callable[[Channel[FromServer], Callable[[], None]], None],
        ignore: Callable[[Channel[FromServer]], None],
    ) -> None:
        self._listen = listen
        self._ignore = ignore
        self._process: ServerProcess | None = None
        self._num_losses = 0
        """In a row, of those that were not ready."""
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
        """Give the spare away, to be the fork server from now on; None where there is none that is ready, for one that
        is not dies with its server. Another is to be asked for.
        """
        self._read()
        if self._process is not None and not self._process.pid:
            self.close()
        return self._give_up()

    def refuse(self, message: str) -> None:
        """The server could not fork it. Its connection has ended, too, which may have been heard before."""
        if self._process is None:
            return
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
            if isinstance(received.message, Ready) and self._process.hear_ready(received.message, received.fds):
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
