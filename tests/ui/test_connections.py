"""Connections that ask for nothing: cut in time, never in the way of those who ask, and no more than there is room."""

import asyncio
import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.middleware import Middleware
from websockets.sync.client import connect as open_websocket

from latentloom.ui.access.address import Door, asker_of
from latentloom.ui.access.connections import ACCEPTED_AT_ONCE, guard
from latentloom.ui.access.crowd import Crowd, Patience
from latentloom.ui.access.gate import Gate
from latentloom.ui.access.login import login_routes
from latentloom.ui.access.throttle import MAX_TRIES, Throttle
from latentloom.ui.settings import Settings
from support.toy_server import until

# For clients that have to be cut. Those that have to succeed get `CALM`, however busy the machine is.
QUICK = Patience(header_s=0.3, body_window_s=0.3, unread_s=0.3)
CALM = Patience(header_s=20.0, body_window_s=20.0, unread_s=20.0)
HALF = b"POST /echo HTTP/1.1\r\nHost: x\r\nX-A: "
SLOW = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with how long the body was; /stream waits before it ends, /huge is more than a socket holds."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    if scope["type"] != "http":
        return
    num_bytes, has_more = 0, True
    while has_more:
        message = await receive()
        num_bytes, has_more = num_bytes + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    if scope["path"] == "/stream":
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await asyncio.sleep(1.0)
    body = b"x" * (64 << 20) if scope["path"] == "/huge" else str(num_bytes).encode()
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(patience: Patience, app: Any = echo) -> Iterator[tuple[int, uvicorn.Server]]:
    """A server that listens as Gradio's does, and is then guarded."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    try:
        guard(server, patience, grace_s=1)
        yield server.servers[0].sockets[0].getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def connect() -> Iterator[Callable[..., socket.socket]]:
    """`connect(port, first_bytes)`; from another address of this machine with `source`."""
    with ExitStack() as stack:

        def connect(port: int, data: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20, (source, 0)))
            made.sendall(data)
            return made

        yield connect


def asked(port: int, *, body: bytes = b"", source: str = "127.0.0.1") -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20, source_address=(source, 0))
    connection.request("POST", "/echo", body)
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


def end_of(connection: socket.socket) -> bytes:
    """All that still comes, until the other side closes."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize("sent", [b"", HALF, SLOW])
def test_what_does_not_come_whole_in_time_is_cut(connect: Any, sent: bytes) -> None:
    with serving(QUICK) as (port, _):
        answer = end_of(connect(port, sent))
    assert (
        answer.startswith(b"HTTP/1.1 408 ") and "send it again" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    )


def test_a_header_that_dribbles_is_cut_as_one_that_stops(connect: Any) -> None:
    with serving(QUICK) as (port, _):
        slow, start = connect(port, HALF), time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < start + 20:
                slow.sendall(b"a")
                threading.Event().wait(0.02)


