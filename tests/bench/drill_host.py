"""The drill in which the host process itself is killed, with a job under way."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

from drill_work import DEADLINE_S, Moment, Work
from latentloom.parallel.pool_folder import PREFIX, PoolFolder

MARK = "LATENTLOOM_DRILL"
START_S = 300.0


def live(ranks: int, *, steps: int, size: int) -> NoReturn:
    """Make pictures for ever, and say which stage begins."""

    class Telling(Moment):
        def enter(self, stage: str) -> None:
            print(stage, flush=True)

    work, border = Work(ranks, steps=steps, size=size, is_measured=False), Telling()
    while True:
        work.picture(0, border)


def host(times: int, *, ranks: int, steps: int, size: int) -> list[dict[str, Any]]:
    """SIGKILL a host at a random moment: its processes, folders and shared memory go, and the next one starts."""
    chance = random.Random(0)
    return [_once(chance, ranks, steps=steps, size=size) for _ in range(times)]


def _once(chance: random.Random, ranks: int, *, steps: int, size: int) -> dict[str, Any]:
    shared, mark = set(Path("/dev/shm").iterdir()), f"{os.getpid()}-{time.monotonic_ns()}"
    options = ["live", "--ranks", str(ranks), "--steps", str(steps), "--size", str(size)]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("drills.py")), *options],
            env={**os.environ, MARK: mark, "TMPDIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None, "it was asked for"
        try:
            start = time.monotonic()
            stage = process.stdout.readline().strip()
            start_s = time.monotonic() - start
            time.sleep(chance.random())
        finally:
            process.kill()
            process.communicate()
        killed = time.monotonic()
        while (left := _marked(mark)) and time.monotonic() < killed + DEADLINE_S:
            time.sleep(0.005)
        gone = time.monotonic() - killed
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        folders = _swept(folder)
    is_clean = bool(stage) and gone <= 1 and not folders and set(Path("/dev/shm").iterdir()) <= shared
    return {"moment": "running", "start s": start_s, "gone ms": 1000 * gone, "equal": is_clean}


def _swept(folder: str) -> list[str]:
    """What is left of pools after the next one has started and ended."""
    old, tempfile.tempdir = tempfile.tempdir, folder
    try:
        PoolFolder().remove()
    finally:
        tempfile.tempdir = old
    return [each.name for each in Path(folder).iterdir() if PREFIX in each.name]


def _marked(mark: str) -> list[int]:
    """Processes, of any age, that were started with this mark; the dead that nobody has buried count too."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found
