"""Steps of the built-in model on two ranks of this CPU, predicted and then run: how far off is the prediction?

    python tests/bench/predicted_runs.py [SETTINGS]      # 50 settings: two to four minutes

The machine is measured first, and once more at the end, which tells how much it changed meanwhile: what else works here
changes both. Settings are drawn by a seed: size, batch, plan. A time is the least interval between two steps.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import Progress
from latentloom.pipelines import placement
from latentloom.pipelines.costs.machine import Machine
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.place import placed, read_place
from latentloom.pipelines.planning.here import machine_here
from latentloom.pipelines.planning.planned import planned
from latentloom.pipelines.requests import Denoise, EncodeText
from latentloom.pipelines.shape import empty_canvas
from latentloom.pipelines.values import Model

PLANS = ("cfg=2", "ulysses=2", "ring=2", "allgather=2")
SIZES, BATCHES, STEPS = (128, 192, 256, 320, 384, 512), (1, 2, 4), 6


class Clock(Progress):
    """When steps were done."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def step(self, done: int, total: int, preview: object = None) -> None:
        self.times.append(time.perf_counter())


def main() -> None:
    seeded = random.Random(7)
    model = describe_model("builtin:bobbin", device="cpu")
    machine = machine_here(None)
    errors: dict[str, list[float]] = {plan: [] for plan in PLANS}
    print(f"{machine.title}\n\n{'plan':12} {'size':>5} {'batch':>5} {'predicted':>10} {'real':>9} {'error':>8}")
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 50):
        plan, side, batch = seeded.choice(PLANS), seeded.choice(SIZES), seeded.choice(BATCHES)
        told, real = predicted(model, machine, plan, side, batch), measured(model, plan, side, batch)
        errors[plan].append(told / real - 1)
        row = f"{plan:12} {side:5} {batch:5} {told * 1e3:7.1f} ms {real * 1e3:6.1f} ms {told / real - 1:+8.0%}"
        print(row, flush=True)
    print()
    for plan, found in errors.items():
        if found:
            sizes = sorted(map(abs, found))
            print(f"{plan:12} median error {statistics.median(sizes):.0%}, mean bias {statistics.mean(found):+.0%}")
    every = [abs(error) for found in errors.values() for error in found]
    again = machine_here(None).speeds(2).chip.single_flops / machine.speeds(2).chip.single_flops
    print(f"all          median error {statistics.median(every):.0%}, worst {max(every):.0%}")
    print(f"this machine's products at the end: {again:.2f} of their rate at the beginning")


def predicted(model: Model, machine: Machine, plan: str, side: int, batch: int) -> float:
    canvas = empty_canvas(model, width=side, height=side, frames=0, fps=0.0, batch=batch)
    found = planned(model, canvas, machine, is_guided=True).found
    return next(each.run.steps_s / each.run.steps for each in found if each.plan == ParallelPlan.parse(plan))


def measured(model: Model, plan: str, side: int, batch: int) -> float:
    where = placed(model, read_place("cpu*2", plan))
    text = placement.encode_text(EncodeText(model=where, prompt="a red star"))
    canvas = empty_canvas(model, width=side, height=side, frames=0, fps=0.0, batch=batch)
    clock = Clock()
    placement.denoise(Denoise(model=where, conditioning=text, latents=canvas, seed=1, steps=STEPS), clock)
    return min(later - earlier for earlier, later in pairwise(clock.times))


if __name__ == "__main__":
    main()
