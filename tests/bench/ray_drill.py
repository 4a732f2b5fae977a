"""Kill agents of a Ray cluster of two nodes in the middle of jobs, and print a table of what came of it.

python tests/bench/ray_drill.py [--kills 3] [--address HOST:PORT]

Without an address it starts two nodes on this machine. A job is a gloo all-reduce a step, on one machine or on both.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import conftest  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.border import Border, Cancelled
from latentloom.pipelines.cluster import Cluster
from latentloom.pipelines.cluster_machine import answer
from ray_nodes import two_nodes

BODY = "pool_bodies:total"
STEPS, PAUSE_S = 20, 0.05


class Watcher(Border):
    """Acts once, at a step; notes when, and when the job began again."""

    def __init__(self, step: int, act: Callable[[], None]) -> None:
        self.step_to_act = step
        self.act = act
        self.acted = self.noticed = 0.0
        self.cancel = threading.Event()

    def phase(self, name: str) -> None:
        if name.startswith("starting again"):
            self.noticed = time.monotonic()

    def step(self, done: int, total: int, preview: Any = None) -> None:
        if done == self.step_to_act and not self.acted:
            self.acted = time.monotonic()
            self.act()

    def check(self) -> None:
        if self.cancel.is_set():
            raise Cancelled


def request(pause_s: float = PAUSE_S) -> dict[str, Any]:
    return {"tensor": torch.randn(1000, generator=torch.Generator().manual_seed(1)), "steps": STEPS, "pause_s": pause_s}


def kill_one(cluster: Cluster, num_ranks: int) -> tuple[float, float, bool]:
    """Seconds until the loss was noticed, and until the answer was there; whether its bits are the undisturbed ones."""
    undisturbed = cluster.call(BODY, request(0.0), num_ranks=num_ranks)["tensor"]
    pids = {each: json.loads(answer(each.ask("hello")))["pid"] for each in cluster._machines.values() if each.is_ready}

    def kill() -> None:
        os.kill(pids[random.choice([machine for machine in pids if machine.jobs["main"]])], signal.SIGKILL)

    watcher = Watcher(random.randrange(1, STEPS - 3), kill)
    found = cluster.call(BODY, request(), watcher, num_ranks=num_ranks)["tensor"]
    end = time.monotonic()
    return watcher.noticed - watcher.acted, end - watcher.acted, torch.equal(found, undisturbed)


def cancel_one(cluster: Cluster, num_ranks: int) -> tuple[float, float, bool]:
    """Seconds until the cancel was over, twice; whether the next job has the undisturbed bits."""
    undisturbed = cluster.call(BODY, request(0.0), num_ranks=num_ranks)["tensor"]
    watcher = Watcher(random.randrange(1, STEPS - 3), lambda: watcher.cancel.set())
    with contextlib.suppress(Cancelled):
        cluster.call(BODY, request(), watcher, num_ranks=num_ranks)
    took = time.monotonic() - watcher.acted
    return took, took, torch.equal(cluster.call(BODY, request(0.0), num_ranks=num_ranks)["tensor"], undisturbed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=3, help="of each kind")
    parser.add_argument("--address", default="", help="of a running cluster of at least two machines of this host")
    arguments = parser.parse_args()
    start = time.monotonic()
    with contextlib.nullcontext(arguments.address) if arguments.address else two_nodes() as address:
        print(f"cluster of two nodes up in {time.monotonic() - start:.1f} s")
        start = time.monotonic()
        cluster = Cluster(address, ("cpu",))
        cluster.call(BODY, request(0.0), num_ranks=2)
        print(f"two agents, first job over both done in {time.monotonic() - start:.1f} s\n")
        print(f"{'what':<34}{'times':>6}{'noticed s (max)':>17}{'over s (max)':>14}{'equal bits':>12}")
        for title, act, num_ranks in (
            ("agent killed, job on one machine", kill_one, 1),
            ("agent killed, job on both", kill_one, 2),
            ("cancelled, job on one machine", cancel_one, 1),
            ("cancelled, job on both", cancel_one, 2),
        ):
            found = [act(cluster, num_ranks) for _ in range(arguments.kills)]
            noticed, over, equal = zip(*found, strict=True)
            print(f"{title:<34}{len(found):>6}{max(noticed):>17.2f}{max(over):>14.2f}{sum(equal):>9}/{len(found)}")
        cluster.close()


if __name__ == "__main__":
    main()
