"""The doctor on the operating system: memory, space, limits, and what the ranks of a pool need of it."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ...parallel.machine.folders import why_open
from ...parallel.machine.needs import NEEDS
from ...parallel.machine.now import Container, num_cores, read_container
from ..forecast.choice import amount
from .finding import Finding, State

GIB = 1 << 30
# NCCL keeps its queues in /dev/shm, some tens of MiB for each pair of GPUs without peer access.
SHARED_BYTES = 256 << 20
FEW_FILES, FEW_PROCESSES = 1024, 256
TEMPORARY_MEND = "free some space there, or set TMPDIR to a folder with more"
CACHE_MEND = "free some space there, or give --cache DIR to `latentloom run`; results are not kept until then"
SHARED_MEND = "docker run --shm-size 8g (its default is 64 MiB), or --ipc=host; elsewhere remount /dev/shm with a size"

NEED_WORDS = {
    "memory files": "memfds and passing their descriptors work",
    "loopback": "127.0.0.1 takes connections on a free port; no fixed port is used",
    "interface lo": "it is there",
    "process descriptors": "pidfd_open works",
    "death signal": "PR_SET_PDEATHSIG is there: no rank outlives its parent",
    "fork": "it is there",
}
NETWORK_MEND = "ip link set lo up; in a container, use a network namespace of its own or --network host"
NEED_MENDS = {"loopback": NETWORK_MEND, "interface lo": NETWORK_MEND}
KERNEL_MEND = "use Linux 5.3 or later, outside of sandboxes that filter system calls (docker: a newer seccomp profile)"


def system_checks(
    *, cache_dir: Path | None, data_dir: Path | None, num_gpus: int
) -> dict[str, Callable[[], list[Finding]]]:
    """What to look at, by name; each may hang on a dead file server, so the caller sets a deadline."""
    checks: dict[str, Callable[[], list[Finding]]] = {"processor": _processor, "memory": _memory}
    checks["temporary folder"] = _temporary_folder
    if cache_dir is not None:
        checks["cache folder"] = partial(_space, "cache folder", cache_dir, mend=CACHE_MEND, worst="warning")
    if data_dir is not None:
        checks["privacy"] = partial(_privacy, cache_dir, data_dir)
    if sys.platform != "linux":
        says = f"on {sys.platform} latentloom uses one device, in process"
        return {**checks, "ranks": lambda: [Finding(check="ranks", says=says)]}
    checks["shared memory"] = partial(_shared_memory, Path("/dev/shm"), num_gpus=num_gpus)
    checks |= {"open files": _open_files, "locked memory": _locked_memory, "processes": _processes}
    return {**checks, **{name: partial(_need, name, trial) for name, trial in NEEDS.items()}}


def _processor(container: Container | None = None) -> list[Finding]:
    container = container or read_container()
    cores, allowed = num_cores(), container.num_cpus
    says = f"{cores} core{'s' if cores > 1 else ''}"
    if allowed is not None and allowed < cores:
        says = f"{says}, of which the container may use {allowed:g}"
    if allowed is None or allowed + 1 > cores:
        return [Finding(check="processor", says=says)]
    mend = f"docker run --cpus {cores}, or set OMP_NUM_THREADS={max(1, int(allowed))} so that threads do not queue"
    return [Finding(check="processor", state="warning", says=says, mend=mend)]


def _memory(container: Container | None = None) -> list[Finding]:
    import psutil

    container = container or read_container()
    memory, limit = psutil.virtual_memory(), container.memory_bytes
    free = memory.available if limit is None else min(memory.available, limit)
    says = f"{amount(memory.available)} of {amount(memory.total)} free"
    if limit is not None and limit < memory.total:
        says = f"{says}; the container may use {amount(limit)} in all"
    mend = "end other programs, or give the container more (docker run --memory)"
    return [_by_room("memory", says, free, 4 * GIB, GIB, mend=mend, worst="problem")]


def _temporary_folder() -> list[Finding]:
    name = "temporary folder"
    try:
        folder = Path(tempfile.gettempdir())  # tries several
    except OSError as error:
        return [Finding(check=name, state="problem", says=f"there is none ({error.strerror})", mend=TEMPORARY_MEND)]
    return _space(name, folder, mend=TEMPORARY_MEND)


def _privacy(*folders: Path | None) -> list[Finding]:
    told = [why.split("; ", 1) for folder in folders if (why := why_open(folder))]
    return [Finding(check="privacy", state="warning", says=says, mend=mend) for says, mend in told] or [
        Finding(check="privacy", says="what is kept between runs is for this account alone")
    ]


def _space(name: str, folder: Path, *, mend: str, worst: State = "problem") -> list[Finding]:
    """Free space for a folder, which may not be there yet: then for what it would be made in."""
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b".")
            file.flush()
        free = shutil.disk_usage(there).free
    except OSError as error:
        says = f"{folder} cannot be written to ({error.strerror})"
        return [Finding(check=name, state=worst, says=says, mend=mend)]
    says = f"{folder}: {amount(free)} free"
    return [_by_room(name, says, free, GIB, 64 << 20, mend=mend, worst=worst)]


def _by_room(check: str, says: str, free: float, little: int, least: int, *, mend: str, worst: State) -> Finding:
    """By how many bytes are free: a warning below `little`, the `worst` below the `least`."""
    state: State = "ok" if free >= little else "warning" if free >= least else worst
    return Finding(check=check, says=says, state=state, mend="" if state == "ok" else mend)


def _shared_memory(folder: Path, *, num_gpus: int) -> list[Finding]:
    """Only NCCL needs it, so only several GPUs do: our own tensors travel in memory files."""
    name = "shared memory"
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        says, free = f"there is no {folder} ({error.strerror})", 0
    else:
        says, free = f"{folder}: {amount(usage.free)} of {amount(usage.total)} free", usage.free
    if free >= SHARED_BYTES:
        return [Finding(check=name, says=says)]
    if num_gpus < 2:
        return [Finding(check=name, says=f"{says}, which is enough for one GPU or CPUs: only NCCL needs it")]
    says = f"{says}; NCCL needs {amount(SHARED_BYTES)} of it and fails without"
    return [Finding(check=name, state="problem", says=says, mend=SHARED_MEND)]


def _open_files() -> list[Finding]:
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= FEW_FILES:
        return [Finding(check="open files", says=f"{_limit(allowed)} at once in each process")]
    says = f"only {allowed} at once in each process; shards, descriptors of tensors and sockets may need more"
    state = "problem" if allowed < FEW_FILES // 4 else "warning"
    mend = "ulimit -n 65536 in the shell that starts latentloom, or docker run --ulimit nofile=65536"
    return [Finding(check="open files", state=state, says=says, mend=mend)]


def _locked_memory() -> list[Finding]:
    """For the record: one machine needs no locked memory, RDMA between machines does."""
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    words = "any amount" if allowed == resource.RLIM_INFINITY else amount(allowed)
    return [Finding(check="locked memory", says=f"{words} may be locked; one machine needs none")]


def _processes(container: Container | None = None) -> list[Finding]:
    """Threads count too, and each rank has one for each core."""
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    left = (container or read_container()).num_processes_left
    limits = [number for number in (allowed, left) if number is not None and number != resource.RLIM_INFINITY]
    if not limits or min(limits) >= FEW_PROCESSES:
        return [Finding(check="processes", says=f"{_limit(min(limits, default=-1))} processes and threads may start")]
    says = f"only {min(limits)} processes and threads may start, and each rank has one for each core"
    state = "problem" if min(limits) < FEW_PROCESSES // 4 else "warning"
    mend = "ulimit -u 4096, or docker run --pids-limit 4096"
    return [Finding(check="processes", state=state, says=says, mend=mend)]


def _limit(number: int) -> str:
    return f"{number:,}" if number >= 0 else "any number of"


def _need(name: str, trial: Callable[[], None]) -> list[Finding]:
    try:
        trial()
    except OSError as error:
        says = f"{error.strerror or error}; several devices cannot work together without"
        return [Finding(check=name, state="problem", says=says, mend=NEED_MENDS.get(name, KERNEL_MEND))]
    return [Finding(check=name, says=NEED_WORDS[name])]
