"""Where a step's device time goes, by kernel: compiled and as a CUDA graph, as rank 0 of a plan, nothing on a wire."""

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from bench.gpu.measuring import SKIPPED, Bench, head, row, took
from bench.gpu.steps import shadowed
from bench.shadow_rank import SUBJECTS, forward, inputs, made
from latentloom.parallel.sharding.captured import Captured

NUM_KERNELS = 22


def breakdown(bench: Bench, models: list[str], plans: list[str]) -> bool:
    """False if a step could not be captured."""
    if not bench.is_gpu:
        print(f"breakdown: {SKIPPED}")
        return True
    good = True
    for name in models:
        subject = SUBJECTS[name]
        model = made(subject, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)
        given = inputs(subject, model, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)
        for plan in plans:
            with shadowed(model, plan) as compile_blocks:
                forward(model, given)
                compile_blocks()
                forward(model, given)
                graphs = Captured(model)
                _tell(f"{name}, {plan}", functools.partial(forward, model, given), bench)
                good = good and not graphs.reasons
                graphs.restore()
            torch._dynamo.reset()
    return good


def _tell(title: str, action: Callable[[], Any], bench: Bench) -> None:
    from torch.profiler import ProfilerActivity, profile

    for _ in range(4):
        action()
    time_of = took(action, bench, runs=7)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        action()
        bench.wait()
    found = [each for each in seen.events() or () if each.device_type == torch.autograd.DeviceType.CUDA]
    spans = sorted((each.time_range.start, each.time_range.end) for each in found)
    gaps = sum(max(0.0, after[0] - before[1]) for before, after in itertools.pairwise(spans))
    sums, counts = Counter[str](), Counter(each.name for each in found)
    for each in found:
        sums[each.name] += each.time_range.end - each.time_range.start
    print(
        f"\n{title}: {time_of.ms:.2f} ms a step, host {time_of.host_ms:.2f}, {len(found)} kernels and copies, "
        f"busy {sum(sums.values()) / 1000:.2f} ms, gaps {gaps / 1000:.2f} ms\n"
    )
    head("ms", "times", "us each", "kernel")
    for name, us in sums.most_common(NUM_KERNELS):
        row(f"{us / 1000:.3f}", counts[name], f"{us / counts[name]:.1f}", name[:130].replace("|", "/"))
