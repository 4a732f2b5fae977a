"""One job as the host sees it: what was asked, what came back, and how it ended."""

from __future__ import annotations

import errno
import itertools
import os
import queue
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..ranks.messages import read_body
from ..ranks.seat import World
from ..ranks.shortage import advice

Lane = Literal["main", "side"]
Told = tuple[str, Any]
"""What the caller is told: ("phase", name), ("preview", the next step's), ("step", (done, total)),
("spread", (plan, work)), ("done", answers), ("cancelled", None) or ("error", exception)."""

MAX_DEATHS = 2
LAST_WORDS = ("done", "cancelled", "error")
_numbers = itertools.count(1)


class RankFailed(RuntimeError):
    """A rank raised, died or was silent; the message begins with its number."""


class RankOutOfMemory(RankFailed):
    """A rank's device had no room."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a caller asks for."""

    function: str
    num_ranks: int
    lane: Lane
    place: int
    """Which rank of a replica runs it, where it takes one."""
    owner: str
    previews: bool
    every: bool
    """Whether each rank's answer is wanted, instead of the first's."""
    world: World | None = None
    """One that reaches beyond this machine; None for the replica's own."""


@dataclass(eq=False)
class Job:
    """Owned by the supervisor, but for `told`, which the caller reads."""

    work: Work
    body: int
    """The request, a memfd: every rank maps the same one."""
    number: int = field(default_factory=lambda: next(_numbers))
    told: queue.SimpleQueue[Told] = field(default_factory=queue.SimpleQueue)
    num_deaths: int = 0
    is_cancelled: bool = False

    @property
    def is_over(self) -> bool:
        """Once the last word is there, or about to be."""
        return self.body < 0

    def tell(self, kind: str, value: Any = None) -> None:
        self.told.put((kind, value))

    def try_again(self, reason: str, log: Path) -> bool:
        """Whether it may be, after it lost a rank; otherwise this is its end."""
        self.num_deaths += 1
        if self.work.world is not None:  # the ranks of other machines must be asked again too
            self.end("error", _noted(RankFailed(reason), log))
            return False
        if self.num_deaths < MAX_DEATHS:
            self.tell("phase", f"starting again: {reason}")
            return True
        error = RankFailed(f"{reason}, for the second time in this job, so it is given up")
        self.end("error", _noted(error, log))
        return False

    def end(self, kind: Literal["done", "cancelled", "error"], value: Any = None) -> None:
        """The last word; the request is let go of."""
        if not self.is_over:
            os.close(self.body)
            self.body = -1
            self.tell(kind, value)


@dataclass
class End:
    """How one rank's part of a job ended."""

    state: Literal["done", "cancelled", "refused", "failed", "out_of_memory", "died", "ended"]
    """`died` by itself or by a deadline; `ended` by us, because the job could not go on."""
    value: Any = None
    is_whole: bool = False
    """Whether the rank is still in its process group, in step with the others."""
    mark: int = 0
    spread: dict[str, Any] | None = None
    reason: str = ""

    @classmethod
    def read(cls, header: dict[str, Any], body: int | None) -> End:
        try:
            if body is None:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            value = read_body(body)
        except Exception as error:
            reason = f"its answer cannot be read: {advice(error) if isinstance(error, OSError) else error}"
            return cls("failed", {"type": "RuntimeError", "message": reason, "traceback": ""}, reason=reason)
        reason = value["message"] if header["state"] not in ("done", "cancelled") else ""
        return cls(
            header["state"],
            value,
            is_whole=header["is_whole"],
            mark=header.get("mark", 0),
            spread=header.get("spread"),
            reason=reason,
        )


LOST_CONNECTION = ("closed by peer", "reset by peer", "broken pipe", "connection", "aborted", "nccl", "gloo")
"""What a rank says when it was another that failed."""


def first_cause(ends: dict[int, End]) -> tuple[int, End]:
    """The rank whose failure explains the others', in the order in which they were told."""
    wrong = [(rank, end) for rank, end in ends.items() if end.state in ("refused", "out_of_memory", "failed")]
    if not wrong:
        rank, end = next((rank, end) for rank, end in ends.items() if end.state != "done")
        told = {"type": "Cancelled", "message": "it stopped, though nobody had asked it to", "traceback": ""}
        return rank, End("failed", told, reason=told["message"])
    for state in ("out_of_memory", "refused"):
        for rank, end in wrong:
            if end.state == state:
                return rank, end
    own = [each for each in wrong if not any(words in each[1].reason.lower() for words in LOST_CONNECTION)]
    return (own or wrong)[0]


def failure(end: End, rank: str, *, log: Path, are_alike: bool) -> Exception:
    """What the caller raises; `are_alike` where every rank has refused with the same words."""
    if end.state == "refused":
        error = ValueError(end.reason if are_alike else f"{rank}: {end.reason}")
        error.add_note(end.value["traceback"])
        return error
    kind = RankOutOfMemory if end.state == "out_of_memory" else RankFailed
    name = end.value["type"]
    told = end.reason if end.state == "out_of_memory" or name == "RuntimeError" else f"{name}: {end.reason}"
    error = kind(f"{rank}: {told}")
    error.add_note(end.value["traceback"])
    return _noted(error, log)


def _noted(error: RankFailed, log: Path) -> RankFailed:
    error.add_note(f"the rank's log: {log}")
    return error
