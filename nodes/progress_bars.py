"""A run's events as progress bars for people at a terminal: one line per node, a bar for those with steps."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

from .events import Event


class ProgressBars:
    """An event sink, also of several runs at a time."""

    def __init__(self, titles: Mapping[str, str]) -> None:
        self._titles = titles
        self._lock = threading.Lock()
        self._bars: dict[tuple[str, str], Any] = {}

    def __call__(self, event: Event) -> None:
        with self._lock:  # runs that overlap tell from threads of their own
            self._show(event)

    def _show(self, event: Event) -> None:
        name = self._titles.get(event.node, event.node)
        if event.kind == "progress":
            self._advance(event, name)
        elif event.kind == "spread" and len(event.ranks) > 1:
            self._line(f"{name:<18} {event.message} on {len(event.ranks)} ranks")
        elif event.kind == "phase" and event.message.startswith(("loading", "starting again")):
            self._line(f"{name:<18} {event.message}")
        elif event.kind == "finished":
            self._end((event.run, event.node))
            self._line(f"{name:<18} {event.seconds:6.2f} s")
        elif event.kind == "cached":
            self._line(f"{name:<18} cached")
        elif event.kind in ("run_finished", "run_failed", "run_cancelled"):
            self._end_run(event.run)
        elif event.kind in ("failed", "skipped"):
            self._end((event.run, event.node))
            self._line(f"{name:<18} {event.kind}")

    def _end_run(self, run: str) -> None:
        for key in [key for key in self._bars if key[0] == run]:
            self._end(key)

    def _advance(self, event: Event, name: str) -> None:
        from tqdm import tqdm

        key = (event.run, event.node)
        if key not in self._bars:
            self._bars[key] = tqdm(total=event.total, desc=f"{name:<18}", unit="step", leave=False)
        bar = self._bars[key]
        bar.update(event.done - bar.n)

    def _end(self, key: tuple[str, str]) -> None:
        if bar := self._bars.pop(key, None):
            bar.close()

    def _line(self, text: str) -> None:
        from tqdm import tqdm

        tqdm.write(text, file=sys.stderr)
