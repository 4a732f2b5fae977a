"""Print what the first GPU took for a step of FLUX, eager, compiled and captured, beside what we predict of it.

    python tests/bench/first_light.py        # a second

One NVIDIA H200 (SXM, 140 GiB) with 16 slow host cores in a VM, torch 2.11.0, CUDA 13.0; FLUX.1 at 1024 x 1024 in bf16,
of the true size with random weights; one device, and rank 0 of 8 whose wire carries nothing, so that none is predicted.
By `tests/bench/one_gpu.py step` at commit 8c3eb376, November 2026. Compiled blocks cost the host less since: `then` is
predicted with what they cost that day, `now` with what they are estimated to cost (`costs/chips.py`), which no GPU
has measured yet. Not in the model are the weights of modulations, which every rank reads in every step (1.8 ms); a
second run of the last row took 26.8 ms.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from bench.published import FLUX
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.costs.chips import software_of
from latentloom.pipelines.costs.machine import named_machine
from latentloom.pipelines.costs.step import Step, step

# What a compiled block cost the host at 8c3eb376, in launches of 5 us: 63.3 and 140.6 ms a step.
COMPILED_THEN = {"launches": 222.0, "sharded_launches": 248.0}


@dataclass(frozen=True, kw_only=True)
class Row:
    plan: str
    is_compiled: bool
    is_captured: bool
    host_s: float
    seconds: float

    @property
    def way(self) -> str:
        return ("compiled" if self.is_compiled else "eager") + ", captured" * self.is_captured


def _rows(plan: str, *measured: tuple[float, float]) -> list[Row]:
    """Milliseconds of host and step: eager, captured, compiled, both."""
    ways = ((is_compiled, is_captured) for is_compiled in (False, True) for is_captured in (False, True))
    return [
        Row(plan=plan, is_compiled=way[0], is_captured=way[1], host_s=host / 1000, seconds=whole / 1000)
        for way, (host, whole) in zip(ways, measured, strict=True)
    ]


ROWS: Sequence[Row] = (
    *_rows("", (104.77, 172.07), (5.59, 171.19), (63.34, 134.93), (4.96, 131.29)),
    *_rows("ulysses=8", (129.78, 129.85), (7.57, 37.43), (140.56, 140.70), (6.54, 29.86)),
)


def predicted(row: Row, *, then: bool) -> Step:
    """As software was on the day of the measurement, or as it is."""
    software = software_of(is_compiled=row.is_compiled, is_captured=row.is_captured)
    if then and row.is_compiled:
        software = replace(software, **COMPILED_THEN)
    return step(FLUX, ParallelPlan.parse(row.plan), named_machine("1xH200").chip(1), software)


def error(row: Row) -> float:
    return predicted(row, then=True).seconds / row.seconds - 1


def main() -> None:
    print(f"{'plan':12} {'way':20} {'host ms':>16} {'ms a step':>10} {'then':>7} {'error':>7} {'now':>7}")
    for row in ROWS:
        then, now = (predicted(row, then=each) for each in (True, False))
        hosts = f"{1000 * row.host_s:.1f} ({1000 * then.host:.1f})"
        print(
            f"{row.plan or 'one device':12} {row.way:20} {hosts:>16} {1000 * row.seconds:10.1f} "
            f"{1000 * then.seconds:7.1f} {error(row):+7.1%} {1000 * now.seconds:7.1f}"
        )
    print(f"worst of {len(ROWS)} rows: {max(abs(error(row)) for row in ROWS):.1%}")


if __name__ == "__main__":
    main()
