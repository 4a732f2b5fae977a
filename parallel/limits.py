"""How long the pool waits, for each thing that may not come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds. The defaults suit large models; drills and tests take shorter ones."""

    start_s: float = 180.0
    """For the fork server to import, and a rank to say hello."""
    silence_s: float = 15.0
    """A rank that says nothing for so long is frozen: it speaks every fifth of this, whatever it computes."""
    work_s: float = 900.0
    """Between two signs of progress of work whose pace is not known: loading, compiling, the first step."""
    step_s: float = 30.0
    """The least time that a step gets; five times the longest so far where that is more."""
    abort_s: float = 1.0
    """For the other ranks to leave a job that one has failed in."""
    grace_s: float = 0.05
    """For the other ranks to fail by themselves, so that the first cause is known."""

    def step_deadline(self, longest_s: float) -> float:
        return max(self.step_s, 5 * longest_s)
