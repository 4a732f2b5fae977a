"""In a process of its own, for Gradio leaves much behind: serves the page with a login and asks for each of its routes.

It prints the statuses as JSON: of every route for a stranger, of some for Ann. And how long Gradio pauses before it
looks again for calls.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from support.ports import free_port

ASKED_BY_ANN = (
    "config",
    "gradio_api/info",
    "loom/me",
    "openapi.json",
    "logout",
    "gradio_api/proxy=%00",
    "gradio_api/proxy=http://[",
    "gradio_api/proxy=http://127.0.0.1/",
    "gradio_api/file=%00",
    "gradio_api/file=a%00.png",
    "gradio_api/token",
)

TOKEN = "a-token-of-a-program"


def walk(folder: Path) -> dict[str, Any]:
    from latentloom.ui.access.tokens import Tokens
    from latentloom.ui.bundle import read_bundle
    from latentloom.ui.options import prepare_gradio
    from latentloom.ui.server import Server
    from latentloom.ui.settings import Settings

    port = free_port()
    parts: Any = {"users": {"ann": "secret"}, "tokens": Tokens(None, TOKEN), "port": port}
    settings = Settings(output_dir=folder / "out", data_dir=folder / "data", **parts)
    prepare_gradio(settings)
    from latentloom.ui.app import launch

    with closing(Server(settings)) as server, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        page = launch(server, read_bundle())
        asked = [(method, route.path) for route in _flat(page.app.routes) for method in _methods(route)]
        stranger = {
            f"{method} {path}": client.request(method, re.sub(r"\{[^}]*\}", "0", path)).status_code
            for method, path in asked
        }
        late = client.get("/gradio_api/startup-events").status_code
        health = client.get("/health").text
        tokens = {t: client.get("/loom/me", headers={"Authorization": f"Bearer {t}"}) for t in (TOKEN, "wrong")}
        named = [(answer.status_code, answer.json().get("user")) for answer in tokens.values()]
        login = client.post("/login", data={"username": "ann", "password": "secret"}).status_code
        ann = {path: client.get(f"/{path}") for path in ASKED_BY_ANN}
        told = {path: answer.status_code for path, answer in ann.items()}
        pause = min(page._queue.sleep_when_free, page._queue.progress_update_sleep_when_free)
        page.close(verbose=False)
    token = ann["gradio_api/token"].json()["token"]
    answered = {
        "stranger": stranger,
        "late": late,
        "health": health,
        "login": login,
        "named": named,
        "ann": told,
        "token": token,
    }
    return {**answered, "pause": pause}


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Newer FastAPI keeps the routes of a router that was included in that router."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from _flat(inner.routes) if inner is not None else [route]


def _methods(route: Any) -> set[str]:
    """Of a WebSocket or a mounted app, what a plain request would use."""
    return getattr(route, "methods", None) or {"GET"}


def tell(folder: Path) -> None:
    print(json.dumps(walk(folder)), flush=True)
