"""One job as the host sees it: what was asked, what came back, and how it ended."""

from __future__ import annotations

import errno
import itertools
import os
import queue
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import EASED, BadInput, BadMessage, LoomError, OutOfMemory, PeerLost, RankFailed
from ..ranks.channel import read_body
from ..ranks.messages import Ended, Failure, Phase, SpreadWork, StepDone, read
from ..ranks.seat import World
from ..ranks.shortage import advice
from ..wording import remember, worded

if TYPE_CHECKING:
    from torch import Tensor

Lane = Literal["main", "side"]

MAX_DEATHS = 2
_numbers = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Picture:
    """A small picture of the next step that is told."""

    pixels: Tensor


@dataclass(frozen=True)
class Again:
    """The job begins once more, and why."""

    text: str


@dataclass(frozen=True, eq=False)
class Last:
    """The last word: an error, or else the answers."""

    error: BaseException | None = None
    answers: list[Any] = field(default_factory=list)


Told = Phase | Again | StepDone | Picture | SpreadWork | Last  # what the caller is told


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a caller asks for."""

    function: str
    num_ranks: int
    lane: Lane = "main"
    rank: int = 0  # which rank of a replica runs it, where it takes one
    owner: str = ""
    node: str = ""
    previews: bool = False
    every: bool = False  # whether each rank's answer is wanted, instead of the first's
    world: World | None = None  # one that reaches beyond this machine; None for the replica's own


@dataclass(eq=False)
class Job:
    """Owned by the supervisor, but for `told`, which the caller reads."""

    work: Work
    body: int  # the request, a memfd: every rank maps the same one
    number: int = field(default_factory=lambda: next(_numbers))
    told: queue.SimpleQueue[Told] = field(default_factory=queue.SimpleQueue)
    num_deaths: int = 0
    is_cancelled: bool = False

    @property
    def is_over(self) -> bool:
        """Once the last word is there, or about to be."""
        return self.body < 0

    def try_again(self, reason: str, log: Path) -> bool:
        """Whether it may be, after it lost a rank; otherwise this is its end."""
        self.num_deaths += 1
        if self.work.world is not None:
            pass  # the ranks of other machines must be asked again too, which only who asked all of them can
        elif self.num_deaths < MAX_DEATHS:
            self.told.put(Again(f"starting again: {reason}"))
            return True
        else:  # one death may be chance; by the second the job itself is what kills
            reason = f"{reason}, for the second time in this job, so it is given up"
        self.end(_noted(RankFailed(reason), log))
        return False

    def end(self, error: BaseException | None = None, *, answers: Sequence[Any] = ()) -> None:
        """The last word; the request is let go of."""
        if not self.is_over:
            os.close(self.body)  # ranks that still read it have descriptors of their own
            self.body = -1
            self.told.put(Last(error, list(answers)))


@dataclass(frozen=True)
class End:
    """How one rank's part of a job ended."""

    # `died` by itself or by a deadline; `ended` by us, because the job could not go on.
    state: Literal["done", "cancelled", "refused", "failed", "died", "ended"]
    value: Any = None  # the answer of one that is done
    is_whole: bool = False  # whether the rank is still in its process group, in step with the others
    mark: int = 0
    spread: SpreadWork | None = None
    code: str = ""
    reason: str = ""
    traceback: str = ""

    @classmethod
    def read(cls, told: Ended, body: int | None) -> End:
        try:
            if body is None:  # the kernel dropped the descriptor: this process may open no more
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            value = read_body(body)
            if told.state == "done":
                return cls("done", value, is_whole=told.is_whole, mark=told.mark, spread=told.spread)
            failure = read(Failure, value, what="failure")
            remember(failure.said)
        except Exception as error:
            reason = f"its answer cannot be read: {advice(error) if isinstance(error, OSError) else error}"
            return cls("failed", code=BadMessage.code, reason=reason)
        return cls(
            told.state,
            is_whole=told.is_whole,
            code=failure.code,
            reason="" if told.state == "cancelled" else failure.text,
            traceback=failure.traceback,
        )


def first_cause(ends: dict[int, End]) -> tuple[int, End]:
    """The rank whose failure explains the others': the lowest one with a reason of its own."""
    wrong = [(rank, end) for rank, end in ends.items() if end.state in ("refused", "failed")]
    if not wrong:
        rank = next(rank for rank, end in ends.items() if end.state != "done")
        return rank, End("failed", code=LoomError.code, reason="it stopped, though nobody had asked it to")
    return min(wrong, key=lambda each: (_distance(each[1]), each[0]))


def _distance(end: End) -> int:
    """From the first cause."""
    # One fails, and the others by what they then miss: their errors come as early, and say nothing of the cause. A lack
    # of memory explains any other failure; what a rank refuses it has found before it waited for anybody.
    if end.code in (OutOfMemory.code, EASED):
        return 0
    if end.state == "refused":
        return 1
    return 3 if end.code == PeerLost.code else 2


def failure(end: End, rank: str, *, log: Path, are_alike: bool) -> Exception:
    """What the caller raises; `are_alike` where every rank has refused with the same words."""
    if end.state == "refused":
        error = BadInput(end.reason if are_alike else worded("{}: {}", rank, end.reason), code=end.code)
        error.add_note(end.traceback)
        return error
    is_memory = end.code in (OutOfMemory.code, EASED)
    words = worded("{}: {}", rank, end.reason)
    error = OutOfMemory(words, code=end.code) if is_memory else RankFailed(words)
    error.add_note(end.traceback)
    return _noted(error, log)


def _noted(error: LoomError, log: Path) -> LoomError:
    error.add_note(f"the rank's log: {log}")
    return error
