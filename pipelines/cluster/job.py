"""A job under way on one or more machines of a cluster: what it tells, how it ends, and that all its parts end."""

import contextlib
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ...parallel.errors import EASED, BadInput, OutOfMemory, RankFailed
from ...parallel.pool.pool import CHECK_S
from ...parallel.progress import Progress, RankWork
from ...parallel.wording import worded
from .head import check_head, has_head
from .machine import MachineLost, RayMachine, plain_answer, ready

LISTEN_S = 0.25  # how long an agent waits for news before it says that there are none
SILENCE_S = 30.0  # an agent that does not even say that there are no news is lost
CANCEL_S = 0.1  # between cancels: one may overtake the job that it is for


class MachinePart:
    """What one machine does of a job."""

    def __init__(self, machine: RayMachine, order: Mapping[str, Any], request: Any) -> None:
        self.machine = machine
        self.end: dict[str, Any] | None = None
        self._job = uuid.uuid4().hex
        self._run = machine.ask("run", self._job, json.dumps(order), request)
        self._cancel_time = 0.0
        self._listen()

    @property
    def references(self) -> list[Any]:
        """What may have an answer soon."""
        return [] if self.end is not None else [self._run, self._news]

    def hear(self, arrived: Sequence[Any]) -> list[list[Any]]:
        """What it has told since the last time; afterwards `end` may be there. Raises `MachineLost`."""
        if self.end is not None:
            return []
        try:
            if self._run in arrived:
                self.end = end = plain_answer(self._run)
                return self._left() + end["told"]
            if self._news in arrived:
                told = plain_answer(self._news)
                self._listen()
                return told
        except MachineLost as lost:
            raise self.machine.lose(lost) from None
        if time.monotonic() - self._listen_time > SILENCE_S:
            raise self.machine.lose(MachineLost(f"was silent for {SILENCE_S:.0f} s"), is_silent=True)
        return []

    def cancel(self) -> None:
        if self.end is None and time.monotonic() - self._cancel_time > CANCEL_S:
            self._cancel_time = time.monotonic()
            self.machine.ask("cancel", self._job)

    def _listen(self) -> None:
        self._news = self.machine.ask("listen", self._job, LISTEN_S)
        self._listen_time = time.monotonic()

    def _left(self) -> list[list[Any]]:
        """What it told before it ended, which is on its way."""
        with contextlib.suppress(MachineLost):
            return plain_answer(self._news, timeout_s=2 * LISTEN_S)
        return []


class ClusterJob:
    """One attempt. The first part tells of its steps; of how the work was spread, all do."""

    def __init__(self, parts: Sequence[MachinePart]) -> None:
        self._parts = parts
        self._spreads: list[Any] = []

    def run(self, progress: Progress) -> Any:
        """The first part's answer, when all have ended. Raises what `Pool.call` does, and `MachineLost`."""
        try:
            while any(part.end is None for part in self._parts):
                progress.check()
                check_head()
                for kind, *told in self._hear():
                    if kind == "phase":
                        progress.phase(told[0], is_loading=told[1])
                    elif kind == "again":
                        progress.again(told[0])
                    else:
                        done, total, picture = told
                        progress.step(done, total, None if picture is None else lambda shown=picture: shown)
                if any(part.end is not None and part.end["state"] != "done" for part in self._parts):
                    break
        except BaseException:
            self._stop()  # nothing of it runs on when the caller hears of its end
            raise
        self._stop()
        return self._settle(progress)

    def _hear(self) -> list[list[Any]]:
        """What there is to relay, after a little while at most."""
        arrived = ready([each for part in self._parts for each in part.references], timeout_s=CHECK_S)
        heard: list[list[Any]] = []
        for part in self._parts:
            told = part.hear(arrived)
            self._spreads += [(part, *each[1:]) for each in told if each[0] == "spread"]
            if part is self._parts[0]:
                heard += [each for each in told if each[0] != "spread"]
        return heard

    def _stop(self) -> None:
        """Cancel what is going on, and wait for its end; a part whose machine is lost has none.

        Without a head nobody knows which machines are: agents end what no host listens to.
        """
        for part in self._parts:
            part.cancel()
        for part in self._parts:
            with contextlib.suppress(MachineLost):
                while part.end is None and has_head():
                    part.cancel()
                    part.hear(ready(part.references, timeout_s=CHECK_S))

    def _settle(self, progress: Progress) -> Any:
        ends = [(part, part.end) for part in self._parts if part.end is not None]
        if len(ends) < len(self._parts):
            lost = next(part for part in self._parts if part.end is None)
            raise lost.machine.lose(MachineLost("lost its agent, or cannot be reached"))
        if wrong := [each for each in ends if each[1]["state"] != "done"]:
            part, end = min(wrong, key=lambda each: _distance(each[1]))
            raise _failure(part.machine, end, is_alone=len(ends) == 1)
        (first, end), *others = ends
        for part, other in others:
            if other["mark"] != end["mark"]:
                raise RankFailed(
                    f"{part.machine.name} has another result than {first.machine.name}; run `latentloom doctor` on both"
                )
        if self._spreads:  # with each device on the machine that the cluster, and errors, name so
            told = [{**each, "machine": part.machine.name} for part, _, ranks in self._spreads for each in ranks]
            work = sorted((RankWork(**each) for each in told), key=lambda each: each.rank)
            progress.spread(self._spreads[0][1], work)
        return end["answer"]


def _distance(end: Mapping[str, Any]) -> int:
    """From the first cause: what the request is to blame for comes first, and last what another's failure has ended."""
    if end["state"] == "failed":
        return 1 if end["code"] in (OutOfMemory.code, EASED) else 2
    return 0 if end["state"] == "refused" else 3


def _failure(machine: RayMachine, end: Mapping[str, Any], *, is_alone: bool) -> BaseException:
    """What the caller raises. Parts on several machines fail by each other's loss too, so they are tried again."""
    if end["state"] == "cancelled":
        return machine.lose(MachineLost("has ended the job by itself"))
    reason = worded("{}: {}", machine.name, end["reason"])
    if end["state"] == "refused" or end["code"] in (OutOfMemory.code, EASED):
        return (BadInput if end["state"] == "refused" else OutOfMemory)(reason, code=end["code"])
    if is_alone:
        return RankFailed(reason)
    lost = MachineLost(f"could not go on ({end['reason']})")
    lost.machine = machine
    return lost
