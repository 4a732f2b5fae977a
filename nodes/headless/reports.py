"""What became of each run of a sweep, and of all of them together.

A *report* is what became of one run of a sweep, the *tally* counts them and decides when going on is of no use.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...parallel.errors import code_of
from ...pipelines.failures import NotFinite
from ..execution.failure import NodeFailed
from ..execution.manifest import outputs_told_by
from ..execution.records import RunResult

RunState = Literal["ok", "failed", "cancelled", "resumed", "busy"]

# So many runs in a row that are refused in the very same words end a sweep: nothing speaks for the next one. Each
# costs little, and a value that varies slowly may be to blame.
MOST_REFUSED = 100
# So many failures in a row of one kind (memory, ranks, the disk), whose numbers may differ, end a sweep: they may cost
# minutes each.
MOST_FAULTS = 10


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of the sweep. Without a result nothing ran: it was complete already, or `problem` says why not.

    With a result, `problem` says why its manifest could not be written, and counts as a failure.
    """

    folder: Path
    overrides: Mapping[str, Any]
    result: RunResult | None = field(repr=False, default=None)
    problem: str = ""
    problem_code: str = ""
    is_busy: bool = False  # another process is making it now
    is_foretold: bool = False  # it was not begun, because `problem` was found before the first run

    @property
    def state(self) -> RunState:
        if self.is_busy:
            return "busy"
        if self.result is None:
            return "failed" if self.problem else "resumed"
        return "failed" if self.problem and self.result.state == "ok" else self.result.state

    @property
    def failure(self) -> NodeFailed | None:
        return None if self.result is None else self.result.failure

    @property
    def error(self) -> str:
        """What went wrong, in one sentence; empty when nothing did."""
        return self.problem if self.failure is None else str(self.failure)

    @property
    def code(self) -> str:
        """What the error is, for programs (parallel/errors.py); empty when there is none."""
        return self.problem_code if self.failure is None else self.failure.code

    @property
    def files(self) -> tuple[str, ...]:
        """What the run wrote or found unchanged."""
        return () if self.result is None else tuple(f for node in self.result.nodes.values() for f in node.files)

    @property
    def outputs(self) -> dict[str, Any]:
        """What the run made that is no file: text, numbers, and lists of them; also where it was complete already."""
        if self.result is not None:
            return self.result.plain_outputs()
        return outputs_told_by(self.folder) if self.state == "resumed" else {}

    def to_plain(self) -> dict[str, Any]:
        """The envelope that ends a run's lines of JSON."""
        result = self.result
        nodes = {} if result is None else result.nodes
        denoises = {name: told for name, record in nodes.items() if (told := record.prediction())}
        return {
            "kind": "result",
            "run": None if result is None else result.run,
            "state": self.state,
            "folder": str(self.folder),
            "overrides": dict(self.overrides),
            "files": list(self.files),
            "outputs": self.outputs,
            "seconds": 0.0 if result is None else round(result.seconds, 4),
            **({"denoises": denoises} if denoises else {}),
            "error": self.error or None,
            "code": self.code or None,
        }


class Tally:
    """Counts the reports of a sweep, keeps those of failures, and says when to go no further."""

    def __init__(self, num_runs: int, *, stops_on_error: bool = False) -> None:
        self.num_runs = num_runs
        self.failures: list[Report] = []  # without their results, which may be large
        self.why_ended = ""
        self._stops_on_error = stops_on_error
        self._counts: Counter[RunState] = Counter()
        self._reason = ""
        self._num_alike = 0

    def add(self, report: Report) -> None:
        self._counts[report.state] += 1
        if report.state != "failed":
            self._num_alike = 0
            return
        self.failures.append(
            Report(folder=report.folder, overrides=report.overrides, problem=report.error, problem_code=report.code)
        )
        if self._stops_on_error:
            self.why_ended = "it was asked to stop at the first error"
        if self._stops_on_error or report.is_foretold:  # which says nothing of the runs that are begun
            return
        reason, most = _reason(report)
        self._num_alike = self._num_alike + 1 if reason == self._reason else 1
        self._reason = reason
        if self._num_alike >= most:
            self.why_ended = f"{most} runs in a row failed for the same reason"

    def count(self, state: RunState) -> int:
        return self._counts[state]

    @property
    def num_left(self) -> int:
        """Runs that were not tried, or not to their end by this process."""
        return self.num_runs - self._counts.total() + self._counts["cancelled"] + self._counts["busy"]

    @property
    def state(self) -> Literal["ok", "failed", "cancelled"]:
        if self._counts["cancelled"]:
            return "cancelled"
        return "failed" if self.failures else "ok"

    def to_plain(self) -> dict[str, Any]:
        """The last line of a sweep's JSON."""
        failures = [
            {"overrides": dict(each.overrides), "folder": str(each.folder), "error": each.error, "code": each.code}
            for each in self.failures
        ]
        return {
            "kind": "sweep",
            "state": self.state,
            "runs": self.num_runs,
            **{state: self._counts[state] for state in ("ok", "resumed", "failed", "busy")},
            "left": self.num_left,
            "why_ended": self.why_ended or None,
            "failures": failures,
        }


def _reason(report: Report) -> tuple[str, int]:
    """What makes two failures alike, and how many of those are enough."""
    failure = report.failure
    cause = failure and failure.__cause__
    is_cheap = isinstance(cause, ValueError) and code_of(cause) != NotFinite.code
    if cause is not None and is_cheap and not isinstance(cause.__cause__, OSError):  # the disk was full, say
        return report.error, MOST_REFUSED
    return re.sub(r"\d+", "", failure.sentence if failure else report.error), MOST_FAULTS
