"""The drill in which a rank takes more memory than its control group may, so that the kernel ends it; it takes root."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from drill_work import DEADLINE_S, Work

from latentloom.parallel.errors import RankFailed

# Bytes of the group, and how many more for each GPU: its driver takes some of the host's memory.
LIMIT, LIMIT_OF_GPU = 2 << 30, 4 << 30
MIB = 1 << 20
OWN, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


class NoGroup(Exception):
    """This process may make no control group."""


def limit_of(devices: Sequence[str]) -> int:
    return LIMIT + LIMIT_OF_GPU * sum(device.startswith("cuda") for device in devices)


def starve(devices: Sequence[str], *, steps: int, size: int) -> NoReturn:
    """What the drill starts in a group: says how a job ends that takes all memory, and whether the next is done."""
    with Work(devices, steps=steps, size=size, is_measured=False) as work:
        before, request = work.picture(0), {"rank": work.num_ranks - 1, "num_bytes": limit_of(devices)}
        start = time.monotonic()
        try:
            work.pool.call("drill_bodies:swallow", request, num_ranks=work.num_ranks)
        except RankFailed as error:
            print(time.monotonic() - start, str(error).splitlines()[0], flush=True)
        print(work.picture(0) == before, flush=True)
    sys.exit()


def memory(times: int, *, devices: Sequence[str], steps: int, size: int, seed: int = 0) -> list[dict[str, Any]]:
    """The kernel ends the rank both times it tries; the caller is told why, with the limit, and the pool lives on."""
    rank, limit = f"rank {len(devices) - 1} ({devices[-1]})", limit_of(devices)
    words = f"{rank} was ended by the system for want of memory (the limit here is {limit // MIB} MiB, "
    rows = []
    for _ in range(times):
        with _group(limit) as group, tempfile.TemporaryDirectory() as folder:
            options = ["--devices", ",".join(devices), "--steps", str(steps), "--size", str(size)]
            done = subprocess.run(
                [sys.executable, str(Path(__file__).with_name("drills.py")), "starve", *options],
                env={**os.environ, "TMPDIR": folder},
                stdout=subprocess.PIPE,
                text=True,
                timeout=3 * DEADLINE_S,
                preexec_fn=lambda group=group: (group / "cgroup.procs").write_text(str(os.getpid())),
            )
        told, alive = (*done.stdout.splitlines(), "", "")[:2]
        seconds, _, reason = told.partition(" ")
        print(reason, flush=True)
        rows.append({"moment": "job", "told s": float(seconds or "nan"), "equal": words in reason and alive == "True"})
    return rows


@contextlib.contextmanager
def _group(limit: int) -> Iterator[Path]:
    """A control group below ours, of either version."""
    group = None
    try:
        lines = [line.split(":", 2) for line in OWN.read_text().splitlines()]
        own = {controllers: path.lstrip("/") for _, controllers, path in lines}
        is_old = "memory" in own
        parent = Path(GROUPS, "memory" if is_old else "", own["memory" if is_old else ""])
        group = parent / f"latentloom-drill-{os.getpid()}"
        group.mkdir()
        (group / ("memory.limit_in_bytes" if is_old else "memory.max")).write_text(str(limit))
    except (OSError, KeyError) as error:
        if group is not None:
            with contextlib.suppress(OSError):  # where it was not made
                group.rmdir()
        raise NoGroup(f"no control group can be made here ({error}); run as root, outside of a container") from None
    try:
        yield group
    finally:
        end = time.monotonic() + 10
        while group.exists() and time.monotonic() < end:
            with contextlib.suppress(OSError):  # processes are still ending
                group.rmdir()
            time.sleep(0.05)
