"""How our routes read requests, answer and are described: strict JSON in, nothing misspelt, who asks comes first."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from ...nodes.graph.problems import short
from ...parallel.errors import did_you_mean
from ...pipelines.models.regular_file import JsonFault, parse_strict
from ..access.answers import error_answer, plain
from ..access.auth import user_of
from ..access.gate import JSON_BYTES, too_large
from ..contract.shown import ErrorAnswer

Responses = dict[int | str, dict[str, Any]]
ERRORS: Responses = {
    status: {"model": ErrorAnswer, "description": description}
    for status, description in (
        (400, "The request is wrong; the sentence says how."),
        (401, "Nobody is logged in, and no token is known."),
        (403, "The token may not do this, or the request comes from a foreign page, or for a foreign host."),
        (404, "There is no such thing, or it is another user's."),
        (408, "The rest of the body stopped coming."),
        (413, "The body is too large."),
        (415, "The body is not marked as JSON."),
        (429, "Too much at a time from one address, or too many runs that wait; Retry-After says when to come again."),
        (503, "The server is about to end, or too many are connected; Retry-After says when to come again."),
        (507, "As much is kept as may be; the sentence says what to delete."),
    )
}
KEYED: Responses = {422: {"model": ErrorAnswer, "description": "Its Idempotency-Key came with another request before."}}
CONFLICT: Responses = {409: {"model": ErrorAnswer, "description": "The thing is not as the caller believes."}}
BINARY = {"schema": {"type": "string", "format": "binary"}}


def sends(*media_types: str) -> Responses:
    """The description of an answer that is a file."""
    return {200: {"content": dict.fromkeys(media_types, BINARY)}}


def takes(*media_types: str) -> dict[str, Any]:
    """The description of a body that is a file."""
    return {"requestBody": {"required": True, "content": dict.fromkeys(media_types, BINARY)}}


class StrictRequest(Request):
    """JSON with one meaning only, of bounded depth, parsed beside the event loop."""

    async def json(self) -> Any:
        body = await self.body()
        if len(body) > JSON_BYTES:  # of a route that takes files, too: parsed, it is 30 times as large
            raise too_large(JSON_BYTES)
        try:
            return await run_in_threadpool(parse_strict, body)
        except JsonFault as fault:
            sentence = f"the request's body is not JSON that we read: {fault.reason}; correct it"
            raise HTTPException(400, sentence) from None


class LoomRoute(APIRoute):
    """A route that asks who is there before it reads the body, and whose errors are `{"error": sentence}`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **described: Any) -> None:
        super().__init__(path, _answering(endpoint, self._answer), **described)
        self._kind = TypeAdapter[Any](self.response_model)

    def _answer(self, answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        if self.status_code == 204:
            return Response(status_code=204)
        return plain(self._kind.dump_python(answer), self.status_code or 200)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                request.state.user = user_of(request)
                if self.include_in_schema:
                    self._check_query(request)
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if self.body_field is not None and kind != "application/json":
                    raise HTTPException(415, "the body is not marked as JSON; send Content-Type: application/json")
                return await handle(StrictRequest(request.scope, request.receive))
            except Exception as error:
                return self.refused(error, f"{request.method} {self.path}")

        return answer

    def refused(self, error: Exception, where: str) -> Response:
        """What is answered where this was raised."""
        return error_answer(error, where)

    def _check_query(self, request: Request) -> None:
        # a misspelt one would be ignored, and the answer taken for what was asked
        asked = [(field.alias, field.field_info.annotation) for field in self.dependant.query_params]
        known = {name for alias, kind in asked for name in getattr(kind, "model_fields", [alias])}  # of a model, all
        for name in request.query_params:
            if name not in known:
                there = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
                right = did_you_mean(name, known)
                sentence = f"{short(name)} is no query parameter of {request.method} {self.path}; {right}{there}"
                raise HTTPException(400, sentence)


def _answering(endpoint: Callable[..., Any], answer: Callable[[Any], Response]) -> Callable[..., Any]:
    # FastAPI would write what a handler returns as JSON in the event loop: a long list would keep all others waiting

    @functools.wraps(endpoint)
    def handle(*given: Any, **named: Any) -> Response:
        return answer(endpoint(*given, **named))

    @functools.wraps(endpoint)
    async def handle_async(*given: Any, **named: Any) -> Response:
        return await run_in_threadpool(answer, await endpoint(*given, **named))

    return handle_async if inspect.iscoroutinefunction(endpoint) else handle


def _user(request: Request) -> str:
    return request.state.user


User = Annotated[str, Depends(_user)]  # who asks
# The id of a workflow, run, batch, result or draft, in a path.
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=255,
        description="The same request with the same key is answered as the first was, and starts nothing, as long as "
        "the runs of that are kept.",
    ),
]
# Of a node that was unfolded with `:` for each `/`.
NodeName = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_]{0,63}(:[a-z0-9_]{1,64}){0,40}$")]
