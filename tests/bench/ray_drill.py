"""Kill agents of a Ray cluster of two nodes in the middle of jobs, or its head, and print a table of what came of it.

python tests/bench/ray_drill.py [agents|head] [--kills 3] [--seed 0] [--address HOST:PORT]

Without an address it starts two nodes on this machine. A job is a gloo all-reduce a step, on one machine or on both.
What loses its head is a `latentloom run` in a process of its own.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.progress import Progress
from latentloom.pipelines.cluster.cluster import Cluster
from latentloom.pipelines.cluster.machine import answer
from support.ray_nodes import two_nodes

BODY = "bodies.pool:total"
STEPS, PAUSE_S = 20, 0.05


class Watcher(Progress):
    """Acts once, at a step; notes when, and when the job began again."""

    def __init__(self, step: int, act: Callable[[], None]) -> None:
        self.step_to_act = step
        self.act = act
        self.acted = self.noticed = 0.0
        self.cancel = threading.Event()

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        if text.startswith("starting again"):
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


def kill_head(chance: random.Random, folder: Path) -> tuple[float, float, bool]:
    """Seconds until the run told of it, and until its process had ended; whether it did with 1 and in a sentence."""
    with two_nodes() as address:
        heads = [each.pid for each in psutil.Process().children(recursive=True) if each.name() == "gcs_server"]
        workflow = Path(__file__).resolve().parents[2] / "workflows" / "first_picture.json"
        command = [sys.executable, "-m", "latentloom", "run", str(workflow), "--no-cache", "--json", "--devices", "cpu"]
        command += ["--cluster", address, "--out", str(folder), "--set", "denoise.steps=1000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None, "it was asked for"
            killed = told = 0.0
            reason = ""
            for line in process.stdout:
                event = json.loads(line)
                if event["kind"] == "progress" and not killed:
                    time.sleep(chance.random())
                    os.kill(heads[0], signal.SIGKILL)
                    killed = time.monotonic()
                elif event["kind"] == "failed":
                    told, reason = time.monotonic(), event["message"]
        end = time.monotonic()
    return told - killed, end - killed, process.returncode == 1 and "head" in reason and "is lost" in reason


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("drill", nargs="?", default="agents", choices=("agents", "head"))
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--kills", type=int, default=3, help="of each kind")
    parser.add_argument("--address", default="", help="of a running cluster of at least two machines of this host")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    if arguments.drill == "head":
        with tempfile.TemporaryDirectory() as folder:
            chance = random.Random(arguments.seed)
            found = [kill_head(chance, Path(folder)) for _ in range(arguments.kills)]
        told, ended, well = zip(*found, strict=True)
        print(
            f"head killed: {sum(well)} of {len(found)} told in a sentence, exit code 1; the most: told after ", end=""
        )
        print(f"{max(told):.1f} s, process gone after {max(ended):.1f} s")
        return
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
