"""Break a pool at random moments while it makes real pictures, and print what it noticed, mended and lost.

python tests/bench/drills.py kill --devices 'cpu*2' --times 200 --seed 1
python tests/bench/drills.py every --devices 'cuda*4'
NCCL_MULTI_RANK_GPU_ENABLE=1 python tests/bench/drills.py kill --devices cuda:0,cuda:0

In a pool that lives on: kill, server, spare, stop, cancel, oom. With a host of its own each time: host, all (with its
fork server and spare), memory (in a control group that is too small, which takes root). `every` runs each in turn. What
is random comes from the seed.
"""

import argparse
import os
import platform
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

from drill_host import all_at_once, host, live
from drill_memory import NoGroup, memory, starve
from drill_server import server, spare, spare_memory, spare_rank_memory
from drill_work import MOMENTS, PLANS, Moment, Work, later

from bench.gpu.sharing import allow_sharing
from latentloom.parallel.errors import Cancelled, OutOfMemory
from latentloom.parallel.machine.machine import parse_devices
from latentloom.parallel.pool.limits import Limits

Row = dict[str, Any]


def kill(work: Work, times: int, *, seed: int = 0) -> list[Row]:
    """SIGKILL each rank in turn, one for each job, at a random time within a stage."""
    chance, rows = random.Random(seed), []
    usual = sum(work.durations[name] for name in ("encode", "step", "decode"))
    for number in range(times):
        moment, rank = MOMENTS[number % len(MOMENTS)], number // len(MOMENTS) % work.num_ranks
        struck = work.struck(
            moment,
            number % len(work.expected),
            lambda rank=rank: os.kill(work.pool.states()[rank].pid, signal.SIGKILL),
            chance=chance,
        )
        noticed = work.noticed(f"{work.named(rank)} was killed", since=struck.time)
        rows.append(
            {
                "moment": moment,
                "noticed ms": 1000 * (noticed - struck.time),
                "group whole ms": 1000 * (work.wait_ready(noticed) - struck.time),
                "extra s": max(0.0, struck.took_s - usual),
                "equal": struck.is_equal,
            }
        )
    return rows


STRIKES = 3  # at most, until one comes in time


def stop(work: Work, times: int, *, seed: int = 0) -> list[Row]:
    """SIGSTOP a rank in the middle of a denoise: found at the deadline, replaced, and the picture is the same."""
    chance, rows = random.Random(seed), []
    for number in range(times):
        rank = number % work.num_ranks
        for _ in range(STRIKES):
            progress, stopped = Moment(), list[float]()

            def strike(rank: int = rank, stopped: list[float] = stopped) -> None:
                os.kill(work.pool.states()[rank].pid, signal.SIGSTOP)
                stopped.append(time.monotonic())

            step = chance.randrange(work.num_steps - 1)  # one is left, so that the denoise is not over sooner
            wait_s = chance.random() * work.durations["one step"] * 0.5
            progress.hooks[f"step {step}" if step else "step"] = partial(later, wait_s, strike)
            future = work.start(number % len(work.expected), progress)
            found = work.result(future)
            since = stopped[0] if stopped else time.monotonic()
            late = work.log.first(f"{work.named(rank)} was silent", since=since)
            back = work.wait_ready(since if late is None else late)
            if late is not None:  # else the strike came when the work was done, as on a busy machine it may
                break
        rows.append(
            {
                "moment": "step",
                "found ms after deadline": 1000 * ((late or since) - since - work.limits.silence_s),
                "group whole ms": 1000 * (back - (late or since)),
                "equal": found == work.expected[number % len(work.expected)] and late is not None,
            }
        )
    return rows


class Cancelling(Moment):
    """Asks for the end of the work at a given time."""

    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.end = time.monotonic() + wait_s
        self.asked = 0.0

    def check(self) -> None:
        if time.monotonic() >= self.end:
            self.asked = self.asked or time.monotonic()
            raise Cancelled


def cancel(work: Work, times: int, *, seed: int = 0) -> list[Row]:
    """Cancel at a random time; the ranks are idle within a step, and the next picture is the same."""
    chance, rows = random.Random(seed), []
    usual = sum(work.durations[name] for name in ("encode", "step", "decode"))
    for number in range(times):
        progress = Cancelling(chance.random() * usual)
        try:
            work.result(work.start(number % len(work.expected), progress))
            idle_s = 0.0  # it was done sooner
        except Cancelled:
            idle_s = time.monotonic() - progress.asked
        next_one = (number + 1) % len(work.expected)
        rows.append(
            {
                "moment": progress.stage or "start",
                "idle ms": 1000 * idle_s,
                "beyond a step ms": max(0.0, 1000 * (idle_s - work.durations["one step"])),
                "equal": work.result(work.start(next_one)) == work.expected[next_one],
            }
        )
    return rows


