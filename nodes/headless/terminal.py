"""What a headless run tells a terminal: events as lines or as JSON, reports, and how a sweep ended."""

import itertools
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...pipelines.costs.run import duration
from ..execution.events import Event
from ..execution.manifest import MANIFEST_FILE
from ..graph.graph import Graph
from .headless import Report, Tally, run_headless
from .job import Headless
from .lifetime import interrupts

LONG_S = 5.0  # a phase that is predicted to take so long says so, since it has no steps to watch
SHOWN_FAILURES = 20
MOST_SHOWN = 2000  # characters of an output that a terminal is given
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}, {rate_fmt}{postfix}]"

STREAM = 1  # the version of the lines of JSON: of another one, keys that were there may mean something else
_numbers = itertools.count(1)
_printing = threading.Lock()  # runs that overlap tell of their events from threads of their own


def run_shown(job: Headless, *, as_json: bool, debug: bool, stops_on_error: bool, openjd: bool = False) -> Tally:
    """Run a job until it ends or Ctrl-C is pressed, and tell of it; with `debug` also where an error came from, with
    `openjd` in lines that sessions of Open Job Description take for a task's progress and failure."""
    cancel = threading.Event()
    sink = event_printer(cancel) if as_json else ProgressBars({point.number: point.graph for point in job.points})
    tally = Tally(len(job.points) + len(job.refused), stops_on_error=stops_on_error)
    with interrupts(cancel):
        for done, report in enumerate(run_headless(job, tally, sink=sink, cancel=cancel), 1):
            print_report(report, as_json=as_json, debug=debug, is_one_of_many=job.is_sweep)
            if openjd and report.error:
                print(f"openjd_fail: {' '.join(report.error.split())}", flush=True)
            if openjd:
                print(f"openjd_progress: {100 * done / tally.num_runs:.0f}", flush=True)
        if job.is_sweep:
            print_tally(tally, as_json=as_json)
    return tally


class ProgressBars:
    """An event sink, also of several runs at a time; nodes are called as the workflow of their point has them."""

    def __init__(self, graphs: Mapping[int, Graph]) -> None:
        self._graphs = graphs
        self._lock = threading.Lock()
        self._bars: dict[tuple[str, str], Any] = {}

    def __call__(self, event: Event) -> None:
        graph = self._graphs.get(event.point)
        node = graph.nodes.get(event.node) if graph else None
        name = (node and node.title) or event.node
        with self._lock:  # runs that overlap tell from threads of their own
            if event.kind == "progress":
                self._advance(event, name)
            elif event.kind == "phase" and not event.is_loading and (event.left_s or 0.0) >= LONG_S:
                self._line(f"{name:<18} {event.message}, about {duration(event.left_s or 0.0)}")
            elif event.kind == "spread" and len(event.ranks) > 1:
                self._line(f"{name:<18} {event.message} on {len(event.ranks)} ranks")
            elif event.is_loading or event.kind in ("foreseen", "took", "shared_out"):
                self._line(f"{name:<18} {event.message}")
            elif event.kind == "finished":
                self._end((event.run, event.node))
                self._line(f"{name:<18} {event.seconds:6.2f} s")
            elif event.kind == "cached":
                self._line(f"{name:<18} cached")
            elif event.kind in ("run_finished", "run_failed", "run_cancelled"):
                for key in [key for key in self._bars if key[0] == event.run]:
                    self._end(key)
            elif event.kind in ("failed", "skipped"):
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
        from tqdm import tqdm

        tqdm.write(text, file=sys.stderr)


def event_printer(cancel: threading.Event) -> Callable[[Event], None]:
    """Prints events as JSON; a reader that went away ends the run."""

    def show(event: Event) -> None:
        if event.kind == "preview":
            return
        try:
            _print_line(event.to_plain())
        except BrokenPipeError:
            sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (Python would complain once more when it ends)
            cancel.set()

    return show


def _print_line(plain: Mapping[str, Any]) -> None:
    with _printing:
        told = {"v": STREAM, "seq": next(_numbers), "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        print(json.dumps({**told, **plain}), flush=True)


def print_report(report: Report, *, as_json: bool, debug: bool, is_one_of_many: bool = False) -> None:
    """Where the result is and what of it is no file, or why there is none."""
    result = report.result
    if as_json:
        _print_line(report.to_plain())
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
        _print_line(tally.to_plain())
        return
    lines = []
    if tally.failures:
        lines.append(f"{len(tally.failures)} of {tally.num_runs} runs failed:")
        lines += [f"  {each.folder}: {each.error}" for each in tally.failures[:SHOWN_FAILURES]]
    if (num_more := len(tally.failures) - SHOWN_FAILURES) > 0:
        lines.append(f"  ... and {num_more} more; each manifest.json says why")
    if tally.why_ended:
        lines.append(f"the sweep ended early, because {tally.why_ended}")
    if num_busy := tally.count("busy"):
        lines.append(f"{num_busy} of {tally.num_runs} runs are being made by other processes, and are not done yet")
    if tally.num_left:
        lines.append(f"--resume makes the {tally.num_left} that are left, and tries those that failed once more")
    elif tally.failures:
        lines.append("--resume tries those that failed once more")
    if lines:
        print("latentloom: " + "\n".join(lines), file=sys.stderr)
