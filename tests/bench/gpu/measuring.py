"""Where a section of `one_gpu.py` runs, and how it measures: host and device time, kernels, syncs, rows of a table."""

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

SKIPPED = "needs a GPU"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A device, and whether shapes are so small that a CPU is done with them in seconds."""

    device: torch.device
    is_tiny: bool

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.is_gpu else torch.float32

    def wait(self) -> None:
        """Until the device has done all that it was given."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)


@dataclass(frozen=True)
class Took:
    """Milliseconds, medians: until the call returned, and until the device was done."""

    host_ms: float
    ms: float


def took(action: Callable[[], Any], bench: Bench, *, runs: int = 10, warm: int = 2) -> Took:
    for _ in range(warm):
        action()
    host, whole = [], []
    for _ in range(runs):
        bench.wait()
        start = time.perf_counter()
        action()
        host.append(time.perf_counter() - start)
        bench.wait()
        whole.append(time.perf_counter() - start)
    return Took(1000 * statistics.median(host), 1000 * statistics.median(whole))


def num_launched(action: Callable[[], Any], bench: Bench) -> int | str:
    """Kernels and copies on the device."""
    if not bench.is_gpu:
        return "-"
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        action()
        bench.wait()
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in seen.events() or ())


def num_syncs(action: Callable[[], Any], bench: Bench) -> int | str:
    """How often the host waited for the device, as torch warns of it."""
    if not bench.is_gpu:
        return "-"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            action()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in seen)


def head(*names: str) -> None:
    row(*names)
    row(*("---" for _ in names))


def row(*cells: object) -> None:
    print(
        "| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |", flush=True
    )


def reason(error: BaseException) -> str:
    """One line that fits into a table."""
    text = (str(error).strip() or "no reason given").splitlines()[0]
    return f"{type(error).__name__}: {text}"[:200].replace("|", "/")


def machine(bench: Bench, about: Sequence[str] = ()) -> str:
    """The device, and the versions of what runs on it."""
    facts = [f"torch {torch.__version__}"]
    if bench.is_gpu:
        properties = torch.cuda.get_device_properties(bench.device)
        kind = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, sm{properties.major}{properties.minor}"
        from torch.cuda import nccl

        facts += [
            f"CUDA {torch.version.cuda}",
            f"cuDNN {torch.backends.cudnn.version()}",
            f"NCCL {'.'.join(map(str, nccl.version()))}",
        ]
    else:
        kind = "CPU"
    return ", ".join([kind, *facts, *about])
