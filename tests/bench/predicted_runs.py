"""Runs of the built-in model on two ranks of this CPU, predicted and then done: how far off is the prediction?

    python tests/bench/predicted_runs.py [SETTINGS]      # 50 settings: about three minutes
    python tests/bench/predicted_runs.py 50 --every 10   # measure the machine anew after so many, the default

Settings are drawn by a seed: plan, size, batch, guidance, steps. A run is what `run` would do with warm ranks: a text
that was never read, its steps, decoding. A step is the median interval between two. What the machine measured last is
all that the prediction knows, and it is measured anew between settings, because a shared machine changes.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import Progress
from latentloom.pipelines import placement
from latentloom.pipelines.costs.machine import Machine
from latentloom.pipelines.costs.run import Run
from latentloom.pipelines.forecast.forecast import forecast
from latentloom.pipelines.forecast.here import machine_here
from latentloom.pipelines.forecast.plans import Wanted
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.place import placed, read_place
from latentloom.pipelines.requests import Decode, Denoise, EncodeText
from latentloom.pipelines.shape import empty_canvas
from latentloom.pipelines.values import Latents, Model

PLANS = ("ulysses=1", "cfg=2", "ulysses=2", "ring=2", "allgather=2")
SIZES, BATCHES, MOST_PIXELS = (128, 192, 256, 320, 384, 512), (1, 2, 4), 2 * 512 * 512
SEED = 11


@dataclass(frozen=True, kw_only=True)
class Setting:
    plan: str
    side: int
    batch: int
    guidance: float
    steps: int


@dataclass(frozen=True, kw_only=True)
class Took:
    run_s: float
    step_s: float


class Clock(Progress):
    """When steps were done."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def step(self, done: int, total: int, preview: object = None) -> None:
        self.times.append(time.perf_counter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", type=int, nargs="?", default=50)
    parser.add_argument("--every", type=int, default=10, help="settings after which the machine is measured anew")
    args = parser.parse_args()
    model = describe_model("builtin:bobbin", device="cpu")
    runs: dict[str, list[float]] = {plan: [] for plan in PLANS}
    steps: dict[str, list[float]] = {plan: [] for plan in PLANS}
    for number, setting in enumerate(settings(args.settings)):
        if number % args.every == 0:
            start = time.perf_counter()
            machine = machine_here(None, anew=True)
            rate = machine.chip(2).single_flops / 1e9
            print(f"{machine.title}: {rate:.0f} GFLOP/s, measured in {time.perf_counter() - start:.1f} s", flush=True)
            for plan in PLANS:  # warm ranks, each plan's groups among them
                done(model, Setting(plan=plan, side=128, batch=1, guidance=3.0, steps=2), f"warm {number} {plan}")
        told, real = predicted(model, machine, setting), done(model, setting, f"a red star, number {number}")
        step_s = told.steps_s / told.steps
        runs[setting.plan].append(told.seconds / real.run_s - 1)
        steps[setting.plan].append(step_s / real.step_s - 1)
        print(
            f"{setting.plan:12} {setting.side:4} x{setting.batch} guidance {setting.guidance:g} {setting.steps} steps: "
            f"a step {step_s * 1e3:6.1f} ms, took {real.step_s * 1e3:6.1f} ms {steps[setting.plan][-1]:+5.0%}; "
            f"the run {told.seconds * 1e3:6.0f} ms, took {real.run_s * 1e3:6.0f} ms {runs[setting.plan][-1]:+5.0%}",
            flush=True,
        )
    for title, errors in (("steps", steps), ("runs", runs)):
        print()
        for plan, found in errors.items():
            if found:
                print(f"{title} by {plan:12} {summary(found)}")
        print(f"{title}, all          {summary([error for found in errors.values() for error in found])}")


def settings(count: int) -> Iterator[Setting]:
    seeded = random.Random(SEED)
    for number in range(count):
        side, batch = MOST_PIXELS, 1
        while side * side * batch > MOST_PIXELS:
            side, batch = seeded.choice(SIZES), seeded.choice(BATCHES)
        plan = PLANS[number % len(PLANS)]
        guidance = 1.0 if plan != "cfg=2" and seeded.random() < 0.3 else 3.0
        yield Setting(plan=plan, side=side, batch=batch, guidance=guidance, steps=seeded.randint(4, 8))


def summary(errors: list[float]) -> str:
    sizes = sorted(map(abs, errors))
    low, middle, high = statistics.quantiles(sizes, n=4, method="inclusive") if len(sizes) > 1 else sizes * 3
    return (
        f"median error {middle:.0%}, quartiles {low:.0%} and {high:.0%}, median bias {statistics.median(errors):+.0%}"
    )


def predicted(model: Model, machine: Machine, setting: Setting) -> Run:
    size = {"width": setting.side, "height": setting.side, "batch": setting.batch}
    found = forecast(model, Wanted(**size, is_guided=setting.guidance > 1, steps=setting.steps), machine).found
    plan = ParallelPlan.parse(setting.plan)
    return next(each for each in found if each.plan == plan and each.replicas == 1)


def done(model: Model, setting: Setting, prompt: str) -> Took:
    """A run from its text to its pixels."""
    start = time.perf_counter()
    latents, step_s = denoised(model, setting, prompt)
    placement.decode(Decode(model=_placed(model), latents=latents))
    return Took(run_s=time.perf_counter() - start, step_s=step_s)


def denoised(model: Model, setting: Setting, prompt: str) -> tuple[Latents, float]:
    """And the median seconds between two steps."""
    where, plan, clock = _placed(model), ParallelPlan.parse(setting.plan), Clock()
    canvas = empty_canvas(model, width=setting.side, height=setting.side, frames=0, fps=0.0, batch=setting.batch)
    text = placement.encode_text(EncodeText(model=where, prompt=prompt))
    asked = Denoise(
        model=where, conditioning=text, latents=canvas, seed=1, steps=setting.steps, guidance=setting.guidance
    )
    # past `placement.denoise`, since the plan may leave a rank idle, as none that is named does
    latents = placement._run(asked.resolved(plan=plan), Latents, clock, num_ranks=plan.num_ranks)
    return latents, statistics.median(later - earlier for earlier, later in pairwise(clock.times))


def _placed(model: Model) -> Model:
    return placed(model, read_place("cpu*2", "auto"))


if __name__ == "__main__":
    main()
