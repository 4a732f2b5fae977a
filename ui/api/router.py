"""The HTTP and WebSocket API under /loom: every route of the page, and their description as OpenAPI.

Plain routes, no sub-application: behind a proxy that strips its prefix a mounted one would not be found.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.openapi.utils import get_openapi

from ... import __version__
from ..access.answers import plain
from ..access.gate import PREFIX
from ..bundle import Bundle
from ..errors import NotHere
from ..server import Server
from . import files, graphs, library, live_socket, page, runs
from .requests import LoomRoute
from .shapes import ERRORS

SUMMARY = "Build, run and keep workflows. The page itself uses this API, and nothing else."
DESCRIPTION = """
Workflows are files as `latentloom run` takes them. Runs belong to the server: they go on when nobody looks.

A request that changes something needs the page's own `Origin`, or none, as tools send it; where the server has a login,
every request needs the cookie of `POST /login`.

The WebSocket `/loom/live` tells what changed for its user, at most twelve times a second, and everything at first:
`{seq, full, t, server, runs: {id: run}, removed: [id], queue, library, results, devices}`. A run there holds only those
of its nodes that changed; `library` and `results` count changes; `server` is another one after a restart.
"""
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def make_router(server: Server, bundle: Bundle) -> APIRouter:
    """All routes over one server; its `routes` go into Gradio's app."""
    router = APIRouter(prefix=PREFIX, route_class=LoomRoute, responses=ERRORS)
    for part in (graphs, library, runs, files, live_socket):
        part.add_routes(router, server)
    page.add_routes(router, server, bundle)
    described = get_openapi(
        title="latentloom", version=__version__, summary=SUMMARY, description=DESCRIPTION, routes=router.routes
    )

    @router.get("/openapi.json", include_in_schema=False)
    def openapi() -> Response:
        return plain(described)

    @router.api_route("/{rest:path}", methods=METHODS, include_in_schema=False)
    def unknown(request: Request, rest: str) -> Response:
        raise NotHere(f"there is no {request.method} {PREFIX}/{rest[:100]}; {PREFIX}/openapi.json lists what there is")

    return router
