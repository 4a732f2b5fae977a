"""What a headless run tells a terminal: events as lines or as JSON, reports, and how a sweep ended."""

import json
import math
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...parallel.errors import Cancelled
from ...pipelines.costs.run import duration
from ..execution.events import Event
from ..execution.manifest import MANIFEST_FILE
from ..execution.records import RunResult
from ..graph.graph import Graph
from .headless import Report, Tally, report_of, run_headless
from .job import Headless
from .lifetime import end_at_once, interrupts
from .stream import print_end, print_line, print_nothing

LONG_S = 5.0  # a phase that is predicted to take so long says so, since it has no steps to watch
SHOWN_FAILURES = 20
MOST_SHOWN = 2000  # characters of an output that a terminal is given
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}, {rate_fmt}{postfix}]"
POLL_S = 0.2
MOST_LOADING_S = 3.0  # after it was asked to end: what only loads may be minutes from its next step, and loses nothing


def run_shown(
    job: Headless,
    *,
    as_json: bool,
    debug: bool,
    stops_on_error: bool,
    is_quiet: bool = False,
    openjd: bool = False,
    grace_s: float = 0.0,
) -> Tally:
    """Run a job until it ends or is asked to, and tell of it; where it `is_quiet` of what came of it alone, with
    `debug` also where an error came from, with `openjd` in lines that sessions of Open Job Description take for a
    task's progress and failure.

    Asked by Ctrl-C or SIGTERM it ends at its next step; with a grace what is under way is finished within so many
    seconds, and nothing else is begun.
    """
    points = {point.number: point for point in job.points}
    cancel, over = threading.Event(), threading.Event()
    bars = ProgressBars({number: point.graph for number, point in points.items()})
    tell = (lambda event: None) if is_quiet else partial(print_event, cancel) if as_json else bars
    tally = Tally(len(job.points) + len(job.refused), stops_on_error=stops_on_error)
    under_way: dict[str, Event] = {}  # the latest of each run

    def sink(event: Event) -> None:
        tell(event)
        if event.run:  # the groups of a sweep are of none
            under_way[event.run] = event

    def end_in_time() -> None:
        """In a thread of its own: what is beyond the grace is cancelled, and what then only loads is not waited for."""
        asked_time = cancel_time = math.inf
        while not over.wait(POLL_S):
            now = time.monotonic()
            asked_time = min(asked_time, now) if tally.finish.is_set() else math.inf
            if now - asked_time > grace_s:
                cancel.set()
            cancel_time = min(cancel_time, now) if cancel.is_set() else math.inf
            left = list(under_way.values())  # at one moment: runs tell meanwhile
            if now - cancel_time > MOST_LOADING_S and all(latest.is_loading for latest in left):
                break
        else:
            return
        tally.is_cancelled = True
        for latest in left:
            ended = RunResult(run=latest.run, state="cancelled", outputs={}, nodes={}, seconds=latest.time_s)
            report = replace(report_of(points[latest.point]), result=ended)
            tally.add(report)
            print_report(report, as_json=as_json, debug=debug)
        if job.is_sweep:
            print_tally(tally, as_json=as_json)
        elif as_json and not left:
            print_end(Cancelled())
        end_at_once()

    threading.Thread(target=end_in_time, daemon=True).start()
    with interrupts(cancel, tally.finish if grace_s else None):
        try:
            for done, report in enumerate(run_headless(job, tally, sink=sink, cancel=cancel), 1):
                if report.result is not None:
                    under_way.pop(report.result.run, None)
                print_report(report, as_json=as_json, debug=debug, is_one_of_many=job.is_sweep)
                if openjd and report.error:
                    print(f"openjd_fail: {' '.join(report.error.split())}", flush=True)
                if openjd:
                    print(f"openjd_progress: {100 * done / tally.num_runs:.0f}", flush=True)
            if job.is_sweep:
                print_tally(tally, as_json=as_json)
        except BrokenPipeError:  # of a result
            print_nothing()
            tally.is_cancelled = tally.num_left > 0
        finally:
            over.set()
    return tally


