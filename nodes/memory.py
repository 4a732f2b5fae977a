"""How much memory a node needed at its peak: of the GPU where one is in use, else of this process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


class PeakMemory:
    """A context that measures while it is open. Nodes that overlap would disturb each other: one at a time."""

    def __init__(self, *, measure: bool) -> None:
        self.peak_bytes = 0
        self._measure = measure

    def __enter__(self) -> PeakMemory:
        if self._measure:
            _reset()
        return self

    def __exit__(self, *error: object) -> None:
        if self._measure:
            self.peak_bytes = _peak()


def _cuda() -> Any | None:
    # looking at CUDA must not start it, nor import torch
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def _reset() -> None:
    if cuda := _cuda():
        for device in range(cuda.device_count()):
            cuda.reset_peak_memory_stats(device)
        return
    try:
        RESET.write_text("5")  # Linux: set the high-water mark back to what is in use
    except OSError:
        pass


def _peak() -> int:
    if cuda := _cuda():
        return max(cuda.max_memory_allocated(device) for device in range(cuda.device_count()))
    try:
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return 0
