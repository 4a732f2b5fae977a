"""The service as an ASGI app: the page's routes behind the same gate, what a cluster asks a service for, and a log of
all that was asked."""

import functools
import hashlib
import logging
import re
import secrets
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.middleware import Middleware
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..access.answers import error_answer
from ..access.gate import Gate
from ..access.login import USER, Guard, login_routes
from ..api.requests import ERRORS, LoomRoute
from ..api.router import make_router
from ..errors import NotHere
from ..server import Server
from .health import Health

if TYPE_CHECKING:
    from .metrics import Metrics

logger = logging.getLogger("latentloom.access")
ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
HEADER = "X-Request-Id"
MISSING = "metrics need prometheus-client, which is not installed; run: pip install 'latentloom[serve]'"
QUIET = ("/livez", "/readyz", "/metrics")  # asked all day long by machines: told only where they fail


class Service(FastAPI):
    """What `user_of` looks for in an app, which is Gradio's where there is a page."""

    auth: Any  # None where nobody logs in
    tokens: dict[str, str]  # the user of each session
    cookie_id: str


def make_app(server: Server, health: Health) -> Service:
    settings = server.settings
    beside = [*health.routes().routes, *_metrics_routes(server, health).routes]
    router = make_router(server, None, beside=beside)
    app = Service(
        routes=[*router.routes, *beside, *login_routes(settings)],
        middleware=[  # the first one is outermost
            Middleware(AccessLog),
            Middleware(Guard),
            Middleware(Gate, door=settings.door, trusted=settings.trusted_proxies),
        ],
        exception_handlers={404: _told, 405: _told, Exception: _told},
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # it is at /loom/openapi.json
        root_path=urlsplit(settings.root_path).path,
    )
    app.auth = settings.users if settings.has_auth else None
    app.tokens = {}
    app.cookie_id = hashlib.sha256(str(settings.data_dir).encode()).hexdigest()[:12]
    app.state.tokens = settings.tokens
    return app


def metrics_of(server: Server, health: Health) -> "Metrics":
    """Raises `ValueError` where prometheus-client is not installed."""
    try:
        from .metrics import Metrics
    except ModuleNotFoundError:
        raise ValueError(MISSING) from None
    return Metrics(server, health)


def _metrics_routes(server: Server, health: Health) -> APIRouter:
    """`/metrics`, for who may read."""
    router = APIRouter(tags=["service"], route_class=LoomRoute, responses=ERRORS)
    collector = functools.cache(metrics_of)

    @router.get("/metrics", operation_id="read_metrics", responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> Response:
        """What happens here, for Prometheus. Refused where prometheus-client is not installed."""
        try:
            text = collector(server, health).text()
        except ValueError as error:
            raise NotHere(str(error)) from None
        return Response(text, media_type="text/plain; version=0.0.4")

    return router


async def _told(request: Request, error: Exception) -> Response:
    return error_answer(error, f"{request.method} {request.url.path}")


class AccessLog:
    """A middleware around all others: a line for each request that was answered, by whom, how, and how long it took.

    A request has an id: what its sender gave as `X-Request-Id`, or a new one, which the answer has, too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        id, began, status = given if ID.fullmatch(given) else secrets.token_hex(8), time.monotonic(), 0

        async def heard(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = id
            await send(message)

        try:
            await self.app(scope, receive, heard)
        finally:
            path = scope["path"][:200].encode("unicode_escape").decode()  # no line of a stranger's own
            level = logging.DEBUG if path in QUIET and status == 200 else logging.INFO
            taken_ms = round(1000 * (time.monotonic() - began))
            told = scope["method"], path, status, taken_ms, scope.get(USER, "-"), id
            logger.log(level, "%s %s %d %d ms user=%s id=%s", *told)
