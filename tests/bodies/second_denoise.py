"""What a rank does for `bench/second_denoise.py`: denoises again and again, each until its first block."""

from __future__ import annotations

import cProfile
import io
import pstats
import time
from collections.abc import Mapping
from typing import Any

from bodies.requests import request_of
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import stages
from latentloom.pipelines.components.store import store
from latentloom.pipelines.values import Model, from_plain, to_plain


def timed(
    rank: int, model: Mapping[str, Any], plan: str, times: int, is_profiled: bool
) -> tuple[list[float], list[float], str]:
    """Milliseconds of each, on the clock and of the processor; if asked, where the latter goes in all but the first."""
    guidance, by = 2.0 if "cfg" in plan else 1.0, ParallelPlan.parse(plan)
    request = request_of(model, width=64, steps=1, guidance=guidance, plan=by)
    request["conditioning"] = to_plain(request["conditioning"])
    transformer = store().load(from_plain(Model, model), ["transformer"])["transformer"]
    clock: list[float] = []
    processor: list[float] = []
    started = (0.0, 0.0)
    profile = cProfile.Profile(time.thread_time)

    def met(*_: Any) -> None:
        if len(clock) < number + 1:
            profile.disable()
            clock.append(1000 * (time.perf_counter() - started[0]))
            processor.append(1000 * (time.thread_time() - started[1]))

    transformer.transformer_blocks[0].register_forward_pre_hook(met)
    for number in range(times):
        if is_profiled and number:
            profile.enable()
        started = time.perf_counter(), time.thread_time()
        stages.denoise(request)
    told = io.StringIO()
    if is_profiled and rank == 0:
        pstats.Stats(profile, stream=told).sort_stats("cumulative").print_stats(60)
    return clock, processor, told.getvalue()
