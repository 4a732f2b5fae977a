"""The gate in front of every route, Gradio's included: foreign hosts and origins, and bodies that are too large.

A plain ASGI middleware, so that a request is refused before anything reads its body.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...parallel.errors import LoomError
from ...parallel.wording import worded
from .address import Door, asker_of, forwarded, is_trusted
from .answers import in_form_of, refused

logger = logging.getLogger("latentloom")

PREFIX = "/loom"
MIB = 1 << 20
JSON_BYTES = 8 * MIB
UPLOAD_BYTES = 64 * MIB

BODY_LIMITS = (
    (re.compile(r"/loom/open"), 512 * MIB),  # a video may carry a workflow, too
    (re.compile(r"/loom/uploads"), UPLOAD_BYTES),
    (re.compile(r"/loom/workflows/[^/]+/thumb"), 1 * MIB),
    (re.compile(r"/v1/(images/edits|videos)"), UPLOAD_BYTES),
    (re.compile(r"/login/?"), 16 << 10),  # anybody may send one, and hold a connection as long as it may take to come
    (re.compile(r"(?!/loom/).*", re.DOTALL), 1 * MIB),  # Gradio's
)
CALL = re.compile(r"(/gradio_api)?/run/predict/?")  # by which the page tells Gradio that another tab is shown
PROGRAMS = f"programs run workflows by POST {PREFIX}/workflows/NAME/runs"
# Gradio's own way to send files, which nothing counts, to fetch from elsewhere, and to call: no view of ours uses them.
UNUSED = (
    (re.compile(r"(/gradio_api)?/((call|api)/.*|run/(?!predict/?$).*|queue/join/?)", re.DOTALL), PROGRAMS),
    (re.compile(r"(/gradio_api)?/upload/?"), f"send pictures to {PREFIX}/uploads"),
    (re.compile(r"(/gradio_api)?/proxy=.*", re.DOTALL), "this server fetches nothing from others"),
)
PROBES = ("/health", "/livez", "/readyz")  # which say so little that who asks under any name is answered
MAX_ASKING = 512  # requests of one address that are being answered, streams and websockets included
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
BODY_WAIT_S = 60.0  # how long the next piece of a body may take
DEFAULT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}

CROWDED = HTTPException(429, f"{MAX_ASKING} requests of your address are being answered; wait for one of them")
UNREADABLE = HTTPException(400, "the request cannot be read; send what the page sends")
STALLED = HTTPException(408, f"the rest of the request stopped coming for {BODY_WAIT_S:.0f} seconds; send it again")


class Gate:
    """Wraps the whole app."""

    def __init__(self, app: ASGIApp, door: Door, trusted: Sequence[str] = ()) -> None:
        self.app = app
        self.door = door
        self.trusted = trusted
        self._asking: Counter[str] = Counter()
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        limit = body_limit(own_path(scope))
        # from what is cheapest to ask on: nothing of a request that is refused is read, or counted
        if (refusal := self._refusal(scope, limit)) is not None:
            await _refuse(scope, receive, send, refusal)
            return
        self._warn_of_proxy(scope)
        asker = asker_of(scope, self.trusted)
        if self._asking[address := asker.address] >= MAX_ASKING and not asker.is_proxy:
            await _refuse(scope, receive, send, CROWDED)
            return
        self._asking[address] += 1
        try:
            await self._let_in(scope, receive, send, limit)
        finally:
            self._asking[address] -= 1
            if not self._asking[address]:
                del self._asking[address]

    def _warn_of_proxy(self, scope: Scope) -> None:
        # once: behind a proxy that is not named, all users count as one
        peer = str((scope.get("client") or ("",))[0])
        if self._has_warned or not forwarded(scope) or is_trusted(peer, self.trusted):
            return
        self._has_warned = True
        logger.warning(
            "a request from %s says in X-Forwarded-For that it is sent on for somebody else, which is not believed; if "
            "that is your proxy, name it with --trusted-proxy %s, or all who come through it count as one",
            peer[:50],
            peer[:50],
        )

    async def _let_in(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        if scope["type"] == "websocket":
            await self.app(scope, receive, send)
            return
        counted = _Counted(scope, receive, send, limit)
        try:
            await self.app(scope, counted.receive, counted.send)
        except CutOff:
            await counted.finish()
        except ClientDisconnect:  # nobody is there to read an answer
            pass
        except (ValueError, RecursionError) as error:  # ours answer themselves; Gradio's parse what strangers send
            logger.warning("%s %s cannot be answered: %s", scope["method"], scope["path"][:100], str(error)[:200])
            await counted.finish(UNREADABLE)

    def _refusal(self, scope: Scope, limit: int) -> HTTPException | None:
        if CONTROL.search(scope["path"]):
            return HTTPException(400, "the address holds a control character, such as %00; leave it out")
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.door.takes_host(host) and own_path(scope) not in PROBES:
            name = self.door.public_netloc or "localhost"
            remedy = f"open it as {name}, or start it with --root-path URL, or with --allow-host NAME"
            return HTTPException(403, f"this server is not called {host[:100]!r}; {remedy}")
        # reading, too: Gradio answers any origin, and one of its routes tells the cookie that is the login
        if origin is not None and not self.door.takes_origin(origin, host=host):
            sentence = f"the request comes from a page of {origin[:100]!r}; only this server's own page may send it"
            return HTTPException(403, sentence)
        if (reason := next((why for path, why in UNUSED if path.fullmatch(own_path(scope))), "")) != "":
            return HTTPException(404, worded("{!r} is not served here; {}", scope["path"][:50], reason))
        length = headers.get("content-length", "0")
        # Python's int() takes other digits, signs and underscores, which the server behind would read otherwise
        if not (length.isascii() and length.isdigit()) or len(length) > 18:
            return HTTPException(400, f"Content-Length is {length[:40]!r}; give the number of bytes")
        return too_large(limit) if int(length) > limit else None


def own_path(scope: Scope) -> str:
    """Without the prefix of a proxy in front."""
    return scope["path"].removeprefix(scope.get("root_path", ""))


def body_limit(path: str) -> int:
    return next((limit for pattern, limit in BODY_LIMITS if pattern.fullmatch(path)), JSON_BYTES)


def too_large(limit: int) -> HTTPException:
    most = f"{limit // MIB} MiB" if limit >= MIB else f"{limit >> 10} KiB"
    return HTTPException(413, worded("the request is larger than {}, the limit here; send something smaller", most))


class CutOff(LoomError, HTTPException):
    """The rest of a body is not waited for. An HTTPException, so that no app on the way takes it for a fault."""

    code, http_status = "cut-off", 408


class _Counted:
    """The two ends of a request, with its body counted as it arrives (it may come without a length)."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self._num_bytes = 0
        self._is_whole = False
        self._refusal: HTTPException | None = None
        self._has_begun = False

    async def receive(self) -> Message:
        if self._is_whole:  # only its end is left to be told, which may take for ever
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), BODY_WAIT_S)
        except TimeoutError:
            self._refusal = STALLED
            raise CutOff(STALLED.status_code) from None
        self._is_whole = not message.get("more_body", False)
        self._num_bytes += len(message.get("body", b""))
        if self._num_bytes > self._limit:
            self._refusal = too_large(self._limit)
            raise CutOff(self._refusal.status_code)
        return message

    async def send(self, message: Message) -> None:
        # whatever the app makes of a body that was cut off, the answer is why it was
        if self._refusal is not None:
            await self.finish()
            return
        if message["type"] == "http.response.start":
            self._has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in DEFAULT_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def finish(self, refusal: HTTPException | None = None) -> None:
        """Say why the request is refused, where nothing was answered yet."""
        self._refusal = refusal or self._refusal
        if not self._has_begun and self._refusal is not None:
            self._has_begun = True
            await _refuse(self._scope, self._receive, self._send, self._refusal)


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: HTTPException) -> None:
    if scope["type"] == "websocket":  # before it is accepted: the server answers the handshake with 403
        await send({"type": "websocket.close", "code": 1008, "reason": refusal.detail[:120]})
        return
    answer = in_form_of(own_path(scope), refused(refusal.detail, refusal.status_code))
    answer.headers.update(DEFAULT_HEADERS)
    await answer(scope, receive, send)
