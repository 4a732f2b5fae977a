"""What a stage costs on the device where it works, measured: seconds, bytes, exchanges, memory.

The numbers go into the run's events and its manifest, for each rank, or for this process where it works alone.
"""

import contextlib
import functools
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...parallel.mesh import mesh_for
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Progress, RankWork

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


@contextlib.contextmanager
def measured(plan: ParallelPlan, progress: Progress, *, device: str, name: str = "") -> Iterator[None]:
    """Collective: tell what is done within, under the plan's name or another; one that works alone, here or as a rank,
    has no plan to name. Seconds are those until the device is done, not until it was told what to do.

    Whoever is within sends over `mesh_for(plan)`. The memory is that since the last `reset_peak`.
    """
    mesh = mesh_for(plan) if plan.num_ranks > 1 else None  # one rank works beside the groups that it belongs to
    start = time.perf_counter()
    before = mesh and mesh.sent
    yield
    finish(device)
    after = mesh and mesh.sent
    work = RankWork(
        rank=mesh.rank if mesh else progress.rank,
        device=device,
        title=title_of(device),
        machine=platform.node(),
        seconds=time.perf_counter() - start,
        sent_bytes=after.sent_bytes - before.sent_bytes if after and before else 0,
        exchanges=after.calls - before.calls if after and before else 0,
        peak_memory_bytes=peak(device),
        idle_bytes=0 if device.startswith("cuda") else idle_bytes(),
    )
    progress.spread((name or str(plan)) if mesh else "", [work])


def finish(device: str) -> None:
    """Wait for what this thread has asked of an accelerator; elsewhere it is done when the call returns."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.current_stream(device).synchronize()


class RunAhead:
    """How far the host may be ahead of an accelerator: of a step that is to be asked for, the last but one is done."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._before: Any = None  # what is over once the step before the last is

    def asked(self) -> None:
        """A step was asked for; returns when the next one may be."""
        if not self._device.startswith("cuda"):
            return
        import torch

        # Waiting for the step before the last one, not for this: so nothing waits between two steps, and what was asked
        # for and is to be cancelled is two steps at most.
        event = torch.cuda.Event()
        event.record()
        if self._before is not None:
            self._before.synchronize()
        self._before = event


def title_of(device: str) -> str:
    """What a device of this machine is, such as "NVIDIA H100 PCIe" or "x86_64"."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    return platform.machine()  # `platform.processor()` may start a process


def reset_peak(device: str) -> None:
    """From now on `peak` counts anew, for all that this process does on the device."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return
    idle_bytes()
    with contextlib.suppress(OSError):
        RESET.write_text("5")  # Linux: set the high-water mark back to what is in use


def peak(device: str) -> int:
    """The most memory since `reset_peak`: of a GPU, else of this process; 0 where the system does not tell."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.max_memory_allocated(device)
    return _status("VmHWM")


@functools.cache
def idle_bytes() -> int:
    """What this process had when it was first asked, before its first stage; 0 where the system does not tell."""
    return _status("VmRSS")


def _status(name: str) -> int:
    try:
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return 0
