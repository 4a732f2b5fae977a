"""How much memory a node needed at its peak: of the GPU where one is in use, else of this process."""

from __future__ import annotations

import sys

from ...pipelines.spreading.measured import peak, reset_peak


class PeakMemory:
    """A context that measures while it is open. Nodes that overlap would disturb each other: one at a time."""

    def __init__(self, *, measure: bool) -> None:
        self.peak_bytes = 0
        self._measure = measure

    def __enter__(self) -> PeakMemory:
        if self._measure:
            for device in _devices():
                reset_peak(device)
        return self

    def __exit__(self, *error: object) -> None:
        if self._measure:
            self.peak_bytes = max(map(peak, _devices()))


def _devices() -> list[str]:
    # looking at CUDA must not start it, nor import torch
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ["cpu"]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
