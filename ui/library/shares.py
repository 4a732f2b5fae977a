"""Links to a workflow for the other users of this server: a secret name each, which shows the newest version."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from pydantic import BaseModel

from ..errors import NotHere
from ..store.user_files import read_record, write_record

TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")


class Share(BaseModel):
    """Whose workflow a token shows."""

    user: str
    workflow: str


class Shares:
    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "shares"

    def make(self, user: str, workflow: str) -> str:
        """A new token."""
        token = secrets.token_urlsafe(16)
        write_record(self._folder / f"{token}.json", Share(user=user, workflow=workflow))
        return token

    def find(self, token: str) -> Share:
        """Raises `NotHere`."""
        share = read_record(self._folder / f"{token}.json", Share) if TOKEN.fullmatch(token) else None
        if share is None:
            raise NotHere("nothing is shared under this link any more; ask for a new one")
        return share

    def drop(self, token: str) -> None:
        if TOKEN.fullmatch(token):
            (self._folder / f"{token}.json").unlink(missing_ok=True)
