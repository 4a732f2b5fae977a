"""What this rank does in a stage, measured: seconds, bytes, exchanges, memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ..parallel.border import Border, RankWork
from ..parallel.mesh import mesh_for
from ..parallel.plan import ParallelPlan


@contextlib.contextmanager
def measured(plan: ParallelPlan, border: Border, *, device: str, name: str = "") -> Iterator[None]:
    """Collective: tell the border what is done within, under the plan's name or another; one rank has nothing to tell.
    Seconds are those until the device is done, not until it was told what to do.

    Whoever is within sends over `mesh_for(plan)`.
    """
    if plan.num_ranks == 1:
        yield
        return
    mesh, start = mesh_for(plan), time.perf_counter()
    before = mesh.sent
    _reset_peak(device)
    yield
    finish(device)
    after = mesh.sent
    work = RankWork(
        rank=mesh.rank,
        device=device,
        seconds=time.perf_counter() - start,
        sent_bytes=after.sent_bytes - before.sent_bytes,
        exchanges=after.calls - before.calls,
        peak_memory_bytes=_peak(device),
    )
    border.spread(name or str(plan), [work])


def finish(device: str) -> None:
    """Wait for what this thread has asked of an accelerator; elsewhere it is done when the call returns."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.current_stream(device).synchronize()


def _reset_peak(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: str) -> int:
    if not device.startswith("cuda"):
        return 0
    import torch

    return torch.cuda.max_memory_allocated(device)
