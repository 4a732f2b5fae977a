"""Every variant of every class with its blocks over sections (`layers`), against one process; and how long they idle.

    python tests/bench/layers.py cells [--plans layers=2 ...] [--variants flux ...] [--out FILE]
    python tests/bench/layers.py idle
    python tests/bench/layers.py pipelines [--plans layers=2 ...] [--variants FluxPipeline ...]

`cells`: three calls with other inputs, of odd sizes and of masked texts. Prints each cell that is not equal to the bit,
and a count; exits with 1 where one is off by more than 1e-5 of the largest value. `idle`: counted calls of blocks.
`pipelines`: two runs of each pipeline of diffusers' own, whole, whose scheduler, guidance and VAE take what waits.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.plan import ParallelPlan
from support.cells import TOLERANCE, variants
from support.ranks import RankError, Ranks
from zoo.cases import CASES

PLANS = ("layers=2", "layers=4", "layers=2,ulysses=2")
# Calls a step, steps, and whether they meet after each, as branches of guidance do.
IDLE = ((1, 4, True), (2, 4, True), (4, 3, True), (2, 6, False), (4, 6, False), (6, 4, False), (3, 4, False))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("cells", "idle", "pipelines"))
    parser.add_argument("--plans", nargs="*", default=list(PLANS))
    parser.add_argument("--variants", nargs="*", default=None)
    parser.add_argument("--cases", nargs="*", default=["both_odd", "masked_odd"])
    parser.add_argument("--out", type=Path, help="JSON lines, one for each cell")
    args = parser.parse_args()
    if args.what == "idle":
        return idle()
    return max((cells if args.what == "cells" else pipelines)(plan, args) for plan in args.plans)


def cells(plan: str, args: argparse.Namespace) -> int:
    started, found = time.monotonic(), Counter[str]()
    with Ranks(ParallelPlan.parse(plan).num_ranks) as ranks:
        for variant in args.variants or variants():
            for case in args.cases:
                if not CASES[case].masked or variants()[variant].masks:
                    told = one(ranks, variant, case, plan)
                    found[told.split(":")[0]] += 1
                    if told != "bits":
                        print(f"{variant:24} {plan:20} {case:12} {told[:400]}", flush=True)
                    if args.out:
                        with args.out.open("a") as file:
                            print(json.dumps([variant, case, plan, told]), file=file)
    print(f"{plan}: {dict(found)}, {time.monotonic() - started:.0f} s", flush=True)
    return int(bool(found["off"] + found["failed"]))


def pipelines(plan: str, args: argparse.Namespace) -> int:
    from zoo.pipelines import TINY

    found = Counter[str]()
    with Ranks(ParallelPlan.parse(plan).num_ranks) as ranks:
        for name in args.variants or TINY:
            try:
                difference = max(ranks.run("bodies.sections:whole_pipeline", name, plan, deadline_s=120))
                told = "bits" if difference == 0 else f"differs: {difference:.2g}"
            except RankError as error:
                told = f"{'refused' if 'use another plan than layers' in str(error) else 'failed'}: {error}"
            found[told.split(":")[0]] += 1
            if told != "bits":
                print(f"{name:40} {plan:20} {told[:300]}", flush=True)
    print(f"{plan}: {dict(found)}", flush=True)
    return int(bool(found["failed"]))


def one(ranks: Ranks, variant: str, case: str, plan: str) -> str:
    blocks = ParallelPlan.parse(plan).layers
    try:
        cells = [each for each in ranks.run("bodies.sections:cell", variant, case, plan, blocks, deadline_s=60) if each]
    except RankError as error:
        first = str(error).splitlines()[0]
        return (
            f"{'refused' if 'use another plan than layers' in str(error) or 'sections' in first else 'failed'}: {error}"
        )
    difference = max(each["difference"] for each in cells)
    if not all(each["is_restored"] for each in cells):
        return "failed: it is not as it was after remove()"
    if difference == 0:
        return "bits"
    is_close = difference <= TOLERANCE * max(1.0, cells[0]["largest"])
    return f"{'close' if is_close else 'off'}: {difference:.2g} of {cells[0]['largest']:.2g}"


def idle() -> int:
    worst = 0.0
    for count in (2, 4):
        with Ranks(count) as ranks:
            for variant, blocks in (("flux", 4), ("wan", 8), ("qwen_image", 4)):
                for runs, steps, meet in IDLE:
                    ran = ranks.run("bodies.sections:idle", variant, blocks, count, runs, steps, meet)
                    share = ran[0]["idle"]
                    worst = max(worst, share - ran[0]["form"])
                    line = {"variant": variant, "N": count, "M": runs, "S": steps, "meet": meet, **ran[0]}
                    print(json.dumps(line), flush=True)
    print(f"at most {worst:.4f} beyond the form")
    return int(worst > 0.02)


if __name__ == "__main__":
    sys.exit(main())
