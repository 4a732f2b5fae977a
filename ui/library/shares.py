"""Links: which user's workflow each of them means, until it is taken back."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from pydantic import BaseModel

from ..store.user_files import read_record, write_record

TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")


class Share(BaseModel):
    """Whose workflow a token means."""

    user: str
    workflow: str


class Shares:
    """One kind of links, in a folder of its own: a token is all that one needs to know, and nobody can guess it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, user: str, workflow: str) -> str:
        """A new token."""
        token = secrets.token_urlsafe(16)
        write_record(self._folder / f"{token}.json", Share(user=user, workflow=workflow))
        return token

    def find(self, token: str) -> Share | None:
        """None for one that was taken back, or never given."""
        return read_record(self._folder / f"{token}.json", Share) if TOKEN.fullmatch(token) else None

    def drop(self, token: str) -> None:
        if TOKEN.fullmatch(token):
            (self._folder / f"{token}.json").unlink(missing_ok=True)
