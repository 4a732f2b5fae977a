"""How long the pool waits, for each thing that may not come.

A rank that died is seen at once, by the kernel. A rank that hangs is seen only by a clock, and no clock suits all work:
a step of a large video takes minutes, one of a small picture milliseconds. So the limit of a step follows from the
steps before it, and where none is known, while parts are loaded or compiled, it is long. Too short a limit kills ranks
with all that they have loaded; too long a one only makes whoever waits for a hang wait longer. When in doubt: longer.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds. The defaults suit large models; drills and tests take shorter ones."""

    start_s: float = 180.0  # for the fork server to import, and a rank to say hello
    # A rank that says nothing for so long is frozen: it speaks every fifth of this, whatever it computes.
    silence_s: float = 15.0
    # Between two signs of progress of work whose pace is not known: loading, compiling, the first step. That a rank
    # goes from module to module is one.
    work_s: float = 900.0
    # The least time that a step gets, as one may compile; five times the longest so far where that is more.
    step_s: float = 120.0
    # For ranks to leave a job that one has failed in, beyond their longest step. NCCL takes 1 s of it to revoke.
    abort_s: float = 3.0
    leave_s: float = 10.0  # for ranks to leave a job that failed or was cancelled, where no step's length is known
    die_s: float = 15.0  # for a process that was killed to go: an accelerator's driver takes a moment to let go of one
    grace_s: float = 0.05  # for the other ranks to fail by themselves, so that the first cause is known

    def step_deadline(self, longest_s: float) -> float:
        return max(self.step_s, 5 * longest_s)

    def leaving(self, longest_s: float) -> float:
        """What a rank computes cannot be interrupted. 0 stands for a step of unknown length."""
        return self.abort_s + longest_s if longest_s else self.leave_s
