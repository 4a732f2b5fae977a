"""How routes of /v1 read JSON and forms, and refuse: `{"error": {"message", "type", "param", "code"}}`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from ....parallel.errors import LoomError, where_of
from ...access.answers import error_answer, in_form_of
from ..requests import CONFLICT, KEYED, LoomRoute, Responses
from ..requests import ERRORS as LOOM_ERRORS
from .bodies import WrongAnswer

MOST_FIELDS, FIELD_BYTES = 64, 1 << 20
Body = TypeVar("Body", bound=BaseModel)
Files = Mapping[str, list[UploadFile]]  # by their field

OWN: Responses = {500: {"description": "The server or a node of the workflow failed."}}
ERRORS: Responses = {
    status: {**told, "model": WrongAnswer} for status, told in {**LOOM_ERRORS, **CONFLICT, **KEYED, **OWN}.items()
}


class Wrong(LoomError, HTTPException):
    """What a request to /v1 is refused for, with the field that it is about."""

    code, http_status = "wrong-field", 400

    def __init__(self, message: str, *, param: str | None = None, status: int = 400, code: str = "") -> None:
        super().__init__(status, message, code=code)
        self.param = param

    def __str__(self) -> str:
        return self.detail


class OpenAIRoute(LoomRoute):
    """A route that refuses in OpenAI's form."""

    def refused(self, error: Exception, where: str) -> Response:
        param, code = (error.param, error.code) if isinstance(error, Wrong) else (None, "")
        if isinstance(error, RequestValidationError):
            param = ".".join(map(str, error.errors()[0]["loc"][1:])) or None
        answer = in_form_of(self.path, error_answer(error, where), param=param, code=code)
        if isinstance(error, Wrong):  # OpenAI's clients would ask thrice for what fails each time
            answer.headers["X-Should-Retry"] = str(where_of(code) == "machine").lower()
        return answer


def takes(kind: type[BaseModel], *files: str) -> dict[str, Any]:
    """The description of a form with these files, or of the same as JSON, without them."""
    schema = kind.model_json_schema()
    binary = {"type": "array", "items": {"type": "string", "format": "binary"}}
    form = {**schema, "properties": {**schema["properties"], **dict.fromkeys(files, binary)}}
    content = {"multipart/form-data": {"schema": form}, "application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


@asynccontextmanager
async def read_body(request: Request, kind: type[Body], *files: str) -> AsyncIterator[tuple[Body, Files]]:
    """A form or JSON as a body of this kind, and the form's files of these fields. Raises what the route tells."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    found: dict[str, list[UploadFile]] = {}
    if media == "application/json":
        yield _checked(kind, await request.json()), found
        return
    if media not in ("multipart/form-data", "application/x-www-form-urlencoded"):
        raise HTTPException(415, "the body is neither a form nor JSON; send multipart/form-data")
    given: dict[str, Any] = {}
    async with request.form(max_files=MOST_FIELDS, max_fields=MOST_FIELDS, max_part_size=FIELD_BYTES) as form:
        for field, value in form.multi_items():
            name, bracket, key = field.removesuffix("[]").partition("[")
            if isinstance(value, UploadFile) and name in files:
                found.setdefault(name, []).append(value)
            elif isinstance(value, UploadFile):
                raise Wrong(f"{name[:100]} is no file that is taken here; send {' or '.join(files)}", param=name[:100])
            elif bracket and isinstance(inner := given.setdefault(name, {}), dict):
                inner[key.removesuffix("]")] = value
            else:
                given[name] = value
        yield _checked(kind, given), found


def _checked(kind: type[Body], data: Any) -> Body:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in error.errors()]) from None
