"""Connections from strangers, and how long each may take to say what it wants.

uvicorn waits for ever for a request to become whole, so that a few hundred half sent headers (slowloris) would keep
everybody out. Whoever is answered, an event stream and a websocket included, is never cut for being silent.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...parallel.wording import worded
from ..errors import error_body
from .address import asker_of
from .crowd import Crowd, Patience

# By the event loop in a turn. It takes four turns to look at one and close it, and so many more are open meanwhile.
ACCEPTED_AT_ONCE = 16
WAITING_TO_BE_ACCEPTED = 2048
OWN_FILES = 64 + 4 * ACCEPTED_AT_ONCE  # descriptors that are left for all that is no connection: records, models, ranks
WANTED_FILES = 16_384
SHARES = 4  # one address gets at most this part of all connections
# Where the part is smaller than this it is half: one of fewer would make room before its header was looked at, when
# others of its address come as fast as they are accepted.
FEW = 3 * ACCEPTED_AT_ONCE
NOT_ACCEPTED = "ASGI callable returned without completing handshake."
QUIET_S = 60.0
START_S = 30.0  # for the event loop to change over, on a busy machine

# What a connection must bring in time; "rest" is a body that is still being sent although it was answered.
Phase = Literal["", "header", "body", "rest"]


class Connection(H11Protocol):
    """uvicorn's protocol with deadlines."""

    def __init__(self, *, crowd: Crowd, **parts: Any) -> None:
        super().__init__(**parts)
        self._crowd = crowd
        self._patience = crowd.patience
        self._phase: Phase = ""
        self._timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._received = 0
        self._was_paused = False
        self.address = ""
        self.is_proxy = False
        self.is_websocket = False

    @property
    def is_idle(self) -> bool:
        """Whether the connection asks for nothing: no header came as yet, or the last answer is sent."""
        # a websocket is never idle: what goes on in it is not seen here
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered and not self.is_websocket and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that whoever leaves even the last bytes unread is noticed
        asker = asker_of({"client": self.client, "headers": ()}, self._patience.trusted)
        self.address, self.is_proxy = asker.address, asker.is_proxy
        if self._crowd.admit(self):
            self._expect("header")
        else:
            self._refuse(503, "this server has as many connections as it can take; try again in a moment")

    def connection_lost(self, exc: Exception | None) -> None:
        # timers would keep a connection that is gone alive, and then speak to its transport
        self._crowd.leave(self)
        self._expect("")
        self._stop_unread_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        self._crowd.answered(self)
        super().on_response_complete()
        if self.conn.their_state is not h11.IDLE:  # else the time for keeping it open runs, until something comes
            self._look()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._expect("")
        self._stop_unread_timer()
        self.is_websocket = True
        self.transport.set_write_buffer_limits()
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread_timer is None:
            self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread_timer()

    def leave_room(self) -> None:
        """Make place for another one, at once."""
        self._crowd.leave(self)
        self.transport.abort()

    def _look(self) -> None:
        is_answered = self.cycle is not None and self.cycle.response_complete
        phases: dict[Any, Phase] = {h11.IDLE: "header", h11.SEND_BODY: "rest" if is_answered else "body"}
        is_over = self.transport.is_closing() or self.is_websocket
        self._expect("" if is_over else phases.get(self.conn.their_state, ""))

    def _expect(self, phase: Phase) -> None:
        if phase == self._phase:  # its time runs from its beginning, whatever dribbles in meanwhile
            return
        if self._timer is not None:
            self._timer.cancel()
        self._phase, self._timer = phase, None
        if phase == "body":
            self._watch_body()
        elif phase:
            self._timer = self.loop.call_later(self._patience.header_s, self._come_late)

    def _come_late(self) -> None:
        self._refuse(408, f"the request did not come whole within {self._patience.header_s:g} seconds; send it again")

    def _watch_body(self) -> None:
        self._received, self._was_paused = 0, False
        self._timer = self.loop.call_later(self._patience.body_window_s, self._end_window)

    def _end_window(self) -> None:
        patience = self._patience
        # what the server itself did not want to read as yet is not held against the sender
        is_paused = self.flow.read_paused or self.cycle.waiting_for_100_continue
        is_slow = self._received < patience.body_rate * patience.body_window_s
        if is_slow and not is_paused and not self._was_paused:
            sentence = worded("the body came at less than {:g} bytes a second; send it again", patience.body_rate)
            self._refuse(408, sentence)
            return
        self._watch_body()
        self._was_paused = is_paused

    def _watch_reader(self, before: int | None = None) -> None:
        unread = self.transport.get_write_buffer_size()
        if before is not None and unread >= before:
            self.transport.abort()
        else:
            self._unread_timer = self.loop.call_later(self._patience.unread_s, self._watch_reader, unread)

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _refuse(self, status: int, sentence: str) -> None:
        self._expect("")
        # a second answer to the same request would be read as the answer to the next one
        is_said = self.cycle is not None and self.cycle.response_started and self.conn.their_state is not h11.IDLE
        if not is_said:
            self.transport.write(_answer(status, sentence))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class Seldom(logging.Filter):
    """Of what uvicorn logs of websockets that are refused, one line a minute: a page that asks again fills the log."""

    def __init__(self) -> None:
        super().__init__()
        self._next_s = 0.0
        self._num_left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg != NOT_ACCEPTED:
            return True
        if time.monotonic() < self._next_s:
            self._num_left_out += 1
            return False
        record.msg = f"a websocket was refused; {self._num_left_out} more since the last such line"
        self._next_s, self._num_left_out = time.monotonic() + QUIET_S, 0
        return True


