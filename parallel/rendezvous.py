"""A rendezvous: the wait for others to make a process group, which nothing ends but their coming."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_waiting: set[int] = set()
"""Threads within."""


@contextmanager
def rendezvous() -> Iterator[None]:
    """Around what makes a group within the process group; aborting that does not reach a group which is not yet."""
    thread = threading.get_ident()
    _waiting.add(thread)
    try:
        yield
    finally:
        _waiting.discard(thread)


def is_in_rendezvous() -> bool:
    """Whether a thread of this process waits in one."""
    return bool(_waiting)
