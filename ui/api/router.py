"""The HTTP and WebSocket API under /loom and /v1: every route of the page, and their description as OpenAPI.

Plain routes, no sub-application: behind a proxy that strips its prefix a mounted one would not be found.
"""

import json
from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from ... import __version__
from ..access.answers import V1
from ..access.gate import PREFIX
from ..bundle import Bundle
from ..contract.schema import definitions
from ..errors import NotHere
from ..server import Server
from . import apps, files, graphs, library, live_socket, page, runs
from .openai import images, videos
from .openai.route import ERRORS as V1_ERRORS
from .openai.route import OpenAIRoute
from .requests import ERRORS, LoomRoute

SUMMARY = "Build, run and keep workflows. The page itself uses this API, and nothing else."
DESCRIPTION = """
Workflows are files as `latentloom run` takes them. Runs belong to the server: they go on when nobody looks.

A request that changes something needs the page's own `Origin`, or none, as tools send it; where the server has a login,
every request needs the cookie of `POST /login`, or a bearer token.

The WebSocket `/loom/live` tells what changed for its user, at most twelve times a second, and everything at first: each
message is a `LiveMessage`. A run there holds only those of its nodes that changed.
"""
SAID = {"type": "object", "description": "The text id and values of each sentence here, for who shows it translated."}
SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token of `latentloom token`."},
    "session": {"type": "apiKey", "in": "cookie", "name": "access-token", "description": "What `POST /login` sets."},
}
NAME = attrgetter("name")  # the id of a route, in what describes the API
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def make_router(server: Server, bundle: Bundle | None, beside: Sequence[BaseRoute] = ()) -> APIRouter:
    """All routes over one server, for an app; without a bundle there are no files of the page. Those `beside` them are
    described with them."""
    router = APIRouter(prefix=PREFIX, route_class=LoomRoute, responses=ERRORS, generate_unique_id_function=NAME)
    for part in (graphs, library, apps, runs, files, live_socket):
        router.tags = [part.__name__.rpartition(".")[2]]  # of the routes that are added from here on
        part.add_routes(router, server)
    router.tags = ["page"]
    page.add_routes(router, server, bundle)
    v1 = APIRouter(prefix=V1, route_class=OpenAIRoute, responses=V1_ERRORS, generate_unique_id_function=NAME)
    v1.tags = ["openai"]
    images.add_routes(v1, server)
    videos.add_routes(v1, server)
    router.routes.extend(_closed(v1).routes)

    @router.get("/openapi.json", include_in_schema=False)
    @cache
    def openapi() -> dict[str, Any]:
        """Made for who asks: it takes as long as all the routes, and no page needs it."""
        return described([*router.routes, *beside])

    return _closed(router)


def _closed(router: APIRouter) -> APIRouter:
    """With a last route for all that it has none for."""

    @router.api_route("/{rest:path}", methods=METHODS, include_in_schema=False)
    def unknown(request: Request, rest: str) -> Response:
        asked = f"{request.method} {router.prefix}/{rest[:100]}"
        raise NotHere(f"there is no {asked}; {PREFIX}/openapi.json lists what there is")

    return router


def described(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """OpenAPI of all routes, with who may ask, and the messages of the WebSocket, for which it has no place."""
    found = get_openapi(
        title="latentloom", version=__version__, summary=SUMMARY, description=DESCRIPTION, routes=routes
    )
    schemas = found["components"]["schemas"]
    schemas |= definitions("#/components/schemas/{model}")
    taken = json.dumps([way.get("requestBody") for ways in found["paths"].values() for way in ways.values()])
    for name, schema in schemas.items():
        if "properties" in schema and f'/{name}"' not in taken:  # wherever an answer has sentences
            schema["properties"].setdefault("said", SAID)
    found["components"]["securitySchemes"] = SECURITY
    found["security"] = [{name: []} for name in SECURITY] + [{}]  # none where the server has no login
    return found
