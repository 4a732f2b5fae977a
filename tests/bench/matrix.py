"""The equality matrix: every variant of every class, in every shape, under every plan, against one process.

    python tests/bench/matrix.py [--variants flux ...] [--plans ulysses=2 ...] [--cases even ...] [--out FILE]

Prints one line for each cell that is not equal, and a count; exits with 1 if there is one. With no arguments it is the
full matrix: under an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import support.checkout  # noqa: F401 (makes the checkout importable)
from support.cells import texts, variants, verdict
from support.ranks import RankError, Ranks
from zoo.cases import CASES, FEW

PLANS = (
    "ulysses=2",
    "ulysses=3",
    "ulysses=4",
    "ring=2",
    "ring=3",
    "allgather=2",
    "allgather=3",
    "ulysses=2,ring=2",
    "ulysses=2,allgather=2",
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", nargs="*", default=None)
    parser.add_argument("--plans", nargs="*", default=list(PLANS))
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--out", type=Path, help="JSON lines, one for each cell")
    parser.add_argument("--verbose", action="store_true", help="a line for each equal cell too")
    args = parser.parse_args()
    ranks, bad, good, started = Ranks(4), 0, 0, time.monotonic()
    out = args.out.open("a") if args.out else None
    for variant in args.variants or variants():
        for name in args.cases:
            case = CASES[name]
            if case.masked and not variants()[variant].masks:
                continue
            cells = [(plan, text) for plan in args.plans for text in texts(variant, case)]
            for plan, text in [("ulysses=2", "control"), *cells] if name == "even" else cells:
                found = one(ranks, variant, name, plan, text)
                good, bad = good + (found == "ok"), bad + (found != "ok")
                if found != "ok" or args.verbose:
                    print(f"{variant:24} {plan:22} {text:10} {name:10} {found}", flush=True)
                if out:
                    print(json.dumps([variant, name, plan, text, found]), file=out, flush=True)
    ranks.close()
    print(f"{good} cells equal, {bad} not, {time.monotonic() - started:.0f} s")
    return int(bad > 0)


def one(ranks: Ranks, variant: str, case: str, plan: str, text: str) -> str:
    is_control = text == "control"
    full = plan if text in ("auto", "control") else f"{plan},text={text}"
    try:
        if CASES[case] in FEW:
            return few(ranks.run("support.cells:few", variant, case, full))
        found = verdict(ranks.run("support.cells:cell", variant, case, full, is_control))
    except RankError as error:
        found = f"raised {str(error).splitlines()[0]}"
    if is_control and "no answer" not in found and "died" not in found:
        return "ok" if found != "ok" else "the control is equal: this variant does not test attention"
    return found


def few(found: list[dict[str, Any] | str | None]) -> str:
    """`ok` where every rank is right, or every rank is told that the plan has too many for these tokens."""
    told = {each for each in found if isinstance(each, str)}
    if told == {""}:
        return "ok"
    if told:
        return "ok" if len(told) == 1 and "too few for the" in next(iter(told)) else " | ".join(sorted(told))
    return verdict(found)


if __name__ == "__main__":
    sys.exit(main())
