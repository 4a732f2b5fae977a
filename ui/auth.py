"""Who asks: the users that may log in, and the name behind a request.

Gradio's login guards Gradio's own routes only, so ours look its cookie up themselves.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import NotLoggedIn

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

LOCAL = "local"
"""The user where nobody logs in."""
NOBODY = ""
"""All names that nobody has share their turn to be tried."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
MAX_FILE_BYTES = 1 << 20
REMEDY = "give a file of name:password lines"
WRONG_S = 1.0
"""How long a wrong password takes. Those for one name are tried one at a time, the right one too: who asks a hundred
times at once learns no more than who asks once."""
MAX_TRIES = 20
"""That wait for one name."""


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
        if line.strip() and not line.lstrip().startswith("#"):
            _add(users, line, f"line {number} of --auth {file}")
    if not users:
        raise ValueError(f"--auth {file} names no user; write a line name:password for each")
    return users


def _add(users: dict[str, str], line: str, where: str) -> None:
    name, colon, password = line.partition(":")
    name = name.strip()
    if not colon or not password or NAME.fullmatch(name) is None:
        raise ValueError(
            f"{where} is no name:password; a name has letters, digits and . _ @ -, at most 64, and a password follows"
        )
    if name.lower() in {known.lower() for known in users}:
        raise ValueError(
            f"{where} names {name} again; give each user one line, and a name that differs in more than case"
        )
    users[name] = password


def login(users: Mapping[str, str]) -> Callable[[str, str], Any]:
    """What Gradio asks whether a name and a password belong together; it awaits the answer, but does not say so."""
    from starlette.exceptions import HTTPException

    turns = {name: asyncio.Lock() for name in (*users, NOBODY)}
    waiting: Counter[str] = Counter()

    async def check(name: str, password: str) -> bool:
        known = users.get(name)
        door = name if known is not None else NOBODY
        if waiting[door] >= MAX_TRIES:
            raise HTTPException(429, "somebody tries many passwords for this name; wait half a minute, then log in")
        waiting[door] += 1
        try:
            async with turns[door]:
                is_right = hmac.compare_digest((known or "").encode(), password.encode()) and known is not None
                if not is_right:
                    await asyncio.sleep(WRONG_S)
        finally:
            waiting[door] -= 1
        return is_right

    return check


def user_of(connection: HTTPConnection) -> str:
    """The name behind a request or socket. Raises `NotLoggedIn`.

    The app is Gradio's: our routes are plain routes of it.
    """
    app = connection.app
    if app.auth is None:
        return LOCAL
    keys = (f"access-token-{app.cookie_id}", f"access-token-unsecure-{app.cookie_id}")
    token = next((connection.cookies[key] for key in keys if connection.cookies.get(key)), "")
    if (user := app.tokens.get(token)) is None:
        raise NotLoggedIn("you are not logged in, or the server was started again; open the page and log in")
    return user
