"""A process of ours that is told things and answers, a line of JSON each: heard with a deadline, ended at once.

What it does may hang, or take all memory: whoever asks it goes on without it.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from ..wording import SAID, remember

END_S = 5.0  # for a killed process to go


class Talking:
    """Python with these arguments. `close` it, from any thread and more than once."""

    def __init__(self, *arguments: str, name: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", *arguments],  # no module is taken from the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # a Ctrl-C in the terminal reaches the host, which decides
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name=f"latentloom {name}", daemon=True).start()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def tell(self, order: Mapping[str, Any]) -> None:
        """Raises `OSError` where it is gone."""
        assert self._process.stdin is not None, "it was asked for"
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def hear(self, *, timeout_s: float) -> dict[str, Any]:
        """The next that it says. Raises `TimeoutError`, and `ConnectionError` once it has ended."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"nothing came for {timeout_s:g} s") from None
        if not line:
            raise ConnectionError("it ended")
        said = json.loads(line)
        remember(said.pop(SAID, {}))
        return said

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None, "it was asked for"
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put("")  # the end: each line has at least its own
        self._process.stdout.close()
