"""What the server's stores refuse beside `BadInput`, and the codes of what is refused by an HTTP status alone.

foreign: of another page or host. not-allowed: no such method. too-large, not-json: the body. too-many: at a time.
"""

from collections.abc import Mapping

from ..parallel.errors import BadInput, LoomError


class NotHere(LoomError):
    """What was asked for is not there for this user, whether or not another user has one."""

    code, http_status = "not-here", 404


class Conflict(LoomError):
    """The thing is not as the caller believes; the message says how it is and what to do."""

    code, http_status = "conflict", 409


class Superseded(LoomError):
    """Nobody waits for this answer any more, because the same page asked anew."""

    code, http_status = "superseded", 409


class KeyTaken(LoomError):
    """An Idempotency-Key came once more, with another request."""

    code, http_status = "key-taken", 422


class NoRoom(BadInput):
    """The user, or all together, keep as much as they may; the message says what to delete."""

    code, http_status = "no-room", 507


class NotLoggedIn(LoomError):
    """Nobody is logged in behind this request."""

    code, http_status = "not-logged-in", 401


class OutOfScope(LoomError):
    """The token behind this request may not do this."""

    code, http_status = "out-of-scope", 403


class TooMany(BadInput):
    """Too much is asked for at a time; the same may be asked again later."""

    code, http_status = "too-many", 429


class Draining(LoomError):
    """The server is about to end, and takes no more runs."""

    code, http_status = "draining", 503

    def __init__(self) -> None:
        super().__init__("this server is about to end, and takes no more runs; send it to another, or once it is back")


class DownloadsOff(LoomError):
    """The owner of this server did not allow pages to fetch models."""

    code, http_status = "downloads-off", 403


STATUS_CODES: Mapping[int, str] = {
    **{kind.http_status: kind.code for kind in (NotLoggedIn, NotHere, Conflict, NoRoom)},
    **{403: "foreign", 405: "not-allowed", 408: "cut-off", 413: "too-large", 415: "not-json"},
    **dict.fromkeys((429, 503), "too-many"),
}


def error_body(sentence: str, status: int) -> dict[str, str]:
    """The JSON of an answer that no exception stands behind."""
    return {"error": sentence, "code": STATUS_CODES.get(status, BadInput.code if status < 500 else LoomError.code)}
