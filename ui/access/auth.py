"""Who asks: the users that may log in, and the name behind a request.

Gradio's login guards Gradio's own routes only, so ours look its cookie up themselves.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import NotLoggedIn

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

LOCAL = "local"  # the user where nobody logs in
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
MAX_FILE_BYTES = 1 << 20
REMEDY = "give a file of name:password lines"
COOKIES = ("access-token-{}", "access-token-unsecure-{}")  # in which Gradio looks for a session, first to last


def read_users(file: Path) -> dict[str, str]:
    """Passwords by name from lines `name:password`. Raises `ValueError` for a file that others can read, too."""
    try:
        with file.open("rb") as opened:
            info = os.fstat(opened.fileno())
            data = opened.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"--auth {file} cannot be read ({error.strerror}); {REMEDY}") from None
    except UnicodeDecodeError:
        raise ValueError(f"--auth {file} is not text; {REMEDY}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"--auth {file} is larger than {MAX_FILE_BYTES} bytes; {REMEDY}")
    if os.name == "posix" and stat.S_IMODE(info.st_mode) & 0o077:
        raise ValueError(f"--auth {file} can be read by other users of this machine; run: chmod 600 {file}")
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where, (name, colon, password) = f"line {number} of --auth {file}", line.partition(":")
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
        users[name] = password
    if not users:
        raise ValueError(f"--auth {file} names no user; write a line name:password for each")
    return users


def token_of(connection: HTTPConnection) -> str:
    """The session that a request or socket names; empty where it names none."""
    names = [name.format(connection.app.cookie_id) for name in COOKIES]
    return next((connection.cookies[name] for name in names if connection.cookies.get(name)), "")


def user_of(connection: HTTPConnection) -> str:
    """The name behind a request or socket. Raises `NotLoggedIn`."""
    app = connection.app  # Gradio's, of which our routes are plain ones
    if app.auth is None:
        return LOCAL
    if (user := app.tokens.get(token_of(connection))) is None:
        raise NotLoggedIn("you are not logged in, or the server was started again; open the page and log in")
    return user
