"""A trial of this machine: ranks started for a moment on its devices, which meet and add up what each holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import RankFailed
from ..progress import Progress
from ..ranks.seat import Seat
from .limits import Limits
from .pool import Pool


class Deadline(Progress):
    """A time limit for work on ranks that are of no use afterwards: when it is over, `close` ends them, whatever they
    do.
    """

    def __init__(self, timeout_s: float, *, close: Callable[[], None], words: str) -> None:
        self._end = time.monotonic() + timeout_s
        self._close = close
        self._words = words

    def check(self) -> None:
        if time.monotonic() > self._end:
            self._close()
            raise RankFailed(self._words)


def trial(devices: Sequence[str], *, timeout_s: float = 100.0) -> str:
    """Start a rank on each device and let them meet; one sentence. Raises `RankFailed` or ValueError."""
    start = time.monotonic()
    with Pool(devices, limits=Limits(start_s=timeout_s, work_s=timeout_s)) as pool:
        words = f"ranks did not start and meet in {timeout_s:g} s"
        progress = Deadline(timeout_s, close=pool.close, words=words)
        total = pool.call(".parallel.pool.trial:meet", {}, progress, num_ranks=len(devices))["total"]
    wanted = sum(range(1, len(devices) + 1))
    if total != wanted:
        raise RankFailed(f"ranks on {', '.join(devices)} met, but added up to {total} instead of {wanted}")
    seconds = time.monotonic() - start
    return f"{len(devices)} ranks on {', '.join(devices)} started, met and ended in {seconds:.1f} s"


def meet(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, float]:
    """Collective: the sum of every rank's number, counted from 1, by way of the device."""
    import torch

    from ..collectives import add
    from ..group import Axis
    from ..mesh import make_mesh
    from ..plan import ParallelPlan

    own = torch.tensor([float(seat.rank + 1)], device=seat.device)
    if seat.num_ranks > 1:
        own = add(own, group=make_mesh(ParallelPlan(ulysses=seat.num_ranks))[Axis.ULYSSES])
    return {"total": float(own)}
