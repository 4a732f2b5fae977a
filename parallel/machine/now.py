"""The machine's devices as they are now, memory in use and load, and what the container around this process allows.

This process imports no torch and opens no GPU.

GPUs are found by a process of their own (see `machine.py`), once; NVIDIA's tool tells what they do at the moment. What
it does not know, AMD's GPUs, are as full as they were when they were found, and their load is unknown.
"""

import functools
import os
import platform
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..wording import worded
from .deadline import output_of
from .folders import text_of
from .machine import DeviceLink, Machine, read_machine

FIND_S = 60.0
ASK_S = 5.0
MIB = 1 << 20
BUSY = 1.5
# What drivers of NVIDIA and AMD leave in Linux, the last two under Windows and on Jetson boards.
GPU_FILES = ("dev/nvidiactl", "dev/nvidia0", "dev/kfd", "dev/dxg", "dev/nvhost-gpu")
QUERY = "--query-gpu=uuid,memory.used,utilization.gpu"

_finding = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class DeviceNow:
    """One device; `load` goes from 0 to 1 and is None where nobody tells."""

    name: str
    title: str
    total_bytes: int
    used_bytes: int
    load: float | None


def devices_now() -> tuple[DeviceNow, ...]:
    """The accelerators that work, then the CPU. The first call takes seconds where there is a GPU."""
    machine = _machine()
    host = _host()
    if machine.torch is not None and machine.torch.has_mps:
        return replace(host, name="mps", title="Apple GPU", load=None), host
    found = [device for device in machine.devices if not device.problem]
    usage = _usage() if found else {}
    known = {device.uuid: (device.total_bytes - device.free_bytes, None) for device in found}
    gpus = []
    for device in found:
        used, load = usage.get(device.uuid, known[device.uuid])
        gpus.append(
            DeviceNow(name=device.name, title=device.title, total_bytes=device.total_bytes, used_bytes=used, load=load)
        )
    return *gpus, host


def links_now() -> tuple[DeviceLink, ...]:
    """Those between the accelerators, found with them."""
    return _machine().links


def host_bytes() -> int:
    """The memory of the machine, or of the container around this process."""
    import psutil

    total = psutil.virtual_memory().total
    return min(total, read_container().memory_bytes or total)


def _machine() -> Machine:
    with _finding:  # several threads ask first, and a cache alone would have each of them start a process
        return _machine_here()


@functools.cache
def _machine_here() -> Machine:
    return read_machine(timeout_s=FIND_S) if _may_have_gpus() else Machine(torch=None)


def _may_have_gpus(root: Path = Path("/")) -> bool:
    """Elsewhere than on Linux only torch knows."""
    return sys.platform != "linux" or any((root / file).exists() for file in GPU_FILES)


def _usage() -> Mapping[str, tuple[int, float | None]]:
    """{uuid as torch writes it: (bytes in use, load)}; empty where NVIDIA's tool is absent or does not answer."""
    try:
        return read_usage(output_of(["nvidia-smi", QUERY, "--format=csv,noheader,nounits"], timeout_s=ASK_S))
    except OSError:
        return {}


def read_usage(listed: str) -> dict[str, tuple[int, float | None]]:
    """From lines of `GPU-..., MiB, per cent`; a GPU that is cut into parts has `[N/A]` for one or both."""
    usage: dict[str, tuple[int, float | None]] = {}
    for cells in ([cell.strip() for cell in line.split(",")] for line in listed.splitlines()):
        if len(cells) == 3 and cells[1].isdecimal():
            load = int(cells[2]) / 100 if cells[2].isdecimal() else None
            usage[cells[0].removeprefix("GPU-")] = int(cells[1]) * MIB, load
    return usage


def is_busy(num_own: int = 1) -> bool:
    """Whether the processors had half as much again to do in the last minute as they can, or as so many processes of
    ours ask for: what was timed then says what others did, not what the machine can do."""
    most = max(os.cpu_count() or 1, num_own)  # the load is that of the machine, also in a container
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * most


def _host() -> DeviceNow:
    """The CPU and the memory; the load is that since the last call."""
    import psutil

    memory, total = psutil.virtual_memory(), host_bytes()
    used, cores = used_memory_bytes(), num_cores()
    model = _cpu_line("model name") or platform.processor() or platform.machine() or "CPU"
    return DeviceNow(
        name="cpu",
        title=worded("{}, {} core{}", model, cores, "s" if cores > 1 else ""),
        total_bytes=total,
        used_bytes=min(total, memory.total - memory.available if used is None else used),
        load=psutil.cpu_percent(interval=None) / 100,
    )


@functools.cache
def convolves(dtype: str) -> bool:
    """Whether this CPU has the instructions by which oneDNN convolves in "bf16" or "fp16"; without them torch does it
    by itself (`mkldnn_bf16_device_check` in ATen). False where the system does not tell."""
    has = set(_cpu_line("flags").split() or _cpu_line("Features").split())
    if dtype == "bf16":
        return {"avx512bw", "avx512vl", "avx512dq"} <= has or "bf16" in has
    return "avx512_fp16" in has or "fphp" in has


@functools.cache
def _cpu_line(name: str) -> str:
    """What Linux tells of the first core; "" elsewhere."""
    lines = text_of(Path("/proc/cpuinfo")).splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")


# ---- What the container or service around this process allows: memory, CPU time and processes, by Linux's cgroups

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
    pids = [(_number(folder / "pids.max"), _number(folder / "pids.current") or 0) for folder in groups]
    return Container(
        memory_bytes=min(memory, default=None),
        num_cpus=min(cpus, default=None),
        num_processes_left=min((max(0, limit - current) for limit, current in pids if limit is not None), default=None),
    )


def used_memory_bytes(root: Path = Path("/")) -> int | None:
    """What the processes in the innermost limited group hold, without the files that the system would drop first."""
    for folder in _groups(root):
        limited = any(_number(folder / name) is not None for name in MEMORY)
        used = next((found for name in USED if (found := _number(folder / name)) is not None), None)
        if limited and used is not None:
            stat = folder / "memory.stat"  # of version 1 the first is that of all within, the second its own
            return max(0, used - (_entry(stat, "total_inactive_file") or _entry(stat, "inactive_file") or 0))
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
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        top = root / "sys/fs/cgroup" / controllers.removeprefix("name=")
        here = top / path.lstrip("/")
        yield from (folder for folder in (here, *here.parents) if folder.is_relative_to(top) and folder.is_dir())


def _cpus(folder: Path) -> float | None:
    # Of version 1 there are two files instead, where -1 is no limit, and no number here.
    words = text_of(folder / "cpu.max").split()  # version 2: "max 100000" or "150000 100000"
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    if len(words) == 2 and all(word.isdecimal() for word in words):
        quota, period = (int(word) for word in words)
    return quota / period if quota and period else None


def _entry(path: Path, name: str) -> int | None:
    """A number in a file of names and numbers."""
    words = text_of(path).split()
    found = dict(zip(words[::2], words[1::2], strict=False)).get(name, "")
    return int(found) if found.isdecimal() else None


def _number(path: Path) -> int | None:
    """A limit in a file; None where there is none."""
    words = text_of(path).split()
    if len(words) != 1 or not words[0].isdecimal():
        return None
    return number if (number := int(words[0])) < UNLIMITED else None
