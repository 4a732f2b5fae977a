"""The HTTP and WebSocket API under /loom: every route of the page, and their description as OpenAPI.

Plain routes, no sub-application: behind a proxy that strips its prefix a mounted one would not be found.
"""

from functools import cache
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.openapi.utils import get_openapi

from ... import __version__
from ..access.answers import plain
from ..access.gate import PREFIX
from ..bundle import Bundle
from ..contract.schema import definitions
from ..errors import NotHere
from ..server import Server
from . import apps, files, graphs, library, live_socket, page, runs
from .requests import ERRORS, LoomRoute

SUMMARY = "Build, run and keep workflows. The page itself uses this API, and nothing else."
DESCRIPTION = """
Workflows are files as `latentloom run` takes them. Runs belong to the server: they go on when nobody looks.

A request that changes something needs the page's own `Origin`, or none, as tools send it; where the server has a login,
every request needs the cookie of `POST /login`.

The WebSocket `/loom/live` tells what changed for its user, at most twelve times a second, and everything at first: each
message is a `LiveMessage`. A run there holds only those of its nodes that changed.
"""
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def make_router(server: Server, bundle: Bundle) -> APIRouter:
    """All routes over one server; its `routes` go into Gradio's app."""
    router = APIRouter(prefix=PREFIX, route_class=LoomRoute, responses=ERRORS)
    for part in (graphs, library, apps, runs, files, live_socket):
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


def described(router: APIRouter) -> dict[str, Any]:
    """OpenAPI of all routes, with the messages of the WebSocket, for which it has no place."""
    found = get_openapi(
        title="latentloom", version=__version__, summary=SUMMARY, description=DESCRIPTION, routes=router.routes
    )
    found["components"]["schemas"] |= definitions("#/components/schemas/{model}")
    return found
