"""Requests to an ASGI app exactly as they are written: a client library would tidy `..` and bad headers away."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request whose target is sent as it is: a client library would tidy `..` away."""

    method: str = "GET"
    target: str = "/loom/me"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    num_chunks: int = 1  # the body comes in so many messages of this size, without a length


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


async def ask(app: Any, asked: Asked) -> Answer:
    """One request through the app's whole stack, by its ASGI interface."""
    path, _, query = asked.target.partition("?")
    headers = {"host": "127.0.0.1:7860", **{name.lower(): value for name, value in asked.headers}}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items() if value],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 7860),
    }
    left = asked.num_chunks
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        if left < 0:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": asked.body, "more_body": left > 0}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    names = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Answer(status=sent[0]["status"], headers=names, body=body)


def ask_each(app: Any, requests: Iterable[Asked]) -> list[Answer]:
    """To one request after the other."""

    async def all_of_them() -> list[Answer]:
        return [await ask(app, asked) for asked in requests]

    return asyncio.run(all_of_them())
