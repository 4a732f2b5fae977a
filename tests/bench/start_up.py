"""Print how long it takes to import latentloom, to print the help, and to check a workflow: medians of fresh processes.

python tests/bench/start_up.py
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

FIRST = Path(__file__).resolve().parent.parent.parent / "workflows" / "bobbin" / "first_picture.json"
RUNS = 11
CASES = {
    "python itself": [sys.executable, "-c", "pass"],
    "import latentloom": [sys.executable, "-c", "import latentloom"],
    "latentloom --help": [sys.executable, "-m", "latentloom", "--help"],
    "latentloom check": [sys.executable, "-m", "latentloom", "check", str(FIRST)],
}


def milliseconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return 1000 * (time.perf_counter() - start)


if __name__ == "__main__":
    base = 0.0
    for name, command in CASES.items():
        median = statistics.median(milliseconds(command) for _ in range(RUNS))
        base = base or median
        print(f"{name:<20} {median:6.0f} ms, {max(0, median - base):5.0f} ms above python itself")