_SELDOM = Seldom()


def guard(server: uvicorn.Server, patience: Patience, *, grace_s: int) -> None:
    """Put a server that listens behind these limits; `grace_s` is how long open connections may hold up its end.

    Whoever came before this has to come again. Raises `TimeoutError` where its event loop does not answer in time.
    """
    given = server.config  # Gradio starts its server with settings of its own
    config = uvicorn.Config(
        given.app,
        host=given.host,
        port=given.port,
        log_level=given.log_level,
        timeout_graceful_shutdown=grace_s,
        proxy_headers=False,  # who asks is told by `asker_of` alone: uvicorn would believe every local program
    )
    config.load()
    logging.getLogger("uvicorn.error").addFilter(_SELDOM)
    in_all = min(patience.in_all, _room_for_connections())
    share = max(in_all // SHARES, min(in_all // 2, FEW))
    crowd = Crowd(replace(patience, in_all=in_all, per_address=min(patience.per_address, share)))
    loop = server.servers[0].get_loop()
    taking_over = asyncio.run_coroutine_threadsafe(_take_over(server, config, crowd), loop)
    try:
        taking_over.result(timeout=START_S)
    finally:
        taking_over.cancel()


async def _take_over(server: uvicorn.Server, config: uvicorn.Config, crowd: Crowd) -> None:
    def connection(_loop: asyncio.AbstractEventLoop | None = None, **_: object) -> Connection:
        return Connection(
            crowd=crowd, config=config, server_state=server.server_state, app_state=server.lifespan.state, _loop=_loop
        )

    if sys.platform == "win32":  # there the loop takes connections one by one, and a socket belongs to one listener
        server.config.http_protocol_class = connection
        server.config.timeout_graceful_shutdown = config.timeout_graceful_shutdown
    else:
        await _listen_anew(server, connection)
        server.config = config
    for early in list(server.server_state.connections):  # they have uvicorn's own protocol, without deadlines
        early.shutdown()


async def _listen_anew(server: uvicorn.Server, connection: Callable[[], Connection]) -> None:
    # on the same sockets, which take connections all the time: so few at once that descriptors never run out
    loop = asyncio.get_running_loop()
    before, server.servers = server.servers, []
    for sock in [sock.dup() for each in before for sock in each.sockets]:
        server.servers.append(await loop.create_server(connection, sock=sock, backlog=ACCEPTED_AT_ONCE))
        sock.listen(WAITING_TO_BE_ACCEPTED)
    for each in before:
        each.close()


def _room_for_connections() -> int:
    # by the process's limit of open files, which is first raised as far as it may be: each may open a file, too
    if sys.platform == "win32":
        return WANTED_FILES
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    limit = WANTED_FILES if soft == resource.RLIM_INFINITY else soft
    return max(16, (limit - OWN_FILES) // 2)


def _answer(status: int, sentence: str) -> bytes:
    body = json.dumps(error_body(sentence, status)).encode()
    reason = {408: "Request Timeout", 503: "Service Unavailable"}[status]
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
