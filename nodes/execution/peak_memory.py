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
            for device in devices_in_use():
                reset_peak(device)
        return self

    def __exit__(self, *error: object) -> None:
        if self._measure:
            self.peak_bytes = max(map(peak, devices_in_use()))


def has_torch() -> bool:
    """Whether this process has loaded it: what needs it first waits for that."""
    return "torch" in sys.modules


def devices_in_use() -> list[str]:
    # looking at CUDA must not start it, nor import torch
    if not has_torch():
        return ["cpu"]
    import torch  # waits where a node beside this one is not yet through with importing it

    if not torch.cuda.is_initialized():
        return ["cpu"]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
