"""Logging in and out, and what is open without: these routes stand before Gradio's own of the same names."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ...parallel.machine.folders import write_bytes
from ..errors import NotLoggedIn, OutOfScope
from .address import asker_of
from .answers import error_answer, in_form_of, plain, refused
from .auth import COOKIES, is_password, user_of
from .gate import PREFIX, own_path
from .throttle import MAX_WAIT_S, Throttle

if TYPE_CHECKING:
    from ..settings import Settings

KEY_FILE = "login.key"
KEY_BYTES = 32
KNOWN_S = 90 * 24 * 3600  # how long a browser is known after it logged in
MAX_FIELD = 4096
MAX_SESSIONS = 1000  # how many sessions a user may have; the oldest ends where another begins
# What is read without a login: the login page with the files that it loads, and whether the server is up.
OPEN = re.compile(r"/|/health|/livez|/readyz|/favicon\.ico|/manifest\.json|/theme\.css|/(assets|static)/.+")
USER = "latentloom.user"  # the key of the name behind a request in its scope, for who logs requests
LOGIN = re.compile(r"/login/?")
STARTED = "/gradio_api/startup-events"  # what `launch` asks for, before anybody else can


class Guard:
    """A middleware in front of every route, Gradio's included: without login or token there is the login page only."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self.app
        if scope["type"] in ("http", "websocket") and not _is_open(scope):
            try:
                scope[USER] = user_of(HTTPConnection(scope))
            except (NotLoggedIn, OutOfScope) as error:
                app = in_form_of(own_path(scope), error_answer(error, "the login"))
        await app(scope, receive, send)


def _is_open(scope: Scope) -> bool:
    path, method = own_path(scope), scope.get("method")  # a websocket has none
    if method not in ("GET", "HEAD"):
        return method == "POST" and LOGIN.fullmatch(path) is not None
    if path == STARTED:
        return not getattr(scope["app"], "startup_events_triggered", True)
    return OPEN.fullmatch(path) is not None


class Browsers:
    """Which browsers have logged in as a user: each carries a signed cookie for that, also after the session's end."""

    def __init__(self, users: Mapping[str, str], key: bytes, now: Callable[[], float] = time.time) -> None:
        self._users = users
        self._key = key
        self._now = now

    def cookie(self, name: str, browser: str = "") -> tuple[str, str]:
        """Name and value of the one that a browser gets, which keeps the id that it had."""
        browser, since = browser or secrets.token_hex(8), str(int(self._now()))
        return _cookie_name(name), f"{browser}.{since}.{self._signature(name, browser, since)}"

    def known(self, name: str, cookies: Mapping[str, str]) -> str:
        """The browser's id; empty where it is a stranger to this user, or was one since the password changed."""
        browser, _, rest = cookies.get(_cookie_name(name), "").partition(".")
        since, _, signature = rest.partition(".")
        if name not in self._users or not (since.isascii() and since.isdigit() and len(since) < 12):
            return ""
        is_signed = hmac.compare_digest(signature.encode(), self._signature(name, browser, since).encode())
        return browser if is_signed and 0 <= self._now() - int(since) < KNOWN_S else ""

    def _signature(self, name: str, browser: str, since: str) -> str:
        signed = json.dumps([name, self._users[name], browser, since]).encode()
        return hmac.digest(self._key, signed, "sha256").hex()


def _cookie_name(name: str) -> str:
    return f"latentloom-browser-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def read_key(data_dir: Path) -> bytes:
    """What this data folder signs with; made once, for its owner's eyes only."""
    path = data_dir / KEY_FILE
    try:
        if path.is_file() and len(key := path.read_bytes()) == KEY_BYTES:
            return key
        write_bytes(path, key := secrets.token_bytes(KEY_BYTES))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"{path} cannot be used ({reason}); choose another folder with --data-dir") from None
    return key


def login_routes(settings: Settings, *, throttle: Throttle | None = None) -> list[BaseRoute]:
    """Beside /loom, under the paths that Gradio's page uses."""
    router = APIRouter(include_in_schema=False)
    users = dict(settings.users)
    throttle = throttle or Throttle()
    browsers = Browsers(users, read_key(settings.data_dir) if users else b"")
    is_secure = urlsplit(settings.root_path).scheme == "https"

    @router.post("/login")
    @router.post("/login/")
    async def log_in(request: Request) -> Response:
        """A form of `username` and `password`; the answer's cookies are the login."""
        try:
            name, password = await _form(request)
            browser = browsers.known(name, request.cookies)
            is_right = await throttle.tried(
                lambda: run_in_threadpool(_is_right, users, name, password),  # a hash takes its time
                name=name,
                address=asker_of(request.scope, settings.trusted_proxies).address,
                browser=browser,
            )
            if not is_right:
                raise HTTPException(400, "name and password do not belong together; correct one of them")
        except HTTPException as told:
            is_late, is_browser = told.status_code == 429, "sec-fetch-mode" in request.headers
            # Gradio's page reacts to 400 and to no other refusal, so a browser gets that also where it has to wait
            answer = refused(told.detail, 400 if is_late and is_browser else told.status_code)
            if is_late:
                answer.headers["Retry-After"] = str(round(MAX_WAIT_S))
            return answer
        answer = plain({"success": True})
        secure = is_secure or request.url.scheme == "https"
        session = _begin_session(request.app, name)
        # of Gradio's two names for it the one that no route of Gradio's reads out to scripts
        cookie = COOKIES[1].format(request.app.cookie_id)
        answer.set_cookie(cookie, session, httponly=True, samesite="lax", secure=secure)
        key, value = browsers.cookie(name, browser)
        answer.set_cookie(key, value, max_age=KNOWN_S, httponly=True, samesite="strict", secure=secure)
        return answer

    # Gradio's ends all sessions of the user, and any page may send a browser there
    @router.api_route("/logout", methods=["GET", "HEAD"])
    def no_logout() -> Response:
        return refused(f"a link logs nobody out; use the page's menu, or send POST {PREFIX}/logout", 405)

    @router.api_route("/health", methods=["GET", "HEAD"])
    def health() -> Response:
        return Response(headers={"Cache-Control": "no-store"})

    return list(router.routes)


async def _form(request: Request) -> tuple[str, str]:
    async with request.form(max_files=0, max_fields=8, max_part_size=MAX_FIELD) as form:
        name, password = form.get("username"), form.get("password")
    if not isinstance(name, str) or not isinstance(password, str) or max(len(name), len(password)) > MAX_FIELD:
        raise HTTPException(422, "this is no login; send a form with username and password")
    return name.strip(), password


def _is_right(users: Mapping[str, str], name: str, password: str) -> bool:
    # in the same time for a name that there is not: how long it takes tells nobody which names there are
    known = users.get(name)
    return is_password(known or next(iter(users.values()), ""), password) and known is not None


def _begin_session(app: Any, name: str) -> str:
    own = [token for token, user in app.tokens.items() if user == name]
    for token in own[: max(0, len(own) + 1 - MAX_SESSIONS)]:
        del app.tokens[token]
    app.tokens[session := secrets.token_urlsafe(32)] = name
    return session
