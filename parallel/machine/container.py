"""What the container or service around this process allows it: memory, CPU time and processes, from Linux's cgroups."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UNLIMITED = 1 << 60  # version 1 writes "no limit" as a number near 2**63


@dataclass(frozen=True, kw_only=True)
class Container:
    """None where there is no limit."""

    memory_bytes: int | None = None
    num_cpus: float | None = None
    num_processes_left: int | None = None


def read_container(root: Path = Path("/")) -> Container:
    """The tightest limits of all groups that this process is in; none on systems without cgroups."""
    groups = list(_groups(root))
    memory = [limit for folder in groups for name in MEMORY if (limit := _number(folder / name)) is not None]
    cpus = [limit for folder in groups if (limit := _cpus(folder)) is not None]
    left = [limit for folder in groups if (limit := _processes_left(folder)) is not None]
    return Container(
        memory_bytes=min(memory, default=None),
        num_cpus=min(cpus, default=None),
        num_processes_left=min(left, default=None),
    )


def used_memory_bytes(root: Path = Path("/")) -> int | None:
    """What the processes in the innermost limited group hold, without the files that the system would drop first."""
    for folder in _groups(root):
        limited = any(_number(folder / name) is not None for name in MEMORY)
        used = next((found for name in USED if (found := _number(folder / name)) is not None), None)
        if limited and used is not None:
            return max(0, used - _droppable(folder))
    return None


def tightest_memory(root: Path = Path("/")) -> tuple[int, int | None] | None:
    """The lowest limit of all groups that this process is in, and the most that was in use there at once."""
    limited = [(limit, folder) for folder in _groups(root) for name in MEMORY if (limit := _number(folder / name))]
    if not limited:
        return None
    limit, folder = min(limited)
    return limit, next((most for name in MOST if (most := _number(folder / name)) is not None), None)


def num_memory_kills(root: Path = Path("/")) -> int | None:
    """How many processes of our group the system has ended for want of memory, or of the machine where no group counts.

    None where nobody does.
    """
    files = [folder / name for folder in _groups(root) for name in EVENTS]
    counts = (_entry(file, "oom_kill") for file in (*files, root / "proc/vmstat"))
    return next((count for count in counts if count is not None), None)


def num_cores() -> int:
    """The processor cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def num_free_cores() -> int:
    """How many of `num_cores` cores the container's share of processor time is worth; at least one."""
    allowed = read_container().num_cpus
    return num_cores() if allowed is None else max(1, min(num_cores(), int(allowed)))


MEMORY = ("memory.max", "memory.limit_in_bytes")  # the file of version 2, and that of version 1
USED = ("memory.current", "memory.usage_in_bytes")
MOST = ("memory.peak", "memory.max_usage_in_bytes")
EVENTS = ("memory.events", "memory.oom_control")


def _groups(root: Path) -> Iterator[Path]:
    """The folders of our groups and of those around them; a container often sees only the outermost."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        top = root / "sys/fs/cgroup" / controllers.removeprefix("name=")
        here = top / path.lstrip("/")
        yield from (folder for folder in (here, *here.parents) if folder.is_relative_to(top) and folder.is_dir())


def _cpus(folder: Path) -> float | None:
    # Of version 1 there are two files instead, where -1 is no limit, and no number here.
    words = _words(folder / "cpu.max")  # version 2: "max 100000" or "150000 100000"
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    if len(words) == 2 and all(word.isdecimal() for word in words):
        quota, period = (int(word) for word in words)
    return quota / period if quota and period else None


def _processes_left(folder: Path) -> int | None:
    limit, current = _number(folder / "pids.max"), _number(folder / "pids.current")
    return None if limit is None else max(0, limit - (current or 0))


def _droppable(folder: Path) -> int:
    file = folder / "memory.stat"
    return _entry(file, "total_inactive_file") or _entry(file, "inactive_file") or 0  # version 1: all within, and own


def _entry(path: Path, name: str) -> int | None:
    """A number in a file of names and numbers."""
    words = _words(path)
    found = dict(zip(words[::2], words[1::2], strict=False)).get(name, "")
    return int(found) if found.isdecimal() else None


def _number(path: Path) -> int | None:
    """A limit in a file; None where there is none."""
    words = _words(path)
    if len(words) != 1 or not words[0].isdecimal():
        return None
    return number if (number := int(words[0])) < UNLIMITED else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
