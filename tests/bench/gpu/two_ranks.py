"""Print how near ranks that share a device come to one rank, in fp32: plans, and steps compiled and captured.

    python tests/bench/gpu/two_ranks.py [DEVICE] [--tiny]

On a GPU by NCCL, which takes two ranks on one from 2.30 on (`LD_PRELOAD`, `NCCL_MULTI_RANK_GPU_ENABLE=1`); else by
gloo. Each row is told as soon as it is there; exits with 1 where one differs or fails.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import support.checkout  # noqa: F401 (makes the checkout importable)
from bench.gpu.measuring import head, reason, row
from bench.gpu.pictures import BOBBIN, Painted, painted
from bench.gpu.sharing import allow_sharing

PLANS = ("weights=2,ulysses=2", "ulysses=2", "ring=2", "allgather=2", "cfg=2", "cfg=2,ulysses=2", "ulysses=2,ring=2")
WAYS: dict[str, dict[str, str]] = {
    "inductor, graphs": {"engine": "inductor", "graphs": "on"},
    "graphs": {"graphs": "on"},
    "inductor": {"engine": "inductor"},
}
NEAR = 1e-4  # of the largest latent, the most that several ranks may differ from one: they add up in another order


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("device", nargs="?", default="cuda:0")
    parser.add_argument("--tiny", action="store_true", help="a plan or two, few steps, nothing compiled")
    asked = parser.parse_args()
    allow_sharing()
    from latentloom.nodes import load_model
    from latentloom.pipelines import placement

    steps = 2 if asked.tiny else 0
    alone = painted(load_model(BOBBIN, dtype="fp32", device=asked.device, graphs="off"), steps=steps)
    head("plan", "way", "first s", "again s", "latents off", "pixels off, of 255")
    row("one device", "", alone.seconds, "", "", "")
    rows = [("ulysses=2", way, options) for way, options in WAYS.items() if not asked.tiny]
    rows = [*rows[:1], *((plan, "", {"graphs": "off"}) for plan in PLANS[: 2 if asked.tiny else None]), *rows[1:]]
    good = [_row(asked.device, *each, steps=steps, alone=alone) for each in rows]
    placement.POOLS.close()
    return 0 if all(good) else 1


def _row(device: str, plan: str, way: str, options: dict[str, str], *, steps: int, alone: Painted) -> bool:
    from latentloom.nodes import load_model, parallel_plan
    from latentloom.parallel.plan import ParallelPlan

    devices = ",".join([device] * ParallelPlan.parse(plan).num_ranks)
    try:
        model: Any = parallel_plan(load_model(BOBBIN, dtype="fp32", **options), devices=devices, plan=plan)
        first = painted(model, steps=steps)
        painted(model, seed=4, steps=steps)
        again = painted(model, steps=steps)  # captured, where that is asked for, and by warm ranks
    except Exception as error:  # whatever a rank or a library says, the next row is tried
        row(plan, way, "", "", reason(error), "")
        return False
    off = max(_off(each, alone) for each in (first, again))
    pixels = 255 * float((again.pixels - alone.pixels).abs().max())
    row(plan, way, first.seconds, again.seconds, f"{off:.1e}", pixels)
    return off <= NEAR


def _off(found: Painted, wanted: Painted) -> float:
    return float((found.latents - wanted.latents).abs().max() / wanted.latents.abs().max())


if __name__ == "__main__":
    sys.exit(main())
