"""The WebSocket on which a page watches its user's runs: what changed, at most twelve times a second, newest only."""

import asyncio
import json
import logging
from collections import Counter

from anyio import create_task_group
from fastapi import APIRouter, WebSocket
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketDisconnect

from ...parallel.wording import with_words, worded
from ..access.answers import error_answer
from ..access.auth import user_of
from ..errors import NotLoggedIn, OutOfScope, TooMany
from ..live.live import Live, PageSeen
from ..server import Server
from ..views.devices import DeviceWatch

logger = logging.getLogger("latentloom")

GAP_S = 1 / 12
LOOK_S = 15.0  # how often a socket with nothing to tell looks whether its user is still logged in
MAX_SOCKETS = 64  # how many sockets a user may have open: one for each page
MAX_MESSAGE = 1024  # characters that a page may send at once: it has nothing to say but pings
POLICY, TOO_BIG, FAILED = 1008, 1009, 1011


def add_routes(router: APIRouter, server: Server) -> None:
    open_sockets: Counter[str] = Counter()
    devices = DeviceWatch(server.live)

    @router.websocket("/live")
    async def live(socket: WebSocket) -> None:
        try:
            if open_sockets[user := user_of(socket)] >= MAX_SOCKETS:
                raise TooMany(worded("{} pages of yours watch already; close one of them", MAX_SOCKETS))
        except (NotLoggedIn, OutOfScope, TooMany) as error:
            await socket.send_denial_response(error_answer(error, "GET /live"))
            return
        open_sockets[user] += 1
        try:
            with devices.for_page():
                await _serve(socket, server.live, user)
        finally:
            open_sockets[user] -= 1


async def _serve(socket: WebSocket, live: Live, user: str) -> None:
    await socket.accept()
    # until either side ends: a page whose socket tells nothing any more must know, so that it opens another
    try:
        async with create_task_group() as tasks:
            tasks.start_soon(_tell, socket, live, user)
            await _listen(socket)
            tasks.cancel_scope.cancel()
    except* (WebSocketDisconnect, RuntimeError):  # the page went away
        pass
    except* Exception as failed:
        logger.error("a page is told nothing any more, and has to connect again", exc_info=failed)
        await socket.close(FAILED, "the server failed; its log says where")


async def _tell(socket: WebSocket, live: Live, user: str) -> None:
    # a page that reads slowly is told less often, and then the newest state: nothing queues up
    seen = PageSeen()
    with live.watching(user) as watcher:
        while True:
            if not is_still(socket, user):
                await socket.close(POLICY, "you are not logged in any more; log in again")
                return
            if (message := live.changes(user, seen)) is not None:
                await socket.send_text(json.dumps(with_words(message.to_plain())))
                await asyncio.sleep(GAP_S)
            await watcher.changed(LOOK_S)


async def _listen(socket: WebSocket) -> None:
    # until the page goes away: it has nothing to say, but who does not listen does not hear that it went
    while (message := await socket.receive())["type"] == "websocket.receive":
        if len(message.get("text") or message.get("bytes") or "") > MAX_MESSAGE:
            await socket.close(TOO_BIG, "this socket only tells; send requests over HTTP")
            return


def is_still(connection: HTTPConnection, user: str) -> bool:
    """Whether the user behind it is still logged in."""
    try:
        return user_of(connection) == user
    except (NotLoggedIn, OutOfScope):
        return False
