"""What a run takes on an idle machine and on a busy one, by how its threads wait: spinning, as OpenMP's own default is,
or asleep, as `parallel/machine/waiting.py` sets it.

    python tests/bench/busy.py [RUNS]           # 7: half an hour on two cores

The first picture of the built-in model by `latentloom run`, nothing kept, on one device and on two ranks, alone and
beside two busy loops a core; the four ways to run take turns. It prints medians: seconds of the command, of its
denoise, and how the two ways compare. OMP_NUM_THREADS is not set, as it is not for users.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FIRST = ROOT / "workflows" / "bobbin" / "first_picture.json"
# LLVM's own default: said by its user, so that nothing is added, and GNU's library takes its default.
SPINS = {"KMP_BLOCKTIME": "200"}
LOADS = {"idle": 0, "two busy loops a core": 2}
PLANS = {"one device": [], "cpu*2": ["--devices", "cpu*2"]}
WAYS = {"spinning": SPINS, "asleep": {}}


@contextmanager
def busy_loops(num_loops: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(num_loops):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def seconds(plan: list[str], way: dict[str, str]) -> tuple[float, float]:
    """Of the whole command, and of its denoise."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "latentloom", "run", str(FIRST), "--no-cache", "--out", out, *plan]
        start = time.monotonic()
        subprocess.run(command, env=env | way, cwd=out, check=True, capture_output=True, timeout=600)
        took = time.monotonic() - start
        nodes = json.loads(Path(out, "manifest.json").read_text())["nodes"]
    return took, sum(node["seconds"] for name, node in nodes.items() if name.startswith("denoise"))


def main(runs: int) -> None:
    print(f"{os.cpu_count()} cores; medians of {runs} runs in turn, least in brackets; seconds")
    print("| machine | devices | waiting | command | denoise |\n| --- | --- | --- | --- | --- |")
    for load, a_core in LOADS.items():
        taken: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        with busy_loops(a_core * (os.cpu_count() or 1)):
            for _ in range(runs):
                for plan, arguments in PLANS.items():
                    for way, more in WAYS.items():
                        taken[plan, way].append(seconds(arguments, more))
        for (plan, way), each in taken.items():
            cells = [f"{statistics.median(column):.1f} ({min(column):.1f})" for column in zip(*each, strict=True)]
            print(f"| {load} | {plan} | {way} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
