"""Requests that come again with the same Idempotency-Key: answered as the first was, as long as its runs are kept."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel

from ..contract.run import Submitted
from ..errors import KeyTaken

TURNS = 64


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request with such a key, both by their hashes; without a key it is asked anew each time."""

    key: str = ""
    request: str = ""

    @classmethod
    def of(cls, key: str, *request: str) -> Asked:
        keyed, asked = (hashlib.sha256(json.dumps(texts).encode()).hexdigest() for texts in ((key,), request))
        return cls(key=keyed, request=asked) if key else NO_KEY

    def answered(self, user: str, answer: Submitted) -> Answered | None:
        return Answered(user=user, key=self.key, request=self.request, answer=answer) if self.key else None


NO_KEY = Asked()


class Answered(BaseModel):
    """What was answered to such a request, as it is kept beside the workflow of its runs."""

    user: str
    key: str
    request: str
    answer: Submitted


class Answers:
    """Threads share it."""

    def __init__(self) -> None:
        self._turns = [threading.Lock() for _ in range(TURNS)]  # by user and key: of two at once one starts something
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Answered] = {}

    def once(self, user: str, asked: Asked, start: Callable[[], Submitted]) -> Submitted:
        """What `start` says, or what the same request with the same key was answered before. Raises `KeyTaken`."""
        if not asked.key:
            return start()
        with self._turns[hash((user, asked.key)) % TURNS]:
            with self._lock:
                known = self._known.get((user, asked.key))
            if known is not None and known.request != asked.request:
                raise KeyTaken(
                    "this Idempotency-Key came with another request before; give each request a key of its own"
                )
            return known.answer if known else start()

    def hold(self, answered: Answered) -> None:
        with self._lock:
            self._known[answered.user, answered.key] = answered

    def forget(self, user: str, batch: str) -> None:
        with self._lock:
            for key in [key for key, known in self._known.items() if key[0] == user and known.answer.batch == batch]:
                del self._known[key]
