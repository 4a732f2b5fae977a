"""The newest preview of each node, turned into a small WebP only when somebody asks for it."""

from __future__ import annotations

import threading
from collections import OrderedDict

from ...nodes.files.thumbnails import preview_webp
from ..worker.wire import Picture

SIDE = 512
KEPT_RUNS = 20


class Previews:
    """The newest previews of the runs that had one last; threads may share it."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[str, Picture | bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, run: str, node: str, picture: Picture) -> None:
        with self._lock:
            self._runs.setdefault(run, {})[node] = picture
            self._runs.move_to_end(run)
            while len(self._runs) > KEPT_RUNS:
                self._runs.popitem(last=False)

    def get(self, run: str, node: str) -> bytes | None:
        with self._lock:
            known = self._runs.get(run, {}).get(node)
        if known is None or isinstance(known, bytes):
            return known
        data = preview_webp(known.pixels, size=(known.width, known.height), side=SIDE)
        with self._lock:
            if self._runs.get(run, {}).get(node) is known:
                self._runs[run][node] = data
        return data

    def forget(self, run: str) -> None:
        with self._lock:
            self._runs.pop(run, None)
