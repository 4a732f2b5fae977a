"""Run a workflow file without a page: sweeps, one folder per run, resume, manifests; what became of each run.

A *sweep* is one run for each combination of values; each has a folder, a lock and a manifest of its own, by which
`--resume` knows what is left. A *report* is what became of one run of it, the *tally* counts them.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...parallel.errors import Cancelled, LoomError, as_told, code_of, where_of
from ...pipelines.failures import NotFinite
from ..execution.attempt import Caches, attempt, open_caches, workspace_of
from ..execution.events import Event, Sink
from ..execution.failure import NodeFailed
from ..execution.manifest import MANIFEST_FILE, as_made, files_told_by, has_failed, is_complete, outputs_told_by
from ..execution.preflight import UNKNOWN_WORDS, blocking
from ..execution.records import RunResult
from ..execution.schedule import schedule
from ..execution.watch import Token, next_on, overlapped, width_of
from ..files.picture_files import WORKFLOW_KEY
from ..files.workspace import Workspace
from ..graph.problems import GraphError, Problem
from ..graph.ready import ready
from ..preview.choices import sharing_of
from ..registry import SPECS
from .foretold import Point, with_remedy
from .job import Headless, told_of
from .lifetime import LOCK_FILE, InUse, claimed
from .workflow_files import is_others

logger = logging.getLogger("latentloom")


def run_headless(
    job: Headless, tally: Tally, *, sink: Sink = lambda event: None, cancel: Token | None = None
) -> Iterator[Report]:
    """Run the points, one report after each run, which `tally` counts; it goes on past a run that fails, and ends with
    one that is cancelled, or when `tally` says so.

    Raises `GraphError` or `ValueError` before anything runs when the file, the values or the output folder are wrong,
    or another process writes there. With `resume`, runs that have failed before come last, and those that another
    process is making are left to it.
    """
    points, bad = _foretold(job)
    for report in bad:
        tally.add(report)
        yield report
        if tally.why_ended:
            return
    if not (job.resume and job.out.is_dir()):
        Workspace(output_dir=job.out).check_writable()
    busy = points if not (job.resume and job.is_sweep) else ()
    for point in busy:  # raises `InUse` rather than after some work
        if (point.folder / LOCK_FILE).exists():
            with claimed(point.folder):
                pass
    is_shared = job.shares_out and len(job.place.devices) > 1
    left = [point for point in points if is_shared and not (job.resume and _is_complete(job, point))]
    workspace = Workspace(
        output_dir=job.out, roots=tuple({root for point in left for root in point.roots}), place=job.place
    )
    if is_shared and (sharing := sharing_of([point.ready for point in left], workspace=workspace)) is not None:
        place, why = sharing
        logger.info("%s", why)
        sink(Event(kind="shared_out", run="", message=why, done=0, total=place.replicas))
        job = replace(job, place=place)
    caches, width = open_caches(job.cache_dir), width_of(job.place)

    def made(points: Sequence[Point]) -> Iterator[tuple[Point, Report]]:
        attempts = (partial(_attempt, job, p, caches) for p in points if not tally.finish.is_set())
        runs = overlapped(attempts, width=width, sink=sink, cancel=cancel, starts=next_on(job.place))
        return zip(points, runs, strict=False)  # those that are not begun are left

    if job.resume:
        points = sorted(points, key=lambda point: has_failed(point.folder, as_made(point.folder, point.graph)))
    others: list[Point] = []  # by the end, what another process was making may be there
    for some in (points, others):
        for point, report in made(some):
            if report.state == "busy" and some is points:
                others.append(point)
                continue
            tally.add(report)
            yield report
            if report.state == "cancelled" or tally.why_ended:
                return
    if tally.finish.is_set() and tally.num_left:
        tally.why_ended = "it was asked to end"


def _foretold(job: Headless) -> tuple[list[Point], list[Report]]:
    """The points that may be begun, and what is wrong with the others. Raises `GraphError` where none may."""
    foretold = told_of(job, is_complete=lambda point: job.resume and _is_complete(job, point))
    notes = [problem for told in foretold for problem in told.problems if problem.code == UNKNOWN_WORDS]
    if texts := list(dict.fromkeys(map(str, notes))):  # in one line, however many texts a sweep has
        logger.warning("%s%s", texts[0], f"; so it is with {len(texts) - 1} more texts" if texts[1:] else "")
    good: list[Point] = []
    bad: list[tuple[Report, Sequence[Problem]]] = []
    for number, why in job.refused.items():
        report = Report(point=number, folder=job.out, overrides={}, problem=why, is_foretold=True)
        bad.append((report, [Problem("", "", why.code, str(why))]))
    for point, told in zip(job.points, foretold, strict=True):
        problems = [with_remedy(problem) for problem in blocking(told.problems, is_forced=job.is_forced)]
        if not problems or (job.resume and _is_complete(job, point)):  # what is there already needs no room
            good.append(point)
        else:
            if point.origin:
                problems = [Problem("", "", each.code, f"{point.origin}: {each}") for each in problems]
            bad.append((replace(report_of(point), problem=GraphError(problems), is_foretold=True), problems))
    if bad and not good:
        is_list = job.refused or job.points[0].origin
        raise GraphError(each for _, problems in (bad if is_list else bad[:1]) for each in problems)
    return good, sorted((report for report, _ in bad), key=lambda report: report.point)


def _attempt(job: Headless, point: Point, caches: Caches, sink: Sink, cancel: Token) -> Report:
    """One point; what keeps it from being made is in the report."""
    report = report_of(point)
    own: dict[str, Any] = {"point": point.number, "workflow": point.workflow}
    started: dict[str, Any] = {**own, "folder": str(point.folder), "overrides": point.overrides}
    if job.resume and _is_complete(job, point):
        return report
    try:
        with claimed(point.folder):
            if job.resume and _is_complete(job, point):  # another process has just made it
                return report
            prepared = point.ready()
            workspace = workspace_of(
                prepared, point.folder, roots=point.roots, place=job.place, max_pixels=job.max_pixels
            )
            if not job.overwrites:
                mine = workspace.metadata[WORKFLOW_KEY]
                workspace = replace(workspace, is_others=lambda file: is_others(file, mine))
            result, problem = attempt(
                prepared,
                workspace=workspace,
                caches=caches,
                sink=lambda e: sink(replace(e, **(started if e.kind == "run_started" else own))),
                cancel=cancel,
                command=job.command,
                targets=job.targets,
                shows=job.shows,
            )
    except ValueError as error:
        is_busy = isinstance(error, InUse) and job.resume and job.is_sweep
        return replace(report, problem=error, is_busy=is_busy)
    return replace(report, result=result, problem=problem)


def _is_complete(job: Headless, point: Point) -> bool:
    """Whether the run is there already, made from the very same files. An input that cannot be read is told later."""
    if not (point.folder / MANIFEST_FILE).exists():  # before anything is prepared: so it is with most
        return False
    graph = as_made(point.folder, point.graph)
    prepared = ready(graph, SPECS, workspace=Workspace(roots=point.roots, host="command line"))
    workspace = workspace_of(prepared, point.folder, roots=point.roots, place=job.place, max_pixels=job.max_pixels)
    try:
        keys = schedule(prepared, workspace=replace(workspace, claims=None)).keys
    except NodeFailed:
        return False
    return is_complete(point.folder, graph, keys)


# ---- What became of each run of a sweep, and of all of them together; and when going on is of no use.

# What the last line of a sweep says of a run that failed.
OF_FAILURE = ("point", "workflow", "overrides", "folder", "error", "code", "where", "retryable")
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

    point: int
    folder: Path
    overrides: Mapping[str, Any]
    workflow: str = ""  # the file, of several
    result: RunResult | None = field(repr=False, default=None)
    problem: Exception | None = None
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
    def failure(self) -> Exception | None:
        """What went wrong: a node, or what kept the run or its manifest from being made."""
        return (self.result and self.result.failure) or self.problem

    @property
    def error(self) -> str:
        """The same in one sentence; empty when nothing did."""
        return str(self.failure or "")

    @property
    def code(self) -> str:
        """What the error is, for programs (parallel/errors.py); empty when there is none."""
        if self.state == "cancelled":
            return Cancelled.code
        return code_of(self.failure) if self.failure else ""

    @property
    def files(self) -> tuple[str, ...]:
        """What the run wrote or found unchanged; also where it was complete already."""
        if self.result is not None:
            return tuple(f for node in self.result.nodes.values() for f in node.files)
        return files_told_by(self.folder) if self.state == "resumed" else ()

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
            "point": self.point,
            **({"workflow": self.workflow} if self.workflow else {}),
            "state": self.state,
            "folder": str(self.folder),
            "overrides": dict(self.overrides),
            "files": list(self.files),
            "outputs": self.outputs,
            "seconds": 0.0 if result is None else round(result.seconds, 4),
            **({"denoises": denoises} if denoises else {}),
            "recoveries": [{"node": n, "message": text} for n, record in nodes.items() for text in record.recoveries],
            "error": self.error or None,
            **(as_told(self.code) if self.code else {"code": None, "where": None, "retryable": None}),
        }


def report_of(point: Point) -> Report:
    """Of a run of which nothing is known yet."""
    return Report(point=point.number, folder=point.folder, overrides=point.overrides, workflow=point.workflow)


class Tally:
    """Counts the reports of a sweep, keeps those of failures, and says when to go no further."""

    def __init__(self, num_runs: int, *, stops_on_error: bool = False) -> None:
        self.num_runs = num_runs
        self.failures: list[Report] = []  # without their results and causes, which may be large
        self.counts: Counter[RunState] = Counter()
        self.why_ended = ""
        self.is_cancelled = False  # also where no run was under way
        self.finish = threading.Event()  # set: what is under way is finished, and nothing else begun
        self._stops_on_error = stops_on_error
        self._reason = ""
        self._num_alike = 0

    def add(self, report: Report) -> None:
        self.counts[report.state] += 1
        if report.state != "failed":
            self._num_alike = 0
            return
        self.failures.append(replace(report, result=None, problem=LoomError(report.error, code=report.code)))
        if self._stops_on_error:
            self.why_ended = "it was asked to stop at the first error"
        if self._stops_on_error or report.is_foretold:  # which says nothing of the runs that are begun
            return
        reason, most = _reason(report)
        self._num_alike = self._num_alike + 1 if reason == self._reason else 1
        self._reason = reason
        if self._num_alike >= most:
            self.why_ended = f"{most} runs in a row failed for the same reason"

    @property
    def num_left(self) -> int:
        """Runs that were not tried, or not to their end by this process."""
        return self.num_runs - self.counts.total() + self.counts["cancelled"] + self.counts["busy"]

    @property
    def is_retryable(self) -> bool:
        """Whether the same again makes more, at another time or on another machine: what was left when it was asked to
        end, or all that failed."""
        if self.finish.is_set() and self.num_left:
            return True
        return bool(self.failures) and all(where_of(each.code) == "machine" for each in self.failures)

    @property
    def state(self) -> Literal["ok", "failed", "cancelled", "ended"]:
        if self.is_cancelled or self.counts["cancelled"]:
            return "cancelled"
        if self.finish.is_set() and self.num_left:
            return "ended"
        return "failed" if self.failures else "ok"

    def to_plain(self) -> dict[str, Any]:
        """The last line of a sweep's JSON."""
        failures = [{k: v for k, v in each.to_plain().items() if k in OF_FAILURE} for each in self.failures]
        return {
            "kind": "sweep",
            "state": self.state,
            "retryable": self.is_retryable if self.state in ("failed", "ended") else None,
            "runs": self.num_runs,
            **{state: self.counts[state] for state in ("ok", "resumed", "failed", "busy")},
            "left": self.num_left,
            "why_ended": self.why_ended or None,
            "failures": failures,
        }


def _reason(report: Report) -> tuple[str, int]:
    """What makes two failures alike, and how many of those are enough."""
    node = report.failure if isinstance(report.failure, NodeFailed) else None
    cause = node and node.__cause__
    is_cheap = isinstance(cause, ValueError) and code_of(cause) != NotFinite.code
    if cause is not None and is_cheap and not isinstance(cause.__cause__, OSError):  # the disk was full, say
        return report.error, MOST_REFUSED
    return re.sub(r"\d+", "", node.sentence if node else report.error), MOST_FAULTS