@dataclass(eq=False)
class ProgressBars:
    """An event sink, also of several runs at a time; nodes are called as the workflow of their point has them. What is
    no terminal, a file say, gets whole lines alone, of steps one for each quarter."""

    graphs: Mapping[int, Graph]  # by the numbers of their points
    _has_bars: bool = field(init=False, default_factory=lambda: sys.stderr.isatty())
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _bars: dict[tuple[str, str], Any] = field(init=False, default_factory=dict[tuple[str, str], Any])

    def __call__(self, event: Event) -> None:
        graph = self.graphs.get(event.point)
        node = graph.nodes.get(event.node) if graph else None
        name = (node and node.title) or event.node
        with self._lock:  # runs that overlap tell from threads of their own
            if event.kind == "progress":
                if self._has_bars:
                    self._advance(event, name)
                elif 4 * event.done // max(1, event.total) > 4 * (event.done - 1) // max(1, event.total):
                    self._line(f"{name:<18} {event.done} of {event.total} steps")
            elif event.kind == "phase" and not event.is_loading and (event.left_s or 0.0) >= LONG_S:
                self._line(f"{name:<18} {event.message}, about {duration(event.left_s or 0.0)}")
            elif event.kind == "spread" and len(event.ranks) > 1:
                self._line(f"{name:<18} {event.message} on {len(event.ranks)} ranks")
            elif event.is_loading or event.kind in ("foreseen", "took", "shared_out"):
                self._line(f"{name:<18} {event.message}")
            elif event.kind == "finished":
                if self._bars:
                    self._end((event.run, event.node))
                self._line(f"{name:<18} {event.seconds:6.2f} s")
            elif event.kind in ("run_finished", "run_failed", "run_cancelled"):
                for key in [key for key in self._bars if key[0] == event.run]:
                    self._end(key)
            elif event.kind in ("cached", "failed", "skipped"):
                self._end((event.run, event.node))
                self._line(f"{name:<18} {event.kind}")

    def _advance(self, event: Event, name: str) -> None:
        from tqdm import tqdm

        key = (event.run, event.node)
        if key not in self._bars:
            self._bars[key] = tqdm(total=event.total, desc=f"{name:<18}", unit="step", leave=False, bar_format=BAR)
        bar = self._bars[key]
        left_s = event.run_left_s if event.run_left_s is not None else event.left_s
        bar.set_postfix_str(f"about {duration(left_s)} left" if left_s else "", refresh=False)
        bar.update(event.done - bar.n)

    def _end(self, key: tuple[str, str]) -> None:
        if bar := self._bars.pop(key, None):
            bar.close()

    def _line(self, text: str) -> None:
        if not self._has_bars:
            print(text, file=sys.stderr, flush=True)
            return
        from tqdm import tqdm

        tqdm.write(text, file=sys.stderr)


def print_event(cancel: threading.Event, event: Event) -> None:
    """As JSON; a reader that went away ends the run."""
    if event.kind == "preview":
        return
    try:
        print_line(event.to_plain())
    except BrokenPipeError:
        print_nothing()
        cancel.set()


def print_report(report: Report, *, as_json: bool, debug: bool, is_one_of_many: bool = False) -> None:
    """Where the result is and what of it is no file, or why there is none."""
    result = report.result
    if as_json:
        print_line(report.to_plain())
    elif report.state == "resumed":
        print(f"{report.folder}: complete already")
    elif report.state == "cancelled":
        print("latentloom: cancelled; nothing was left half-written", file=sys.stderr)
    elif report.state == "ok":
        manifest = report.folder / MANIFEST_FILE
        before = f"{report.folder}: " if is_one_of_many else ""
        told = [before + _output_line(name, value, manifest) for name, value in report.outputs.items()]
        print("\n".join([*report.files, *told]) or f"done; see {manifest}")
    if report.error and not as_json:
        print(f"latentloom: {report.error}", file=sys.stderr)
    if debug and result is not None and result.failure is not None:
        traceback.print_exception(result.failure.__cause__)


def _output_line(name: str, value: Any, manifest: Path) -> str:
    """An output in words: text as it is, all else as JSON. Cut where it is long; what a terminal would obey or
    cannot write is spelt out."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    rest = f" ... ({len(text):,} characters; all of it is in {manifest})" if len(text) > MOST_SHOWN else ""
    whole = f"{name}: {text[:MOST_SHOWN]}"
    seen = "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in whole)
    encoding = sys.stdout.encoding or "utf-8"
    return seen.encode(encoding, "backslashreplace").decode(encoding) + rest


def print_tally(tally: Tally, *, as_json: bool) -> None:
    """Once, after the last run of a sweep: what failed, and what is left to do."""
    if as_json:
        print_line(tally.to_plain())
        return
    lines = []
    if tally.failures:
        lines.append(f"{len(tally.failures)} of {tally.num_runs} runs failed:")
        lines += [f"  {each.folder}: {each.error}" for each in tally.failures[:SHOWN_FAILURES]]
    if (num_more := len(tally.failures) - SHOWN_FAILURES) > 0:
        lines.append(f"  ... and {num_more} more; each manifest.json says why")
    if tally.why_ended:
        lines.append(f"the sweep ended early, because {tally.why_ended}")
    if num_busy := tally.counts["busy"]:
        lines.append(f"{num_busy} of {tally.num_runs} runs are being made by other processes, and are not done yet")
    if tally.num_left:
        lines.append(f"--resume makes the {tally.num_left} that are left, and tries those that failed once more")
    elif tally.failures:
        lines.append("--resume tries those that failed once more")
    if lines:
        print("latentloom: " + "\n".join(lines), file=sys.stderr)
