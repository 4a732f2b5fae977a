"""A run's events as progress bars for people at a terminal: one line per node, a bar for those with steps."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .events import Event


class ProgressBars:
    """An event sink; call `close` when the run is over."""

    def __init__(self, titles: Mapping[str, str]) -> None:
        self._titles = titles
        self._bars: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        name = self._titles.get(event.node, event.node)
        if event.kind == "progress":
            self._advance(event, name)
        elif event.kind == "phase" and event.message.startswith("loading"):
            self._line(f"{name:<18} {event.message}")
        elif event.kind == "finished":
            self._end(event.node)
            self._line(f"{name:<18} {event.seconds:6.2f} s")
        elif event.kind == "cached":
            self._line(f"{name:<18} cached")
        elif event.kind in ("failed", "skipped"):
            self._end(event.node)
            self._line(f"{name:<18} {event.kind}")

    def close(self) -> None:
        for node in list(self._bars):
            self._end(node)

    def _advance(self, event: Event, name: str) -> None:
        from tqdm import tqdm

        if event.node not in self._bars:
            self._bars[event.node] = tqdm(total=event.total, desc=f"{name:<18}", unit="step", leave=False)
        bar = self._bars[event.node]
        bar.update(event.done - bar.n)

    def _end(self, node: str) -> None:
        if bar := self._bars.pop(node, None):
            bar.close()

    def _line(self, text: str) -> None:
        from tqdm import tqdm

        tqdm.write(text, file=sys.stderr)
