"""Bearer tokens of programs: a file of their names, scopes and hashes, which is read again whenever it changes.

The file holds no token, so whoever may read it cannot come in by it, and a secret that a cluster mounts will do. To
take a token back, delete its line.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import logging
import re
import secrets
import sys
import threading
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path

from ..errors import NotLoggedIn, OutOfScope
from .auth import NAME, hashed, read_lines

logger = logging.getLogger("latentloom")

SCOPES = ("run", "read")  # to submit, cancel, upload and delete; to look at results, the queue and metrics
ENV = "LATENTLOOM_TOKEN"
ENV_NAME = "env"  # whose runs those are that come with the token of the environment
LEAST = 16  # characters of a token that somebody thought of
DIGEST = re.compile(r"[0-9a-f]{64}")
FORM = "a line is: name, scopes and sha256, such as `farm run,read 9f86d081...`; `latentloom token farm` writes one"


@dataclass(frozen=True, kw_only=True)
class Bearer:
    """What is known of a token: whose runs it makes, and what it may do."""

    name: str
    scopes: frozenset[str]
    digest: str  # sha256 of the token, in hex


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def new_token(name: str, scopes: str) -> tuple[str, str]:
    """A token that nobody can guess, and its line for the file. Raises `ValueError`."""
    if NAME.fullmatch(name) is None:
        raise ValueError(f"{name[:80]!r} is no name; it has letters, digits and . _ @ -, at most 64")
    token = "loom_" + secrets.token_urlsafe(32)
    line = f"{name} {scopes} {digest_of(token)}"
    _read_line(line, "what is asked for")
    return token, line


def _read_line(line: str, where: str) -> Bearer:
    parts = line.split()
    scopes = frozenset(parts[1].split(",")) if len(parts) == 3 else frozenset()
    if len(parts) != 3 or NAME.fullmatch(parts[0]) is None or DIGEST.fullmatch(parts[2]) is None:
        raise ValueError(f"{where} is no token; {FORM}")
    if not scopes or not scopes <= {*SCOPES}:
        raise ValueError(f"{where} has the scopes {parts[1][:40]!r}; give run, read, or run,read")
    return Bearer(name=parts[0], scopes=scopes, digest=parts[2])


def token(arguments: argparse.Namespace) -> int:
    """The command `latentloom token`."""
    if arguments.login:
        is_typed = sys.stdin is not None and sys.stdin.isatty()
        password = getpass() if is_typed else sys.stdin.readline().rstrip("\r\n")
        if not password or NAME.fullmatch(arguments.name) is None:
            raise ValueError("a login is a name of letters, digits and . _ @ -, and a password, typed or sent on stdin")
        print(f"{arguments.name}:{hashed(password)}")
        return 0
    made, line = new_token(arguments.name, arguments.scopes)
    print(f"{made}\n{line}", flush=True)
    print("the first line is the token, shown once; the second goes into the file of --tokens", file=sys.stderr)
    return 0


class Tokens:
    """Those of a file, and one of the environment. Threads share it. Raises `ValueError` of a file that is none."""

    def __init__(self, file: Path | None = None, token: str = "") -> None:
        if token and len(token) < LEAST:
            raise ValueError(
                f"{ENV} has fewer than {LEAST} characters; `latentloom token` makes one that nobody guesses"
            )
        own = Bearer(name=ENV_NAME, scopes=frozenset(SCOPES), digest=digest_of(token))
        self._own = (own,) if token else ()
        self._file = file
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] = ()
        self._known: tuple[Bearer, ...] = ()
        if file is not None:
            self._look(file, is_first=True)
            if not self._known:
                raise ValueError(f"--tokens {file} names no token; {FORM}")

    def user_of(self, token: str, *, wants: str) -> str:
        """Whose token it is. Raises `NotLoggedIn`, or `OutOfScope` where it may not do what is asked."""
        digest = digest_of(token).encode()
        # all are compared, each in the same time, so that how long it takes tells nothing
        found = [each for each in self._now() if hmac.compare_digest(each.digest.encode(), digest)]
        if not found:
            raise NotLoggedIn("this server does not know the token, or it was taken back; ask who runs it for another")
        if not (may := [each for each in found if wants in each.scopes]):
            has = ", ".join(sorted(found[0].scopes))
            raise OutOfScope(f"this token may {has}, and this needs {wants}; ask who runs this server for one that may")
        return may[0].name

    def _now(self) -> tuple[Bearer, ...]:
        if self._file is None:
            return self._own
        with self._lock:
            try:
                self._look(self._file)
            except ValueError as error:  # who was taken back must not come in, so nobody does
                if self._stamp:
                    logger.error("%s; until then no token of it is taken", error)
                self._stamp, self._known = (), ()
            return (*self._known, *self._own)

    def _look(self, file: Path, *, is_first: bool = False) -> None:
        try:
            info = file.stat()
        except OSError as error:
            raise ValueError(f"--tokens {file} cannot be read ({error.strerror}); {FORM}") from None
        stamp = info.st_mtime_ns, info.st_size, info.st_ino, info.st_dev
        if stamp == self._stamp:
            return
        found: list[Bearer] = []
        for where, line in read_lines(file, "--tokens", FORM)[0].items():
            try:
                found.append(_read_line(line, where))
            except ValueError as error:
                if is_first:
                    raise
                logger.error("%s; it is passed over", error)
        self._stamp, self._known = stamp, tuple(found)
        if not is_first:
            logger.info("--tokens %s has changed: %d tokens are known", file, len(found))
