"""What each run told, as the lines of JSON that `latentloom run --json` prints; the newest of some runs, in memory.

Files and folders are named as this API names them: `/loom/files/ID`, and a folder below the output folder. What a
server that ended was told is gone with it: of a run that was over by then its result is left.
"""

import dataclasses
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ...nodes.execution.events import Event
from ...nodes.headless.stream import STREAM
from ...parallel.errors import Cancelled, as_told
from .state import MadeFile, RunRecord

MOST_LINES, MOST_RUNS = 1000, 100  # the newest of each; so many runs that told something last
STATES = {"done": "ok"}
FILE = "/loom/files/{}"

Line = tuple[int, str, Event]  # its number, from 1 on, the time, and what was told


@dataclass
class _Log:
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    num: int = 0
    recoveries: list[dict[str, str]] = field(default_factory=list[dict[str, str]])


class RunLines:
    """Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: OrderedDict[str, _Log] = OrderedDict()

    def add(self, run: RunRecord, event: Event) -> None:
        if event.kind == "preview":
            return
        with self._lock:
            log = self._logs.setdefault(run.id, _Log())
            self._logs.move_to_end(run.id)
            if len(self._logs) > MOST_RUNS:
                self._logs.popitem(last=False)
            log.num += 1
            if event.is_again:
                log.recoveries.append({"node": event.node, "message": event.message})
            told = dataclasses.replace(event, run=run.id, point=run.point)
            if event.kind == "run_started":
                told = dataclasses.replace(told, folder=run.folder, overrides=run.overrides)
            log.lines.append((log.num, _at(time.time()), told))

    def add_made(self, run: RunRecord, made: MadeFile) -> None:
        self.add(run, Event(kind="saved", run=run.id, node=made.node, message=FILE.format(made.id)))

    def after(self, id: str, number: int) -> list[tuple[int, dict[str, Any]]]:
        """The run's lines behind this one, each with its number."""
        with self._lock:
            log = self._logs.get(id)
            found = [line for line in log.lines if line[0] > number] if log else []
        return [(num, {"v": STREAM, "seq": num, "time": at, **event.to_plain()}) for num, at, event in found]

    def result(self, run: RunRecord, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """The last line of a run that is over; `outputs` are what it made that is no file."""
        with self._lock:
            log = self._logs.get(run.id) or _Log()
        code = Cancelled.code if run.state == "cancelled" else run.code
        return {
            "v": STREAM,
            "seq": log.num + 1,
            "time": _at(run.ended or run.created),
            "kind": "result",
            "run": run.id,
            "point": max(run.point, 1),
            "state": STATES.get(run.state, run.state),
            "folder": run.folder,
            "overrides": run.overrides,
            "files": [FILE.format(made.id) for made in run.made],
            "outputs": outputs,
            "seconds": run.seconds,
            "recoveries": list(log.recoveries),
            "error": run.error or None,
            **(as_told(code) if code else {"code": None, "where": None, "retryable": None}),
        }


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
