"""What a headless run tells a terminal or a script: events as JSON, reports, and what became of a sweep."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .events import Event
from .reports import Report, Tally

SHOWN_FAILURES = 20

_printing = threading.Lock()
"""Runs that overlap tell of their events from threads of their own."""


def event_printer(cancel: threading.Event) -> Callable[[Event], None]:
    """Prints events as JSON; a reader that went away ends the run."""

    def show(event: Event) -> None:
        if event.kind == "preview":
            return
        try:
            _print_line(event.to_plain())
        except BrokenPipeError:
            forget_stdout()
            cancel.set()

    return show


def _print_line(plain: Mapping[str, Any]) -> None:
    with _printing:
        print(json.dumps(plain), flush=True)


def forget_stdout() -> None:
    """Nobody reads any more; without this Python complains once more when it ends."""
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115


def print_report(report: Report, *, as_json: bool, debug: bool) -> None:
    """Where the result is, or why there is none."""
    result = report.result
    if as_json:
        _print_line(report.to_plain())
    elif report.state == "resumed":
        print(f"{report.folder}: complete already")
    elif report.state == "cancelled":
        print("latentloom: cancelled; nothing was left half-written", file=sys.stderr)
    elif report.state == "ok":
        print("\n".join(report.files) or f"done; see {report.folder / 'manifest.json'}")
    if report.error and not as_json:
        print(f"latentloom: {report.error}", file=sys.stderr)
    if debug and result is not None and result.failure is not None:
        traceback.print_exception(result.failure.__cause__)


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
