"""Following runs over HTTP without polling: a wait for their ends, and a stream of server-sent events of one.

Both end by themselves, after a time at the latest, and when whoever asks goes away, or is logged in no more.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from ...nodes.execution.manifest import outputs_told_by
from ..access.auth import user_of
from ..errors import NotHere
from ..server import Server
from .live_socket import is_still

MOST_WAIT_S = 60.0
STREAM_S = 3600.0  # then the reader comes again, and says what it has seen
BEAT_S = 15.0  # how often something is sent where nothing happens, and is looked whether somebody reads
GAP_S = 1 / 12
LAST = "result"  # the id of a stream's last event
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # which a proxy passes on piece by piece


async def until_over(
    server: Server, request: Request, *, user: str, ids: Collection[str], timeout_s: float, is_only_his: bool = False
) -> bool:
    """Whether all of them are over in time, and before who sent the request is gone, or, where nobody else wants them,
    before a server that drains leaves one waiting. Raises `NotHere`, and what `user_of` does once his login or token
    has ended."""
    book, end = server.runs.book, time.monotonic() + timeout_s
    with server.live.watching(user) as watcher:
        while user_of(request) and not all(book.get(user, id).is_over for id in ids):
            left_s = end - time.monotonic()
            is_left = is_only_his and server.runs.is_draining
            if is_left and any(book.get(user, id).state == "waiting" for id in ids):
                return False
            if left_s <= 0 or await request.is_disconnected():
                return False
            await watcher.changed(min(left_s, BEAT_S))
            await asyncio.sleep(min(left_s, GAP_S))
    return True


def events(server: Server, request: Request, *, user: str, id: str) -> Response:
    """The run's lines as they come, behind the one that `Last-Event-ID` names. Raises `NotHere`."""
    server.runs.book.get(user, id)
    start, _, number = request.headers.get("last-event-id", "").partition("-")
    if start == LAST:  # to which a browser's EventSource comes back no more
        return Response(status_code=204)
    is_known = start == server.live.server and number.isascii() and number.isdigit()
    told = _told(server, request, user=user, id=id, seen=int(number[:18]) if is_known else 0)
    return StreamingResponse(told, media_type="text/event-stream", headers=HEADERS)


async def _told(server: Server, request: Request, *, user: str, id: str, seen: int) -> AsyncIterator[str]:
    book, end = server.runs.book, time.monotonic() + STREAM_S
    with suppress(NotHere), server.live.watching(user) as watcher:
        yield "retry: 1000\n\n"
        while time.monotonic() < end and is_still(request, user):
            run = book.get(user, id)  # before its lines: of one that is over none is missing
            for seen, line in book.lines.after(id, seen):  # noqa: B020
                yield _event(f"{server.live.server}-{seen}", line)
            if run.is_over:
                outputs = await run_in_threadpool(outputs_told_by, server.settings.output_dir / run.folder)
                yield _event(LAST, book.lines.result(run, outputs))
                return
            if await watcher.changed(BEAT_S):
                await asyncio.sleep(GAP_S)
            else:
                yield ": it goes on\n\n"


def _event(id: str, line: dict[str, Any]) -> str:
    return f"id: {id}\ndata: {json.dumps(line)}\n\n"
