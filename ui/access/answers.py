"""How routes answer: plain JSON that nobody keeps, each error as one sentence with the status that fits, and files.

Files are sent by id, never run by a browser, in ranges where these are asked for.
"""

import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope
from starlette.types import Send as Sends

from ...nodes.graph.problems import GraphError, short
from ...parallel.errors import LoomError, code_of, kind_of
from ...parallel.wording import with_words, worded
from ..errors import NotHere, error_body

logger = logging.getLogger("latentloom")

MAX_PROBLEMS = 1000
# What goes along with a status: in how many seconds one may ask again, and what a login is.
BESIDE = {429: {"Retry-After": "10"}, 503: {"Retry-After": "5"}, 401: {"WWW-Authenticate": "Bearer"}}
V1 = "/v1"  # below which refusals have OpenAI's form
OPENAI_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# What a browser may show in the page; anything else is a download.
MEDIA_TYPES = {
    **{f".{kind}": f"image/{kind}" for kind in ("png", "jpeg", "webp")},
    **{f".{kind}": f"video/{kind}" for kind in ("mp4", "webm")},
    **{f".{kind}": f"audio/{kind}" for kind in ("flac", "wav", "ogg")},
    **{".jpg": "image/jpeg", ".mp3": "audio/mpeg", ".opus": "audio/ogg", ".m4a": "audio/mp4"},
}
SECURITY = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
HEADERS = {"Content-Security-Policy": SECURITY, "X-Content-Type-Options": "nosniff"}
KEEP = "private, max-age=86400, immutable"


def plain(data: Any, status: int = 200) -> Response:
    """JSON data with the words of its sentences; it changes, so nobody keeps it."""
    headers = {"Cache-Control": "no-store", **BESIDE.get(status, {})}
    return JSONResponse(with_words(data), status_code=status, headers=headers)


def refused(sentence: str, status: int) -> Response:
    """Where no exception stands behind it."""
    return plain(error_body(sentence, status), status)


def error_answer(error: Exception, where: str) -> Response:
    """One sentence with the status that fits. What nobody foresaw is logged and told without its details."""
    if isinstance(error, HTTPException):
        return refused(str(error.detail), error.status_code)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, ClientDisconnect):  # nobody is there to read it
        return refused("the request was cut off; send it again", 400)
    # an answer that is not what the contract says is a fault of ours, though pydantic raises a ValueError for it
    known = LoomError() if isinstance(error, ValidationError) else error
    status, told = kind_of(known).http_status, {"error": str(known), "code": code_of(known)}
    if isinstance(error, GraphError):
        return plain({**told, "problems": [asdict(problem) for problem in error.problems[:MAX_PROBLEMS]]}, status)
    if status != LoomError.http_status:
        return plain(told, status)
    logger.error("%s failed", where, exc_info=error)
    reason = worded("the server failed with {}; its log says where; try again, or report it", type(error).__name__)
    return plain({**told, "error": reason}, status)


def in_form_of(path: str, answer: Response, *, param: str | None = None, code: str = "") -> Response:
    """A refusal as whoever asked for this path reads it: below /v1 in OpenAI's form, with the field that it is
    about."""
    if not path.startswith(f"{V1}/"):
        return answer
    told, status = json.loads(bytes(answer.body)), answer.status_code
    kind = OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    known = code or OPENAI_CODES.get(status, told["code"])
    return plain({"error": {"message": told["error"], "type": kind, "param": param, "code": known}}, status)


def _invalid(error: RequestValidationError) -> Response:
    # a path that names nothing is not there; everything else says what was got and what would be right
    first = error.errors()[0]
    place, *rest = first["loc"]
    if place == "path":
        return refused(worded("there is nothing called {} here", short(first["input"])), 404)
    name = ".".join(map(str, rest)) or "the body"
    got = "it is missing" if first["type"] == "missing" else f"got {short(first['input'])}"
    return refused(worded("{} of the request is wrong ({}): {}; correct it", name, got, first["msg"].lower()), 400)


def send(path: Path, *, name: str, is_download: bool = False) -> Response:
    """A file whose content never changes. Raises `NotHere` when it is gone."""
    if not path.is_file():
        raise NotHere(_gone(name))
    kind = MEDIA_TYPES.get(path.suffix.lower())
    return _KeptFile(
        path,
        media_type=kind or "application/octet-stream",
        filename=name,
        content_disposition_type="attachment" if is_download or kind is None else "inline",
        headers=HEADERS | {"Cache-Control": KEEP},
    )


class _KeptFile(FileResponse):
    """One that may be deleted after it was looked for and before it is sent: its head waits until it was opened."""

    async def __call__(self, scope: Scope, receive: Receive, send: Sends) -> None:
        heads: list[Message] = []

        async def late(message: Message) -> None:
            if message["type"] == "http.response.start":
                heads.append(message)
                return
            while heads:
                await send(heads.pop())
            await send(message)

        try:
            await super().__call__(scope, receive, late)
        except (RuntimeError, FileNotFoundError):
            if Path(self.path).exists():
                raise
            await refused(_gone(self.filename or ""), 404)(scope, receive, send)


def _gone(name: str) -> str:
    return worded("the file {!r} is not on the server's disk any more; run its workflow again", name[:100])


def picture(data: bytes, media_type: str, *, keep: str = "no-store") -> Response:
    """A small picture that the server made."""
    return Response(data, media_type=media_type, headers=HEADERS | {"Cache-Control": keep})
