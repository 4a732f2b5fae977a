"""What a headless run tells a terminal or a script: reports, events as JSON, and what Ctrl-C does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .atomic import remove_temporaries
from .events import Event
from .headless import Report

CANCELLED = 130

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
    elif result is None:
        print(f"{report.folder}: complete already")
    elif result.state == "cancelled":
        print("latentloom: cancelled; nothing was left half-written", file=sys.stderr)
    elif result.state == "ok":
        print("\n".join(report.files) or f"done; see {report.folder / 'manifest.json'}")
    if report.error and not as_json:
        print(f"latentloom: {report.error}", file=sys.stderr)
    if debug and result is not None and result.failure is not None:
        traceback.print_exception(result.failure.__cause__)


@contextlib.contextmanager
def interrupts(cancel: threading.Event) -> Iterator[None]:
    """The first Ctrl-C asks the run to end at its next step, the second ends the process."""

    def ask(signum: int, frame: object) -> None:
        if cancel.is_set():
            remove_temporaries()
            os._exit(CANCELLED)  # threads in the middle of a step cannot be stopped in any other way
        cancel.set()
        print("\nstopping at the next step; Ctrl-C again to stop at once", file=sys.stderr)

    handlers = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
