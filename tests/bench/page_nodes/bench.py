"""A node for `page.py`, Bench Ticks, which tells of even steps, so many a second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.graph.spec import Socket
from latentloom.parallel.progress import SILENT, Progress

if TYPE_CHECKING:
    from torch import Tensor

PREVIEW_SIDE = 128


def ticks(
    *,
    seconds: Annotated[float, Socket(min=0.0, max=3600.0)] = 60.0,
    per_second: Annotated[float, Socket(min=0.1, max=100.0)] = 13.0,
    progress: Progress = SILENT,
) -> Annotated[int, Socket(name="count")]:
    """Nothing but steps, each with a preview, at an even pace."""
    count = round(seconds * per_second)
    start = time.perf_counter()
    for done in range(1, count + 1):
        time.sleep(max(0.0, start + done / per_second - time.perf_counter()))
        progress.step(done, count, preview=lambda done=done: _stripes(done))
    return count


def _stripes(shift: int) -> Tensor:
    """A picture that is another one at every step; uint8 H W 3."""
    import torch

    row = (torch.arange(PREVIEW_SIDE) * 4 + shift * 16) % 256
    return row.to(torch.uint8)[None, :, None].expand(PREVIEW_SIDE, PREVIEW_SIDE, 3).contiguous()


NODES = {"bench_Ticks": read_spec(ticks, title="Bench Ticks", category="bench", is_output=True, is_kept=False)}
