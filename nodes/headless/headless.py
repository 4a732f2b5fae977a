"""Run a workflow file without a page: sweeps, one folder per run, resume, manifests.

A *sweep* is one run for each combination of values; each has a folder, a lock and a manifest of its own, by which
`--resume` knows what is left.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ...parallel.errors import code_of
from ..execution.attempt import Caches, attempt, open_caches, workspace_of
from ..execution.events import Event, Sink
from ..execution.failure import NodeFailed
from ..execution.manifest import as_made, has_failed, is_complete
from ..execution.overlap import next_on, overlapped, width_of
from ..execution.preflight import UNKNOWN_WORDS, blocking
from ..execution.schedule import schedule
from ..execution.watch import Token
from ..files.workspace import Workspace
from ..graph.problems import GraphError
from ..graph.ready import ready
from ..preview.choices import sharing_of
from ..registry import SPECS
from .foretold import Point, with_remedy
from .job import Headless, points_of, told_of
from .lifetime import LOCK_FILE, InUse, claimed
from .reports import Report, Tally

logger = logging.getLogger("latentloom")


def run_headless(
    job: Headless, tally: Tally, *, sink: Sink = lambda event: None, cancel: Token | None = None
) -> Iterator[Report]:
    """Run the sweep, one report after each run, which `tally` counts; it goes on past a run that fails, and ends with
    one that is cancelled, or when `tally` says so.

    Raises `GraphError` or `ValueError` before anything runs when the file, the values or the output folder are wrong,
    or another process writes there. With `resume`, runs that have failed before come last, and those that another
    process is making are left to it.
    """
    points, bad = _foretold(job, points_of(job))
    for report in bad:
        tally.add(report)
        yield report
        if tally.why_ended:
            return
    if not (job.resume and job.out.is_dir()):
        Workspace(output_dir=job.out).check_writable()
    busy = points if not job.resume or len(points) == 1 else ()
    for point in busy:  # raises `InUse` rather than after some work
        if (point.folder / LOCK_FILE).exists():
            with claimed(point.folder):
                pass
    left = [point for point in points if job.shares_out and not (job.resume and _is_complete(job, point))]
    workspace = Workspace(output_dir=job.out, roots=job.roots, place=job.place)
    if job.shares_out and (sharing := sharing_of([point.ready for point in left], workspace=workspace)) is not None:
        place, why = sharing
        logger.info("%s", why)
        sink(Event(kind="shared_out", run="", message=why, done=0, total=place.replicas))
        job = dataclasses.replace(job, place=place)
    caches, width = open_caches(job.cache_dir), width_of(job.place)

    def made(points: Sequence[Point]) -> Iterator[tuple[Point, Report]]:
        attempts = (partial(_attempt, job, point, caches) for point in points)
        runs = overlapped(attempts, width=width, sink=sink, cancel=cancel, starts=next_on(job.place))
        return zip(points, runs, strict=True)

    if job.resume:
        points = sorted(points, key=lambda point: has_failed(point.folder, as_made(point.folder, point.graph)))
    for report in _busy_last(points, made):
        tally.add(report)
        yield report
        if report.state == "cancelled" or tally.why_ended:
            return


def _foretold(job: Headless, points: Sequence[Point]) -> tuple[list[Point], list[Report]]:
    """The points that may be begun, and what is wrong with the others. Raises `GraphError` where none may."""
    foretold = told_of(job, points, is_complete=lambda point: job.resume and _is_complete(job, point))
    notes = [problem for told in foretold for problem in told.problems if problem.code == UNKNOWN_WORDS]
    if texts := list(dict.fromkeys(map(str, notes))):  # in one line, however many texts a sweep has
        logger.warning("%s%s", texts[0], f"; so it is with {len(texts) - 1} more texts" if texts[1:] else "")
    good: list[Point] = []
    bad: list[tuple[Point, GraphError]] = []
    for point, told in zip(points, foretold, strict=True):
        problems = [with_remedy(problem) for problem in blocking(told.problems, is_forced=job.is_forced)]
        if not problems or (job.resume and _is_complete(job, point)):  # what is there already needs no room
            good.append(point)
        else:
            bad.append((point, GraphError(problems)))
    if not good:
        raise bad[0][1]
    return good, [
        Report(folder=p.folder, overrides=p.overrides, problem=str(e), problem_code=e.code, is_foretold=True)
        for p, e in bad
    ]


def _busy_last(
    points: Sequence[Point], made: Callable[[Sequence[Point]], Iterable[tuple[Point, Report]]]
) -> Iterator[Report]:
    """By the end, what another process was making may be there."""
    busy: list[Point] = []
    for point, report in made(points):
        if report.state == "busy":
            busy.append(point)
        else:
            yield report
    for _, report in made(busy):
        yield report


def _attempt(job: Headless, point: Point, caches: Caches, sink: Sink, cancel: Token) -> Report:
    """One point; what keeps it from being made is in the report."""
    report = Report(folder=point.folder, overrides=point.overrides)
    if job.resume and _is_complete(job, point):
        return report
    try:
        with claimed(point.folder):
            if job.resume and _is_complete(job, point):  # another process has just made it
                return report
            prepared = point.ready()
            workspace = workspace_of(
                prepared, point.folder, roots=job.roots, place=job.place, max_pixels=job.max_pixels
            )
            made = attempt(prepared, workspace=workspace, caches=caches, sink=sink, cancel=cancel)
    except InUse as error:
        is_busy = job.resume and len(job.sweep) > 1
        return dataclasses.replace(report, problem=str(error), problem_code=error.code, is_busy=is_busy)
    except ValueError as error:
        return dataclasses.replace(report, problem=str(error), problem_code=code_of(error))
    return dataclasses.replace(report, result=made.result, problem=made.problem, problem_code=made.problem_code)


def _is_complete(job: Headless, point: Point) -> bool:
    """Whether the run is there already, made from the very same files. An input that cannot be read is told later."""
    graph = as_made(point.folder, point.graph)
    prepared = ready(graph, SPECS, workspace=Workspace(roots=job.roots, host="command line"))
    workspace = workspace_of(prepared, point.folder, roots=job.roots, place=job.place, max_pixels=job.max_pixels)
    try:
        keys = schedule(prepared, workspace=dataclasses.replace(workspace, claims=None)).keys
    except NodeFailed:
        return False
    return is_complete(point.folder, graph, keys)
