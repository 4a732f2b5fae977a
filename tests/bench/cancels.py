"""Cancel jobs of a pool whose ranks are delayed at random; print whether all stopped after one step, and what a step
border costs.

python tests/bench/cancels.py --devices 'cpu*4' --times 1000 --seed 1

In every other job ranks wait for each other in each step, as those that share a sequence do; in the rest each goes at
its own pace, as far as it may.
"""

import argparse
import logging
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from drill_work import Log
from drills import machine, summary

from latentloom.parallel.errors import Cancelled
from latentloom.parallel.machine.machine import parse_devices
from latentloom.parallel.pool.attempt import JobRun
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.progress import Progress
from latentloom.parallel.ranks.grants import AHEAD

STEPS = 400
BORDERS = 300
BODY = "drill_bodies:delayed"


class Cancelling(Progress):
    """Asks for the end of the job a moment after a step."""

    def __init__(self, step: int, wait_s: float) -> None:
        self._step, self._wait_s, self._end = step, wait_s, float("inf")

    def step(self, done: int, total: int, preview: object = None) -> None:
        if done == self._step:
            self._end = time.monotonic() + self._wait_s
        self.check()

    def check(self) -> None:
        if time.monotonic() >= self._end:
            raise Cancelled


class Told:
    """When the pool's own thread hears that a job is to end, which is a moment after its caller has said so."""

    def __init__(self) -> None:
        self.time = 0.0
        cancel = JobRun.cancel

        def noted(run: JobRun) -> None:
            self.time = time.monotonic()
            cancel(run)

        JobRun.cancel = noted


def cancels(pool: Pool, log: Log, times: int, *, seed: int) -> bool:
    """Whether all ranks of each job stopped after the same step, in time, and nothing had to be mended."""
    chance = random.Random(seed)
    num_ranks, start = len(pool.devices), time.monotonic()
    pids = [state.pid for state in pool.states()]
    told, num_split, later, took = Told(), 0, Counter[int](), list[float]()
    for number in range(times):
        progress = Cancelling(chance.randint(1, 8), 0.004 * chance.random())
        request = {"steps": STEPS, "seed": chance.random(), "delay_s": 0.003, "meets": number % 2 == 0}
        try:
            pool.call(BODY, request, progress, num_ranks=num_ranks)
        except Cancelled:
            took.append(1000 * (time.monotonic() - told.time))
        ends = pool.call_every("drill_bodies:ends", {}, num_ranks=num_ranks)
        num_split += len({len(each) for each in ends}) > 1
        later[max(sum(end > told.time for end in each) for each in ends)] += 1
    lost = sum(state.pid != pid for state, pid in zip(pool.states(), pids, strict=True))
    joined = sum(when >= start and "have joined" in line for when, line in log.lines)
    print(f"{len(took)} of {times} jobs cancelled; ranks stopped after different steps in {num_split}")
    print("steps that a rank ended after the host was told, and how often:", dict(sorted(later.items())))
    print(f"ms until all were idle, median/p99/max: {summary(took)}; ranks lost: {lost}; groups made: {joined}")
    return not num_split and len(took) == times and max(later) <= AHEAD and not lost and joined <= 1


def borders(pool: Pool, num_ranks: int, step_s: float) -> str:
    """Microseconds in `progress.step`, as a rank sees it, where a step is an all-reduce and so much computing."""
    request = {"steps": BORDERS, "step_s": step_s}
    found = pool.call_every("drill_bodies:borders", request, num_ranks=num_ranks)
    each = sorted(1e6 * cost for costs in found for cost in costs[BORDERS // 10 :])
    shares = f"least {each[0]:.0f}, median {statistics.median(each):.0f}, p99 {each[int(0.99 * len(each))]:.0f}"
    return f"{num_ranks} ranks, steps of {1000 * step_s:g} ms: {shares}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="cpu*2")
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    devices = parse_devices(asked.devices)
    bench = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([bench, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    log = Log()
    logger = logging.getLogger("latentloom")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    print(machine(), flush=True)
    with Pool(devices, preload=["drill_bodies"]) as pool:
        for step_s in (0.0, 0.005, 0.02):
            print("us in a step border,", borders(pool, len(devices), step_s), flush=True)
        return 0 if cancels(pool, log, asked.times, seed=asked.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
