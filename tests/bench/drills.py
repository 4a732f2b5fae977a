"""Break a pool at random moments while it makes real pictures, and print what it noticed, mended and lost.

python tests/bench/drills.py kill --ranks 2 --times 200     also: stop, cancel, oom, host; `all` runs each in turn
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
from pathlib import Path
from typing import Any

from drill_host import host, live
from drill_work import Moment, Work, later
from latentloom.parallel.border import Cancelled
from latentloom.parallel.job import RankOutOfMemory
from latentloom.parallel.limits import Limits

MOMENTS = ("load", "encode", "step", "decode", "idle")
Row = dict[str, Any]


def kill(work: Work, times: int, *, seed: int = 0) -> list[Row]:
    """SIGKILL each rank in turn, one for each job, at a random time within a stage."""
    chance, rows = random.Random(seed), []
    for number in range(times):
        moment, rank = MOMENTS[number % len(MOMENTS)], number // len(MOMENTS) % work.num_ranks
        if moment == "load":
            forget(work)
        rows.append(kill_once(work, moment, rank, number % len(work.expected), chance))
    return rows


def kill_once(work: Work, moment: str, rank: int, seed: int, chance: random.Random) -> Row:
    border, killed = Moment(), list[float]()

    def strike() -> None:
        killed.append(time.monotonic())
        os.kill(work.pool.states()[rank].pid, signal.SIGKILL)

    stage = "step" if moment == "load" else moment
    wait_s = chance.random() * (0.5 if moment == "load" else work.durations.get(stage, 0.0))
    border.hooks[stage] = lambda: (later(wait_s, strike), None)[1]
    start = time.monotonic()
    found = work.result(work.start(seed, border))
    took = time.monotonic() - start
    while not killed:  # the stage was over sooner than thought
        time.sleep(0.001)
    noticed = None
    end = max(killed[0], time.monotonic()) + 10  # the job itself may have taken longer
    while noticed is None and time.monotonic() < end:
        noticed = work.log.first(f"rank {rank} (cpu) was killed", since=killed[0])
        time.sleep(0.001)
    said = [line for _, line in work.log.lines[-5:]]
    assert noticed is not None, f"the death of rank {rank} ({moment}) was not noticed in 10 s; the pool said {said}"
    back = work.wait_ready(noticed)
    usual = sum(work.durations[name] for name in ("encode", "step", "decode"))
    return {
        "moment": moment,
        "noticed ms": 1000 * (noticed - killed[0]),
        "group back ms": 1000 * (back - killed[0]),
        "extra s": max(0.0, took - usual),
        "equal": found == work.expected[seed],
    }


def forget(work: Work) -> None:
    """Replace all ranks, so that the next job loads."""
    since = time.monotonic()
    for state in work.pool.states():
        os.kill(state.pid, signal.SIGKILL)
    work.wait_ready(since)


def stop(work: Work, times: int, *, seed: int = 0) -> list[Row]:
    """SIGSTOP a rank in the middle of a denoise: found at the deadline, replaced, and the picture is the same."""
    chance, rows = random.Random(seed), []
    for number in range(times):
        border, stopped, rank = Moment(), list[float](), number % work.num_ranks

        def strike(rank: int = rank, stopped: list[float] = stopped) -> None:
            os.kill(work.pool.states()[rank].pid, signal.SIGSTOP)
            stopped.append(time.monotonic())

        wait_s = chance.random() * work.durations["step"] * 0.8
        border.hooks["step"] = lambda wait_s=wait_s, strike=strike: (later(wait_s, strike), None)[1]
        future = work.start(number % len(work.expected), border)
        found = work.result(future)
        since = stopped[0] if stopped else time.monotonic()
        late = work.log.first(f"rank {rank} (cpu) was silent", since=since)
        back = work.wait_ready(since if late is None else late)
        rows.append(
            {
                "moment": "step",
                "found ms after deadline": 1000 * ((late or since) - since - work.limits.silence_s),
                "group back ms": 1000 * (back - (late or since)),
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
        border = Cancelling(chance.random() * usual)
        try:
            work.result(work.start(number % len(work.expected), border))
            idle_s = 0.0  # it was done sooner
        except Cancelled:
            idle_s = time.monotonic() - border.asked
        next_one = (number + 1) % len(work.expected)
        rows.append(
            {
                "moment": border.stage or "start",
                "idle ms": 1000 * idle_s,
                "beyond a step ms": max(0.0, 1000 * (idle_s - work.durations["one step"])),
                "equal": work.result(work.start(next_one)) == work.expected[next_one],
            }
        )
    return rows


def oom(work: Work, times: int, *, seed: int = 0) -> list[Row]:
    """One rank has no room after a random step: all stop, the rank is named, the next picture is the same."""
    chance, rows = random.Random(seed), []
    from latentloom.pipelines import placement
    from latentloom.pipelines.values import to_plain

    text = placement.encode_text({"model": to_plain(work.model), "prompt": "a red star"})
    inner = {**work.denoise_request(text, 0), "plan": work.model.place.plan}
    for number in range(times):
        rank, step = number % work.num_ranks, chance.randint(1, work.num_steps - 1)
        request = {"stage": "denoise", "request": inner, "ranks_here": work.num_ranks, "rank": rank, "step": step}
        start, named = time.monotonic(), False
        try:
            work.pool.call("drill_bodies:out_of_memory", request, num_ranks=work.num_ranks)
        except RankOutOfMemory as error:
            named = str(error).startswith(f"rank {rank} (cpu): ")
        took = time.monotonic() - start
        expected = work.expected[number % len(work.expected)]
        equal = work.result(work.start(number % len(work.expected))) == expected
        rows.append({"moment": f"rank {rank}", "told ms": 1000 * took, "equal": equal and named})
    return rows


def table(rows: Sequence[Row], title: str) -> str:
    """Median, p99 and most of every number, for each moment."""
    lines = [f"\n{title}: {len(rows)} times, {sum(row['equal'] for row in rows)} as they should be"]
    names = [name for name in rows[0] if name not in ("moment", "equal")]
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


DRILLS: dict[str, tuple[Callable[..., list[Row]], int, Limits]] = {
    "kill": (kill, 200, Limits()),
    "stop": (stop, 20, Limits(silence_s=3)),
    "cancel": (cancel, 200, Limits()),
    "oom": (oom, 100, Limits()),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("drill", choices=[*DRILLS, "host", "all", "live"])
    parser.add_argument("--ranks", type=int, default=2, choices=(2, 3, 4))
    parser.add_argument("--times", type=int)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    asked = parser.parse_args()
    if asked.drill == "live":  # what `host` kills
        live(asked.ranks, steps=asked.steps, size=asked.size)
    print(machine(), flush=True)
    is_good = True
    for name in [*DRILLS, "host"] if asked.drill == "all" else [asked.drill]:
        if name == "host":
            rows = host(asked.times or 50, ranks=asked.ranks, steps=asked.steps, size=asked.size)
        else:
            drill, times, limits = DRILLS[name]
            with Work(asked.ranks, steps=asked.steps, size=asked.size, limits=limits) as work:
                rows = drill(work, asked.times or times)
        print(table(rows, f"{name}, {asked.ranks} ranks"), flush=True)
        is_good = is_good and all(row["equal"] for row in rows)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
