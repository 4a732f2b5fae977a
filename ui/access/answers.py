"""How routes answer: plain JSON that nobody keeps, and each error as one sentence with the status that fits."""

import logging
from dataclasses import asdict
from typing import Any

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ...nodes.graph.problems import GraphError, short
from ...parallel.errors import LoomError, code_of, kind_of
from ...parallel.wording import with_words, worded
from ..errors import error_body

logger = logging.getLogger("latentloom")

MAX_PROBLEMS = 1000


def plain(data: Any, status: int = 200) -> Response:
    """JSON data with the words of its sentences; it changes, so nobody keeps it."""
    return JSONResponse(with_words(data), status_code=status, headers={"Cache-Control": "no-store"})


def refused(sentence: str, status: int) -> Response:
    """Where no exception stands behind it."""
    return plain(error_body(sentence, status), status)


def error_answer(error: Exception, where: str) -> Response:
    """One sentence with the status that fits. What nobody foresaw is logged and told without its details."""
    if isinstance(error, HTTPException):
        return refused(str(error.detail), error.status_code)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, ClientDisconnect):  # nobody is there to read it
        return refused("the request was cut off; send it again", 400)
    # an answer that is not what the contract says is a fault of ours, though pydantic raises a ValueError for it
    known = LoomError() if isinstance(error, ValidationError) else error
    status, told = kind_of(known).http_status, {"error": str(known), "code": code_of(known)}
    if isinstance(error, GraphError):
        return plain({**told, "problems": [asdict(problem) for problem in error.problems[:MAX_PROBLEMS]]}, status)
    if status != LoomError.http_status:
        return plain(told, status)
    logger.error("%s failed", where, exc_info=error)
    reason = worded("the server failed with {}; its log says where; try again, or report it", type(error).__name__)
    return plain({**told, "error": reason}, status)


def _invalid(error: RequestValidationError) -> Response:
    # a path that names nothing is not there; everything else says what was got and what would be right
    first = error.errors()[0]
    place, *rest = first["loc"]
    if place == "path":
        return refused(worded("there is nothing called {} here", short(first["input"])), 404)
    name = ".".join(map(str, rest)) or "the body"
    got = "it is missing" if first["type"] == "missing" else f"got {short(first['input'])}"
    return refused(worded("{} of the request is wrong ({}): {}; correct it", name, got, first["msg"].lower()), 400)
