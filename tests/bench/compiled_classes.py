"""Every class, compiled as on GPUs: the exchange in the graph against the same not compiled, and against one process.

    python tests/bench/compiled_classes.py [--variants flux ...] [--plans ulysses=2 ...] [--backend aot_eager]

Two sizes each, uneven on two ranks; a graph for the first and one for any other. Prints a table: how far the output is
from both, the graphs, how attention goes in them, and whether torch needs several graphs a block, which it then makes
with its own guards. Exits with 1 if a class is off by more than 1e-5.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.plan import ParallelPlan
from support.cells import variants
from support.ranks import RankError, Ranks
from zoo.cases import CASES

TOLERANCE = 1e-5
SIZES = [(4, 4), (3, 5)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", nargs="*", default=None)
    parser.add_argument("--plans", nargs="*", default=["ulysses=2"])
    parser.add_argument("--backend", default="aot_eager")
    args = parser.parse_args()
    bad, started = 0, time.monotonic()
    print("| variant | plan | off not compiled | off one process | graphs | ways | several a block |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with Ranks(max(ParallelPlan.parse(plan).num_ranks for plan in args.plans)) as ranks:
        for variant in args.variants or first_of_each_class():
            for plan in args.plans:
                bad += not tell(ranks, variant, plan, args.backend)
    print(f"{bad} wrong, {time.monotonic() - started:.0f} s")
    return int(bad > 0)


def first_of_each_class() -> list[str]:
    found = {each.build(CASES["even"])[0]: name for name, each in reversed(variants().items())}
    return sorted(found.values())


def tell(ranks: Ranks, variant: str, plan: str, backend: str) -> bool:
    """A row; whether it is right."""
    options = {"backend": backend, "fullgraph": False}
    try:
        everyone = ranks.run("bodies.compiled:in_graph", variant, plan, SIZES, 4, options, deadline_s=560)
    except RankError as error:
        print(f"| {variant} | {plan} | {str(error).strip().splitlines()[-1][:150]} | | | | |", flush=True)
        return False
    found = [each for each in everyone if each is not None]
    eager, alone = (max(max(each[which]) for each in found) for which in ("eager", "alone"))
    graphs, ways = max(each["graphs"] for each in found), ", ".join(sorted({w for each in found for w in each["ways"]}))
    is_broken = any(each["are broken"] for each in found)
    print(
        f"| {variant} | {plan} | {eager:.1e} | {alone:.1e} | {graphs} | {ways} | {'yes' if is_broken else ''} |",
        flush=True,
    )
    return max(eager, alone) <= TOLERANCE and all(each["is as much sent"] for each in found)


if __name__ == "__main__":
    raise SystemExit(main())
