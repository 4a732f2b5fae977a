"""How OpenAPI describes what FastAPI cannot read from a handler: errors, bodies that are files, and the WebSocket's."""

from __future__ import annotations

from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRouter

from ... import __version__
from ..contract.schema import definitions
from ..contract.shown import ErrorAnswer

SUMMARY = "Build, run and keep workflows. The page itself uses this API, and nothing else."
DESCRIPTION = """
Workflows are files as `latentloom run` takes them. Runs belong to the server: they go on when nobody looks.

A request that changes something needs the page's own `Origin`, or none, as tools send it; where the server has a login,
every request needs the cookie of `POST /login`.

The WebSocket `/loom/live` tells what changed for its user, at most twelve times a second, and everything at first: each
message is a `LiveMessage`. A run there holds only those of its nodes that changed.
"""

Responses = dict[int | str, dict[str, Any]]
ERRORS: Responses = {
    status: {"model": ErrorAnswer, "description": description}
    for status, description in (
        (400, "The request is wrong; the sentence says how."),
        (401, "Nobody is logged in."),
        (403, "The request comes from a foreign page, or for a foreign host."),
        (404, "There is no such thing, or it is another user's."),
        (408, "The rest of the body stopped coming."),
        (413, "The body is too large."),
        (415, "The body is not marked as JSON."),
        (429, "Too much at a time from one address."),
        (507, "As much is kept as may be; the sentence says what to delete."),
    )
}
CONFLICT: Responses = {409: {"model": ErrorAnswer, "description": "The thing is not as the caller believes."}}


def sends(*media_types: str) -> Responses:
    """The description of an answer that is a file."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": dict.fromkeys(media_types, schema)}}


def takes(*media_types: str) -> dict[str, Any]:
    """The description of a body that is a file."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": dict.fromkeys(media_types, schema)}}


def described(router: APIRouter) -> dict[str, Any]:
    """OpenAPI of all routes, with the messages of the WebSocket, for which it has no place."""
    found = get_openapi(
        title="latentloom", version=__version__, summary=SUMMARY, description=DESCRIPTION, routes=router.routes
    )
    found["components"]["schemas"] |= definitions("#/components/schemas/{model}")
    return found
