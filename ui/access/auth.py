"""Who asks: the users that may log in, and the name behind a request.

Gradio's login guards Gradio's own routes only, so ours look its cookie up themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import NotLoggedIn

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from .tokens import Tokens

LOCAL = "local"  # the user where nobody logs in
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
MAX_FILE_BYTES = 1 << 20
COOKIES = ("access-token-{}", "access-token-unsecure-{}")  # in which Gradio looks for a session, first to last
# Of scrypt (RFC 7914): 16 MiB and some 50 ms for each try.
COST, BLOCK, LANES = 1 << 14, 8, 1
HASHED = re.compile(r"scrypt:([0-9a-f]{32}):([0-9a-f]{64})")


def hashed(password: str, salt: str = "") -> str:
    """What the file of users may hold in a password's place: from it nobody learns the password."""
    salt = salt or secrets.token_hex(16)
    made = hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), n=COST, r=BLOCK, p=LANES, dklen=32)
    return f"scrypt:{salt}:{made.hex()}"


def is_password(known: str, given: str) -> bool:
    """Whether it is the one that a line of the file of users says, or is the hash of."""
    if (found := HASHED.fullmatch(known)) is not None:
        given = hashed(given, found[1])
    return hmac.compare_digest(known.encode(), given.encode())


def read_lines(file: Path, option: str, remedy: str) -> tuple[dict[str, str], int]:
    """Its lines by what they are called, without comments and empty ones; and who may read it (`st_mode`). Raises
    `ValueError`."""
    try:
        with file.open("rb") as opened:
            mode, data = os.fstat(opened.fileno()).st_mode, opened.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{option} {file} cannot be read ({error.strerror}); {remedy}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{option} {file} is not text; {remedy}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{option} {file} is larger than {MAX_FILE_BYTES} bytes; {remedy}")
    lines = {f"line {number} of {option} {file}": line for number, line in enumerate(text.splitlines(), start=1)}
    return {where: line for where, line in lines.items() if line.strip() and not line.lstrip().startswith("#")}, mode


def read_users(file: Path) -> dict[str, str]:
    """Passwords by name, or their hashes, from lines `name:password`. Raises `ValueError` for a file that holds a
    password and that others can read, too."""
    lines, mode = read_lines(file, "--auth", "give a file of name:password lines")
    users: dict[str, str] = {}
    for where, line in lines.items():
        name, colon, password = line.partition(":")
        name = name.strip()
        if not colon or not password or NAME.fullmatch(name) is None:
            raise ValueError(
                f"{where} is no name:password; a name has letters, digits and . _ @ -, at most 64, "
                "and a password follows"
            )
        if name.lower() in {known.lower() for known in users}:
            raise ValueError(
                f"{where} names {name} again; give each user one line, and a name that differs in more than case"
            )
        users[name] = password.strip() if HASHED.fullmatch(password.strip()) else password
    if not users:
        raise ValueError(f"--auth {file} names no user; write a line name:password for each")
    is_hashed = all(HASHED.fullmatch(password) for password in users.values())
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077 and not is_hashed:
        raise ValueError(
            f"--auth {file} can be read by other users of this machine; run: chmod 600 {file}, or put hashes in place "
            "of passwords: latentloom token --login NAME"
        )
    return users


def token_of(connection: HTTPConnection) -> str:
    """The session that a request or socket names; empty where it names none."""
    names = [name.format(connection.app.cookie_id) for name in COOKIES]
    return next((connection.cookies[name] for name in names if connection.cookies.get(name)), "")


def user_of(connection: HTTPConnection) -> str:
    """The name behind a request or socket: of its bearer token, else of its session. Raises `NotLoggedIn`, or
    `OutOfScope` where the token may not do this."""
    app = connection.app  # Gradio's, of which our routes are plain ones, or the service's
    if app.auth is None:
        return LOCAL
    kind, _, token = connection.headers.get("authorization", "").partition(" ")
    tokens: Tokens | None = getattr(app.state, "tokens", None)
    if kind.lower() == "bearer" and tokens is not None:
        is_looking = connection.scope.get("method", "GET") in ("GET", "HEAD")
        return tokens.user_of(token.strip(), wants="read" if is_looking else "run")
    if (user := app.tokens.get(token_of(connection))) is None:
        if tokens is not None:
            raise NotLoggedIn("nobody came with the request; send Authorization: Bearer and a token, or log in")
        raise NotLoggedIn("you are not logged in, or the server was started again; open the page and log in")
    return user
