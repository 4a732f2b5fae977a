"""The drills in which the fork server or its spare is killed, at random moments, and what the spare takes of memory."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from drill_work import MOMENTS, Work

from support.pool_processes import is_gone, server_of, spare_of, wait_until

MIB = 1 << 20


def server(work: Work, times: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """SIGKILL the fork server: its spare is the server afterwards, so that nothing was imported."""
    chance, rows = random.Random(seed), []
    usual = sum(work.durations[name] for name in ("encode", "step", "decode"))
    for number in range(times):
        moment, pids = MOMENTS[number % len(MOMENTS)], list[int]()

        def strike(pids: list[int] = pids) -> None:
            pids.extend((server_of(work.pool), spare_of(work.pool)))
            os.kill(pids[0], signal.SIGKILL)

        struck = work.struck(moment, number % len(work.expected), strike, chance=chance)
        noticed = work.noticed("the fork server was", since=struck.time)
        whole = work.wait_ready(noticed)
        rows.append(
            {
                "moment": moment,
                "noticed ms": 1000 * (noticed - struck.time),
                "group whole ms": 1000 * (whole - struck.time),
                "extra s": max(0.0, struck.took_s - usual),
                "equal": struck.is_equal and server_of(work.pool) == pids[1],
            }
        )
    return rows


def spare(work: Work, times: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """SIGKILL the spare: another is there, and neither the server nor a rank is another, nor a job disturbed."""
    chance, rows = random.Random(seed), []
    for number in range(times):
        moment, seen = MOMENTS[number % len(MOMENTS)], list[Any]()

        def strike(seen: list[Any] = seen) -> None:
            seen.extend((spare_of(work.pool), _others(work)))
            os.kill(seen[0], signal.SIGKILL)

        struck = work.struck(moment, number % len(work.expected), strike, chance=chance)
        again = work.noticed("the spare of the fork server is process", since=struck.time)
        is_undisturbed = _others(work) == seen[1] and spare_of(work.pool) != seen[0]
        rows.append(
            {"moment": moment, "next one ms": 1000 * (again - struck.time), "equal": struck.is_equal and is_undisturbed}
        )
    return rows


def _others(work: Work) -> list[int]:
    return [server_of(work.pool), *(state.pid for state in work.pool.states())]


def spare_memory(work: Work) -> str:
    """What the spare takes, now that the ranks have worked."""
    others, pid = _others(work), spare_of(work.pool)
    own = memory_of(pid)
    private = sum(own[name] for name in ("Private_Clean", "Private_Dirty"))
    whole = sum(memory_of(each)["Pss"] for each in (*others, pid))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: is_gone(pid))
    left = sum(memory_of(each)["Pss"] for each in others)  # before the next one is forked
    spare_of(work.pool)
    return (
        f"PSS of all processes: {whole / MIB:.1f} MiB with the spare, {left / MIB:.1f} without; that of the spare: "
        f"{own['Pss'] / MIB:.1f}, a share of what the server has anyway; pages of its own: {private / MIB:.1f} MiB"
    )


def spare_rank_memory(work: Work) -> str:
    """What the spare ranks take: of a GPU, what the driver counts of their processes."""
    spares = work.pool._supervisor._crew.spares.ranks
    wait_until(lambda: all(spare.is_ready for spare in spares))
    asked = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    on_gpu = subprocess.run(asked, capture_output=True, text=True).stdout if spares[0].device != "cpu" else ""
    rows = [line.partition(", ") for line in on_gpu.splitlines()]
    used = {int(pid): float(mib) for pid, _, mib in rows if mib.isdecimal()}
    told = [
        f"{spare.device} {used[spare.pid]:.0f} MiB of the GPU"
        if spare.pid in used
        else f"{spare.device} {memory_of(spare.pid)['Pss'] / MIB:.1f} MiB (PSS)"
        for spare in spares
    ]
    return f"each spare rank takes: {', '.join(told)}"


def memory_of(pid: int) -> dict[str, int]:
    """What the kernel says of a process, in bytes."""
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
    return {line[0][:-1]: int(line[1]) * 1024 for line in lines}
