"""What a rank does to measure a model that is larger than what it may take: private memory, and seconds."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from bodies.requests import request_of
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.streaming.streamed import Streamed
from latentloom.pipelines import stages
from latentloom.pipelines.components.memory import MEMORY
from latentloom.pipelines.components.store import store
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import to_plain

LOOK_S = 0.01


class _Watch(threading.Thread):
    """The most private memory that this process has beyond what it had."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before, self.most, self.num_looks, self.ends = _private_bytes(), 0, 0, False

    def run(self) -> None:
        while not self.ends:
            self.most, self.num_looks = max(self.most, _private_bytes() - self.before), self.num_looks + 1
            time.sleep(LOOK_S)


def _private_bytes() -> int:
    with Path("/proc/self/status").open() as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


def measure(rank: int, folder: str, plan: str, limit: str, tokens: int, runs: int) -> dict[str, Any] | None:
    parsed = ParallelPlan.parse(plan)
    if rank >= parsed.num_ranks:
        return None
    torch.set_num_threads(1)
    model = to_plain(describe_model(folder, device="cpu"))
    request = request_of(model, width=128, height=tokens * 2, steps=1, plan=parsed)  # 16 pixels to a token
    watch = _Watch()
    watch.start()
    with patch.dict(os.environ, {MEMORY: limit}):
        streamed = stages.denoise(request).tensor
        (entry,) = [entry for key, entry in store()._entries.items() if key[2] == "transformer"]
        resting = entry.resting
        assert resting is not None and streamed is not None
        times: dict[str, list[float]] = {"step_s": [], "compute_s": [], "copy_s": []}
        for _ in range(runs):  # in turns, so that all see the same machine
            times["step_s"].append(_seconds(request))
            with _nothing_brought():
                times["compute_s"].append(_seconds(request))
            times["copy_s"].append(_copied(resting._streamed))
        found = {"resident": resting.num_resident, "blocks": len(resting.blocks), "model_bytes": entry.num_bytes}
    watch.ends = True
    watch.join()
    store().clear()
    resident = stages.denoise(request).tensor
    same = resident is not None and torch.equal(resident, streamed)
    store().clear()
    return {**found, **times, "same": same, "peak_bytes": watch.most, "looks": watch.num_looks}


def _seconds(request: dict[str, Any]) -> float:
    """Of the forward alone, the one that a denoise of one step makes."""
    took: list[float] = []
    (transformer,) = [entry.component for key, entry in store()._entries.items() if key[2] == "transformer"]
    before = transformer.register_forward_pre_hook(lambda *_: took.append(-time.perf_counter()), prepend=True)
    after = transformer.register_forward_hook(lambda *_: took.append(time.perf_counter()))
    stages.denoise(request)
    before.remove()
    after.remove()
    return sum(took)


@contextmanager
def _nothing_brought() -> Iterator[None]:
    """Blocks run from whatever a slot holds."""
    with (
        patch.object(Streamed, "_slot_of", lambda self, index: index % len(self._slots)),
        patch.object(Streamed, "_look_ahead", lambda self, index: None),
    ):
        yield


def _copied(streamed: Any) -> float:
    """All blocks that are brought in a step, one after the other."""
    started = time.perf_counter()
    for turn, index in enumerate(streamed._next):
        slot = turn % len(streamed._slots)
        streamed._mover.bring(slot, streamed._layouts[index])
    for slot in range(len(streamed._slots)):
        streamed._mover.wait(slot)
    streamed._holds = [None] * len(streamed._slots)
    return time.perf_counter() - started