def oom(work: Work, times: int, *, seed: int = 0) -> list[Row]:
    """One rank has no room after a random step: all stop, the rank is named, the next picture is the same."""
    chance, rows = random.Random(seed), []
    from latentloom.parallel.plan import ParallelPlan
    from latentloom.pipelines import placement
    from latentloom.pipelines.doors import order
    from latentloom.pipelines.requests import EncodeText
    from latentloom.pipelines.values import to_plain

    text = placement.encode_text(EncodeText(model=work.model, prompt="a red star"))
    plan = ParallelPlan.parse(work.model.place.plan)
    inner = to_plain(work.denoise_request(text, 0).resolved(plan=plan))
    for number in range(times):
        rank, step = number % work.num_ranks, chance.randint(1, work.num_steps - 1)
        request = {"stage": "denoise", "request": inner, "ranks_here": work.num_ranks, "rank": rank, "step": step}
        request["doors"] = order()
        start, named = time.monotonic(), False
        try:
            work.pool.call("drill_bodies:out_of_memory", request, num_ranks=work.num_ranks)
        except OutOfMemory as error:
            named = str(error).startswith(f"{work.named(rank)}: ")
        took = time.monotonic() - start
        expected = work.expected[number % len(work.expected)]
        equal = work.result(work.start(number % len(work.expected))) == expected
        rows.append({"moment": f"rank {rank}", "told ms": 1000 * took, "equal": equal and named})
    return rows


def table(rows: Sequence[Row], title: str) -> str:
    """Median, p99 and most of every number, for each moment."""
    lines = [f"\n{title}: {len(rows)} times, {sum(row['equal'] for row in rows)} as they should be"]
    names = [name for name in rows[0] if name not in ("moment", "left", "equal")]
    lines += [f"left: {', '.join(row['left'])}" for row in rows if row.get("left")]
    lines.append(f"{'moment':8} {'times':>5} {'equal':>5}  " + "  ".join(f"{name} median/p99/max" for name in names))
    for moment in [*dict.fromkeys(row["moment"] for row in rows), "all"]:
        here = [row for row in rows if moment in (row["moment"], "all")]
        cells = [f"{summary([row[name] for row in here]):>{len(name) + 15}}" for name in names]
        lines.append(f"{moment:8} {len(here):5} {sum(row['equal'] for row in here):5}  " + "  ".join(cells))
    return "\n".join(lines)


def summary(values: Sequence[float]) -> str:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"{statistics.median(ordered):.1f} / {p99:.1f} / {ordered[-1]:.1f}"


def machine() -> str:
    cpu = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), platform.machine()
    )
    return f"{cpu.rpartition(': ')[2]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def titles(devices: Sequence[str]) -> list[str]:
    """What the GPUs among them are called."""
    import torch

    return sorted({torch.cuda.get_device_name(device) for device in devices if device.startswith("cuda")})


# In a pool that lives on: what is done, how often, and the pool's limits.
DRILLS: dict[str, tuple[Callable[..., list[Row]], int, Limits]] = {
    "kill": (kill, 200, Limits()),
    "server": (server, 50, Limits()),
    "spare": (spare, 20, Limits()),
    "stop": (stop, 20, Limits(silence_s=3)),
    "cancel": (cancel, 200, Limits()),
    "oom": (oom, 100, Limits()),
}
# Each time with a host of its own.
HOSTS: dict[str, tuple[Callable[..., list[Row]], int]] = {
    "host": (host, 50),
    "all": (all_at_once, 20),
    "memory": (memory, 3),
}
PARTS: dict[str, Callable[..., Any]] = {"live": live, "starve": starve}  # what those hosts are


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("drill", choices=[*DRILLS, *HOSTS, "every", *PARTS])
    parser.add_argument("--devices", default="cpu*2", help="two to four: cpu*2, cuda*4, cuda:1,cuda:3")
    parser.add_argument("--times", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--spares", action="store_true", help="each device keeps a spare rank, ready at each strike")
    asked = parser.parse_args()
    allow_sharing()
    try:
        devices = parse_devices(asked.devices)
    except ValueError as error:
        parser.error(str(error))
    if len(devices) not in PLANS:
        parser.error(f"devices {asked.devices!r}: a drill takes {', '.join(map(str, PLANS))}, not {len(devices)}")
    size = {"steps": asked.steps, "size": asked.size}
    if asked.drill in PARTS:
        PARTS[asked.drill](devices, **size)
    print(", ".join([machine(), *titles(devices)]), flush=True)
    is_good = True
    for name in [*DRILLS, *HOSTS] if asked.drill == "every" else [asked.drill]:
        options = {"seed": asked.seed}
        if name in HOSTS:
            drill, times = HOSTS[name]
            try:
                rows = drill(asked.times or times, devices=devices, **size, **options)
            except NoGroup as error:
                print(f"\n{name}: skipped ({error})", flush=True)
                is_good = is_good and asked.drill == "every"
                continue
        else:
            drill, times, limits = DRILLS[name]
            with Work(devices, **size, limits=limits, spare_ranks=asked.spares) as work:
                if asked.spares:
                    print(spare_rank_memory(work), flush=True)
                if name == "spare":
                    print(spare_memory(work), flush=True)
                rows = drill(work, asked.times or times, **options)
        print(table(rows, f"{name} on {', '.join(devices)}, seed {asked.seed}{', spares' * asked.spares}"), flush=True)
        is_good = is_good and all(row["equal"] for row in rows)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
