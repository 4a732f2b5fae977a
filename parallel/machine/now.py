"""The machine's devices as they are now: memory in use and load. This process imports no torch and opens no GPU.

GPUs are found by a process of their own (see `machine.py`), once; NVIDIA's tool tells what they do at the moment. What
it does not know, AMD's GPUs, are as full as they were when they were found, and their load is unknown.
"""

import functools
import os
import platform
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..wording import worded
from .container import num_cores, read_container, used_memory_bytes
from .deadline import output_of
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
    used = used_memory_bytes()
    return DeviceNow(
        name="cpu",
        title=_cpu_title(),
        total_bytes=total,
        used_bytes=min(total, memory.total - memory.available if used is None else used),
        load=psutil.cpu_percent(interval=None) / 100,
    )


@functools.cache
def _cpu_title() -> str:
    model = _cpu_line("model name") or platform.processor() or platform.machine() or "CPU"
    cores = num_cores()
    return worded("{}, {} core{}", model, cores, "s" if cores > 1 else "")


@functools.cache
def convolves(dtype: str) -> bool:
    """Whether this CPU has the instructions by which oneDNN convolves in "bf16" or "fp16"; without them torch does it
    by itself (`mkldnn_bf16_device_check` in ATen). False where the system does not tell."""
    has = set(_cpu_line("flags").split() or _cpu_line("Features").split())
    if dtype == "bf16":
        return {"avx512bw", "avx512vl", "avx512dq"} <= has or "bf16" in has
    return "avx512_fp16" in has or "fphp" in has


def _cpu_line(name: str) -> str:
    """What Linux tells of the first core; "" elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")
