"""How our routes read requests and answer: strict JSON in, and each error as one sentence out."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ...nodes.graph.problems import GraphError, short
from ...pipelines.models.json_file import JsonFault, parse_strict
from ..access.auth import user_of
from ..errors import Conflict, NoRoom, NotHere, NotLoggedIn

logger = logging.getLogger("latentloom")

MAX_PROBLEMS = 1000


class StrictRequest(Request):
    """JSON with one meaning only, of bounded depth, parsed beside the event loop."""

    async def json(self) -> Any:
        try:
            return await run_in_threadpool(parse_strict, await self.body())
        except JsonFault as fault:
            sentence = f"the request's body is not JSON that we read: {fault.reason}; correct it"
            raise HTTPException(400, sentence) from None


class LoomRoute(APIRoute):
    """A route that asks who is there before it reads the body, and whose errors are `{"error": sentence}`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                request.state.user = user_of(request)
                if self.include_in_schema:
                    self._check_query(request)
                if self.body_field is not None and not _is_json(request):
                    raise HTTPException(415, "the body is not marked as JSON; send Content-Type: application/json")
                return await handle(StrictRequest(request.scope, request.receive))
            except Exception as error:
                return error_answer(error, f"{request.method} {self.path}")

        return answer

    def _check_query(self, request: Request) -> None:
        """A misspelt one would be ignored, and the answer taken for what was asked. Raises `HTTPException`."""
        known = {field.alias for field in self.dependant.query_params}
        for name in request.query_params:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, 1)
                right = f"did you mean {nearest[0]}? " if nearest else ""
                there = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
                sentence = f"{short(name)} is no query parameter of {request.method} {self.path}; {right}{there}"
                raise HTTPException(400, sentence)


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def plain(data: Any, status: int = 200) -> Response:
    """JSON data as it is; it changes, so nobody keeps it."""
    return JSONResponse(data, status_code=status, headers={"Cache-Control": "no-store"})


def nothing() -> Response:
    return Response(status_code=204)


def error_answer(error: Exception, where: str) -> Response:
    """One sentence with the status that fits. What nobody foresaw is logged and told without its details."""
    if isinstance(error, GraphError):
        return plain({"error": str(error), "problems": problems_plain(error.problems)}, 400)
    if isinstance(error, HTTPException):
        return plain({"error": str(error.detail)}, error.status_code)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, ClientDisconnect):  # nobody is there to read it
        return plain({"error": "the request was cut off; send it again"}, 400)
    for kind, status in ((NotLoggedIn, 401), (NotHere, 404), (Conflict, 409), (NoRoom, 507), (ValueError, 400)):
        if isinstance(error, kind):
            return plain({"error": str(error.args[0]) if error.args else str(error)}, status)
    logger.error("%s failed", where, exc_info=error)
    kind = type(error).__name__
    return plain({"error": f"the server failed with {kind}; its log says where; try again, or report it"}, 500)


def problems_plain(problems: Any) -> list[dict[str, str]]:
    """Problems as the page lists them."""
    keys = ("node", "socket", "code", "message")
    return [{key: getattr(problem, key) for key in keys} for problem in problems[:MAX_PROBLEMS]]


def _invalid(error: RequestValidationError) -> Response:
    """A path that names nothing is not there; everything else says what was got and what would be right."""
    first = error.errors()[0]
    place, *rest = first["loc"]
    if place == "path":
        return plain({"error": f"there is nothing called {short(first['input'])} here"}, 404)
    name = ".".join(map(str, rest)) or "the body"
    got = "it is missing" if first["type"] == "missing" else f"got {short(first['input'])}"
    return plain({"error": f"{name} of the request is wrong ({got}): {first['msg'].lower()}; correct it"}, 400)


def _user(request: Request) -> str:
    return request.state.user


User = Annotated[str, Depends(_user)]
"""Who asks."""
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""Of a workflow, run, batch, result or draft."""
NodeName = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
