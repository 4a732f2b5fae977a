"""What the server's stores refuse beside `ValueError`: what is not there, and what somebody else changed.

`access/answers.py` gives each the HTTP status that fits.
"""

from __future__ import annotations


class NotHere(LookupError):
    """What was asked for is not there for this user, whether or not another user has one."""


class Conflict(RuntimeError):
    """The thing is not as the caller believes; the message says how it is and what to do."""


class NoRoom(ValueError):
    """The user, or all together, keep as much as they may; the message says what to delete."""


class NotLoggedIn(PermissionError):
    """Nobody is logged in behind this request."""