def test_an_answered_connection_asks_again_or_is_cut(connect: Any) -> None:
    with serving(CALM) as (port, server):
        kept = connect(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"
        [connection] = server.server_state.connections
        until(lambda: connection.is_idle)
        kept.sendall(HALF)
        until(lambda: connection._phase == "header")
        at_once(server, connection._come_late)
        assert b"HTTP/1.1 408 " in end_of(kept)


def at_once(server: Any, call: Callable[[], None]) -> None:
    """What a timer of the server would call."""
    server.servers[0].get_loop().call_soon_threadsafe(call)


def test_a_stream_and_a_websocket_are_never_cut(connect: Any) -> None:
    """They have no timer, and make no room."""
    few = replace(CALM, per_address=3, in_all=12)
    with serving(few) as (port, server), open_websocket(f"ws://127.0.0.1:{port}/ws") as websocket:
        stream = connect(port, b"GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert stream.recv(12) == b"HTTP/1.1 200"
        assert [each for each in server.server_state.connections if getattr(each, "_timer", None)] == []
        silent = [connect(port) for _ in range(4)]
        assert [end_of(each) for each in silent[:3]] == [b""] * 3
        assert end_of(stream).endswith(b"\r\n0\r\n\r\n")
        websocket.send("still here")
        assert websocket.recv() == "still here"


def test_who_was_answered_makes_room_after_those_who_never_asked(connect: Any) -> None:
    with serving(replace(CALM, per_address=2, in_all=12)) as (port, _):
        kept = connect(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        whole_answer(kept)
        half = connect(port, HALF)
        assert asked(port) == "0"
        assert end_of(half) == b""
        kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        whole_answer(kept)


def whole_answer(connection: socket.socket) -> None:
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        data += connection.recv(1000)
        assert data.startswith(b"HTTP/1.1 200"[: len(data)]) and data


def test_one_address_takes_no_more_than_its_share_of_few_connections(connect: Any) -> None:
    with serving(Patience(in_all=16)) as (port, server):
        for _ in range(8):
            connect(port, SLOW, "127.0.0.2")
        until(lambda: sum(not each.is_idle for each in server.server_state.connections) == 8)
        assert b"503" in end_of(connect(port, source="127.0.0.2"))
        assert asked(port) == "0"


def test_a_proxy_is_known_by_its_own_address_and_not_by_its_network() -> None:
    """An IPv6 address counts as its network, which nobody named."""
    trusted = ("2001:db8::5", "10.0.0.1")
    askers = [asker_of({"client": (peer, 1)}, trusted) for peer in ("2001:db8::5", "2001:db8::6", "10.0.0.1")]
    assert [asker.is_proxy for asker in askers] == [True, False, True]
    assert [asker.address for asker in askers] == ["2001:db8::/64", "2001:db8::/64", "10.0.0.1"]
    crowd = Crowd(Patience(per_address=1, trusted=trusted))
    coming: list[Any] = [Busy(asker.address, asker.is_proxy) for asker in (askers[0], askers[0], askers[1])]
    assert [crowd.admit(each) for each in coming] == [True, True, False]


@dataclass(eq=False)
class Busy:
    """Stands in for a connection that is answered."""

    address: str
    is_proxy: bool
    is_idle: bool = False
    is_websocket: bool = False
    loop: Any = field(default_factory=lambda: SimpleNamespace(time=lambda: 0.0))


def test_an_answer_that_nobody_reads_is_not_kept(connect: Any) -> None:
    with serving(replace(CALM, unread_s=0.3)) as (port, server):
        connect(port, b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n").recv(12)  # it was begun
        until(lambda: not server.server_state.connections)


def test_half_sent_headers_keep_nobody_out(connect: Any) -> None:
    """Not even one who comes from the same address."""
    with serving(Patience(per_address=8, in_all=16)) as (port, server):
        for number in range(150):
            connect(port, HALF, f"127.0.0.{2 + number % 3}")
            assert len(server.server_state.connections) <= 16 + 4 * ACCEPTED_AT_ONCE
        assert [asked(port, body=b"abc", source=f"127.0.0.{n}") for n in (1, 2, 3, 4)] == ["3"] * 4


def test_whoever_is_answered_makes_no_room(connect: Any) -> None:
    with serving(Patience(per_address=3, in_all=100)) as (port, server):
        busy = [connect(port, SLOW, "127.0.0.2") for _ in range(3)]
        until(lambda: sum(not each.is_idle for each in server.server_state.connections) == 3)
        assert b"503" in end_of(connect(port, source="127.0.0.2"))
        assert asked(port) == "0"
        busy[0].sendall(b"x" * 99_999)
        assert b"HTTP/1.1 200" in busy[0].recv(1000)


def test_forty_users_behind_a_proxy_work_while_one_guesses_passwords(connect: Any, tmp_path: Path) -> None:
    """One connection each: the proxy has no limit of its own, and who guesses is slowed down alone."""
    trusted = ("127.0.0.1",)
    users = {"ann": "secret", **{f"user{n}": "right" for n in range(40)}}
    settings = Settings(users=users, output_dir=tmp_path, data_dir=tmp_path, trusted_proxies=trusted)
    free = threading.Event()

    async def wait(seconds: float) -> None:
        assert await asyncio.to_thread(free.wait, 60)

    app = FastAPI(
        routes=login_routes(settings, throttle=Throttle(wait)),
        middleware=[Middleware(Gate, door=Door(host="127.0.0.1"), trusted=trusted)],
    )
    app.tokens, app.cookie_id = {}, "test"  # type: ignore[attr-defined] # as Gradio's application has them

    def post(port: int, source: str, name: str, password: str) -> Any:
        body = f"username={name}&password={password}".encode()
        head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: 203.0.113.66, {source}\r\n"
        kind = "Content-Type: application/x-www-form-urlencoded\r\n"
        return connect(port, f"{head}{kind}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    with serving(Patience(per_address=4, trusted=trusted), app) as (port, _):
        guesses = [post(port, "198.51.100.7", "ann", "guess") for _ in range(150)]
        asking = [post(port, f"192.0.2.{n}", f"user{n}", "right") for n in range(40)]
        assert [end_of(user)[9:12] for user in asking] == [b"200"] * 40
        free.set()
        statuses = Counter(end_of(guess)[9:12] for guess in guesses)
        assert statuses == {b"400": MAX_TRIES, b"429": 150 - MAX_TRIES}
