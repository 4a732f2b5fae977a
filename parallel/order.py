"""A job's order: what the host asks of one rank."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """Travels in a message's header; the request itself is the body."""

    job: int
    function: str
    lane: str
    rank: int
    num_ranks: int
    previews: bool
    answers: bool
    """Whether this rank's answer is wanted; of the others only a mark, to see that they agree."""
