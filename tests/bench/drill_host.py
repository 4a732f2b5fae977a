"""The drills in which the host process itself is killed with a job under way, alone or with all it stands on."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from drill_work import DEADLINE_S, Moment, Work

from latentloom.parallel.pool.folder import FAILED, PREFIX, PoolFolder
from support.pool_processes import alive_with, server_of, spare_of

MARK = "LATENTLOOM_DRILL"
GONE_S = 1.0
SHARED = Path("/dev/shm")
# Semaphores of multiprocessing, which nothing of ours makes: a test beside this one may leave some for a while.
FOREIGN = "sem.mp-"


def live(devices: Sequence[str], *, steps: int, size: int) -> NoReturn:
    """Make pictures for ever; say who the server and its spare are, once, and then which stage begins."""

    class Telling(Moment):
        def enter(self, stage: str) -> None:
            print(stage, flush=True)

    work, progress = Work(devices, steps=steps, size=size, is_measured=False), Telling()
    print(server_of(work.pool), spare_of(work.pool), flush=True)
    while True:
        work.picture(0, progress)


def host(times: int, *, devices: Sequence[str], steps: int, size: int, seed: int = 0) -> list[dict[str, Any]]:
    """SIGKILL a host at a random moment: its processes, folders and shared memory go, and the next one starts."""
    chance = random.Random(seed)
    return [_once(chance, lambda pids: pids[:1], devices=devices, steps=steps, size=size) for _ in range(times)]


def all_at_once(times: int, *, devices: Sequence[str], steps: int, size: int, seed: int = 0) -> list[dict[str, Any]]:
    """SIGKILL host, server and spare in any order, now and then with some stopped before: no rank is left either."""
    chance = random.Random(seed)

    def order(pids: list[int]) -> list[int]:
        for pid in pids[1:]:
            if chance.random() < 0.25:
                os.kill(pid, signal.SIGSTOP)
        return chance.sample(pids, len(pids))

    return [_once(chance, order, devices=devices, steps=steps, size=size) for _ in range(times)]


def _once(
    chance: random.Random, order: Callable[[list[int]], list[int]], *, devices: Sequence[str], steps: int, size: int
) -> dict[str, Any]:
    """`order` says who of host, server and spare is killed, and who first."""
    shared = set(SHARED.iterdir())
    mark = f"{MARK}={os.getpid()}-{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        with _living(mark, folder, devices=devices, steps=steps, size=size) as (process, others, start_s):
            time.sleep(chance.random())
            victims = order([process.pid, *others])
            killed = time.monotonic()
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
        while (alive := alive_with(mark)) and time.monotonic() < killed + DEADLINE_S:
            time.sleep(0.005)
        gone = time.monotonic() - killed
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        left = [*(f"process {pid}" for pid in alive), *_swept(folder), *_shared_since(shared)]
    is_clean = gone <= GONE_S and not left
    return {"moment": "running", "start s": start_s, "gone ms": 1000 * gone, "left": left, "equal": is_clean}


@contextlib.contextmanager
def _living(
    mark: str, folder: str, *, devices: Sequence[str], steps: int, size: int
) -> Iterator[tuple[subprocess.Popen[str], list[int], float]]:
    """A host at work, its server and spare, and the seconds until it was."""
    options = ["live", "--devices", ",".join(devices), "--steps", str(steps), "--size", str(size)]
    name, _, value = mark.partition("=")
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("drills.py")), *options],
        env={**os.environ, name: value, "TMPDIR": folder},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None, "it was asked for"
        others = [int(pid) for pid in process.stdout.readline().split()]
        assert process.stdout.readline(), "a stage has begun"
        yield process, others, time.monotonic() - start
    finally:
        process.kill()
        process.communicate()


def _shared_since(before: set[Path]) -> list[str]:
    """Shared memory that is new, stays, and is in use by no process: other programs have theirs meanwhile."""
    end = time.monotonic() + DEADLINE_S
    while (new := _unused(set(SHARED.iterdir()) - before)) and time.monotonic() < end:
        time.sleep(0.05)
    return new


def _unused(files: set[Path]) -> list[str]:
    """Those that are there and that no process has mapped; a semaphore is mapped under another name."""
    mapped: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines = (process / "maps").read_text().splitlines()
            mapped |= {int(line.split()[4]) for line in lines if f"{SHARED}/" in line}
    ours = [file for file in files if file.exists() and not file.name.startswith(FOREIGN)]
    return sorted(str(file) for file in ours if file.stat().st_ino not in mapped)


def _swept(folder: str) -> list[str]:
    """What is left of pools after the next one has started and ended; logs of failures are meant to be."""
    old, tempfile.tempdir = tempfile.tempdir, folder
    try:
        PoolFolder().remove()
    finally:
        tempfile.tempdir = old
    left = [each for each in Path(folder).iterdir() if PREFIX in each.name]
    return [each.name for each in left if not (each / FAILED).exists()]
