"""The HTTP and WebSocket API under /loom: every route of the page, and their description as OpenAPI.

Plain routes, no sub-application: behind a proxy that strips its prefix a mounted one would not be found.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import APIRouter, Request, Response

from ..access.answers import plain
from ..access.gate import PREFIX
from ..bundle import Bundle
from ..errors import NotHere
from ..server import Server
from . import apps, downloads, files, graphs, library, live_socket, page, results, runs
from .described import ERRORS, described
from .requests import LoomRoute

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def make_router(server: Server, bundle: Bundle) -> APIRouter:
    """All routes over one server; its `routes` go into Gradio's app."""
    router = APIRouter(prefix=PREFIX, route_class=LoomRoute, responses=ERRORS)
    for part in (graphs, library, apps, runs, results, files, downloads, live_socket):
        part.add_routes(router, server)
    page.add_routes(router, server, bundle)

    @cache
    def openapi_data() -> dict[str, Any]:
        """Made for who asks: it takes as long as all the routes, and no page needs it."""
        return described(router)

    @router.get("/openapi.json", include_in_schema=False)
    def openapi() -> Response:
        return plain(openapi_data())

    @router.api_route("/{rest:path}", methods=METHODS, include_in_schema=False)
    def unknown(request: Request, rest: str) -> Response:
        raise NotHere(f"there is no {request.method} {PREFIX}/{rest[:100]}; {PREFIX}/openapi.json lists what there is")

    return router
