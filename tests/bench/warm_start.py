"""Print how soon a warm pool begins a second job, and how soon a cold one is ready, and where the time goes.

python tests/bench/warm_start.py
"""

import statistics
import subprocess
import sys
import time

from drill_work import Moment, Work
from drills import machine

RUNS = 9
IMPORT = "import time; start = time.monotonic(); import torch, torch.distributed; print(time.monotonic() - start)"
COLD = """
import time
import torch
from latentloom.parallel.pool.pool import Pool
start = time.monotonic()
with Pool(["cpu", "cpu"]) as pool:
    while not all(state.is_ready for state in pool.states()):
        time.sleep(0.005)
    print(time.monotonic() - start)
"""


class First(Moment):
    """When each phase and the first step began and ended."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = time.monotonic()
        self.marks: list[tuple[str, float]] = []

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.marks.append((text, time.monotonic() - self.asked))


def main() -> None:
    print(machine())
    alone = [number(IMPORT) for _ in range(3)]
    cold = [number(COLD) for _ in range(3)]
    print(f"importing torch {min(alone):.2f} s; two cold ranks {min(cold):.2f} s: {min(cold) - min(alone):.2f} s more")
    with Work(("cpu", "cpu")) as work:
        from latentloom.pipelines import placement
        from latentloom.pipelines.requests import EncodeText

        empty = [seconds(lambda: work.pool.call("drill_bodies:nothing", {}, num_ranks=2)) for _ in range(RUNS)]
        text = placement.encode_text(EncodeText(model=work.model, prompt="a red star"))
        runs = []
        for seed in range(RUNS):
            progress = First()
            placement.denoise(work.denoise_request(text, seed), progress)
            runs.append(progress)
        print(f"a job that does nothing: {1000 * statistics.median(empty):.1f} ms, at least {1000 * min(empty):.1f}")
        for place, (name, _) in enumerate(runs[0].marks):
            times = [1000 * run.marks[place][1] for run in runs]
            print(f"asked -> {name:24} {statistics.median(times):7.1f} ms, at least {min(times):.1f}")
        ended = [1000 * (run.steps[0] - run.asked) for run in runs]
        print(f"asked -> first step ended         {statistics.median(ended):7.1f} ms, at least {min(ended):.1f}")
        print(f"one step                          {1000 * work.durations['one step']:7.1f} ms")


def seconds(act: object) -> float:
    assert callable(act)
    start = time.monotonic()
    act()
    return time.monotonic() - start


def number(program: str) -> float:
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)


if __name__ == "__main__":
    main()
