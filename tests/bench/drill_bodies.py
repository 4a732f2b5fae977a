"""What ranks run in drills only: stages that run out of memory when they are told to, and looks at a rank's own."""

import ctypes
import gc
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from latentloom.parallel.process_groups import at_work
from latentloom.parallel.progress import Progress
from latentloom.parallel.ranks.seat import Seat
from latentloom.pipelines import placement
from latentloom.pipelines.components.store import store
from latentloom.pipelines.values import Model, from_plain

PAGE = 4096
CHUNK = 16 << 20
MORE_THAN_THERE_IS = 1 << 50


def out_of_memory(request: Mapping[str, Any], progress: Any, seat: Seat) -> dict[str, Any]:
    """{stage, request, rank, step}: as `placement.on_rank`, but that rank has no room after that step."""
    return placement.on_rank(
        request, _Full(progress, request["step"], device=seat.device if seat.rank == request["rank"] else ""), seat
    )


class _Full(Progress):
    def __init__(self, inner: Progress, step: int, *, device: str) -> None:
        self._inner = inner
        self._step = step
        self._device = device

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self._inner.phase(text, is_loading=is_loading)

    def step(self, done: int, total: int, preview: Any = None) -> None:
        self._inner.step(done, total, preview)
        if self._device and done == self._step:
            torch.empty(MORE_THAN_THERE_IS, dtype=torch.uint8, device=self._device)

    def check(self) -> None:
        self._inner.check()

    def spread(self, plan: str, ranks: Any) -> None:
        self._inner.spread(plan, ranks)


def swallow(request: Mapping[str, Any], progress: Any, seat: Seat) -> None:
    """{rank, num_bytes}: that rank writes to so much memory, while the others wait for it."""
    held = []
    while seat.rank == request["rank"] and len(held) * CHUNK < request["num_bytes"]:
        held.append(bytes([1]) * CHUNK)
    dist.barrier(at_work())


def nothing(request: Mapping[str, Any], progress: Any, seat: Seat) -> None:
    """What a job costs that does no work."""


def memory(request: Mapping[str, Any], progress: Any, seat: Seat) -> dict[str, int]:
    """{columns}: those lines of what the kernel says of this process, in bytes."""
    lines = [line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()]
    return {line[0][:-1]: int(line[1]) * 1024 for line in lines if line[0][:-1] in request["columns"]}


def load_and_read(request: Mapping[str, Any], progress: Any, seat: Seat) -> dict[str, int]:
    """{model, names}: through this rank's component store, every page of the weights touched."""
    components = store().load(from_plain(Model, request["model"]), request["names"])
    num_bytes = 0
    for component in components.values():
        for value in component.parameters():
            num_bytes += value.nbytes
            value.view(-1)[:: PAGE // value.element_size()].sum()
    return {"num_bytes": num_bytes}


step_ends: list[float] = []  # of this process's last `delayed`, by the clock that all processes share


def delayed(request: Mapping[str, Any], progress: Any, seat: Seat) -> None:
    """{steps, seed, delay_s, meets}: steps of random length, at whose end ranks meet where they are to."""
    step_ends.clear()
    chance = random.Random(f"{request['seed']} {seat.rank}")
    for done in range(1, request["steps"] + 1):
        time.sleep(request["delay_s"] * chance.random())
        if request["meets"]:
            dist.barrier()
        step_ends.append(time.monotonic())
        progress.step(done, request["steps"])


def ends(request: Mapping[str, Any], progress: Any, seat: Seat) -> list[float]:
    return step_ends


def borders(request: Mapping[str, Any], progress: Any, seat: Seat) -> list[float]:
    """{steps, step_s}: the seconds of each call of `progress.step`, the ranks in step when they come to it."""
    found = list[float]()
    for done in range(1, request["steps"] + 1):
        end = time.perf_counter() + request["step_s"]
        while time.perf_counter() < end:
            time.sleep(0.0005)
        dist.barrier()
        start = time.perf_counter()
        progress.step(done, request["steps"])
        found.append(time.perf_counter() - start)
    return found


def let_go(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Drops all components, and from now on keeps those of one stage at a time."""
    store()._budget_bytes = 1
    store().clear()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return {}
