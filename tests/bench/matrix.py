"""The equality matrix: every variant of every class, in every shape, under every plan, against one process.

    python tests/bench/matrix.py [--variants flux ...] [--plans ulysses=2 ...] [--cases even ...] [--out FILE] [--trim]

Prints one line for each cell that is not equal, and a count; exits with 1 if there is one. With no arguments it is the
full matrix: 20 minutes on two cores. With --trim it is that of the classes whose padding is left out, with it left
out, under every plan and on one device.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)
from support.cells import texts, variants, verdict
from support.ranks import RankError, Ranks
from zoo.cases import CASES, FEW, PADDED

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
    parser.add_argument("--cases", nargs="*", default=None)
    parser.add_argument("--trim", action="store_true", help="padding is left out; its own cases")
    parser.add_argument("--out", type=Path, help="JSON lines, one for each cell")
    parser.add_argument("--verbose", action="store_true", help="a line for each equal cell too")
    args = parser.parse_args()
    ranks, bad, good, started = Ranks(4), 0, 0, time.monotonic()
    out = args.out.open("a") if args.out else None
    names = args.cases or [name for name, case in CASES.items() if (case in PADDED) == args.trim]
    for variant in args.variants or (with_padding() if args.trim else variants()):
        for name in names:
            case = CASES[name]
            if case.masked and not variants()[variant].masks:
                continue
            cells = [(plan, text) for plan in args.plans for text in texts(variant, case)]
            if args.trim:
                cells = [("one", "auto"), *cells]
            for plan, text in [("ulysses=2", "control"), *cells] if name == "even" else cells:
                found = one(ranks, variant, name, plan, text, body="padded" if args.trim else "cell")
                good, bad = good + (found == "ok"), bad + (found != "ok")
                if found != "ok" or args.verbose:
                    print(f"{variant:24} {plan:22} {text:10} {name:10} {found}", flush=True)
                if out:
                    print(json.dumps([variant, name, plan, text, found]), file=out, flush=True)
    ranks.close()
    print(f"{good} cells equal, {bad} not, {time.monotonic() - started:.0f} s")
    return int(bad > 0)


def with_padding() -> list[str]:
    """The variants of classes whose padding can be left out."""
    from latentloom.pipelines.split_plans.paddings import PADDINGS

    return [name for name, each in variants().items() if each.build(CASES["even"])[0].__name__ in PADDINGS]


def one(ranks: Ranks, variant: str, case: str, plan: str, text: str, *, body: str = "cell") -> str:
    is_control = text == "control"
    full = plan if text in ("auto", "control") else f"{plan},text={text}"
    try:
        if CASES[case] in FEW:
            return few(ranks.run("support.cells:few", variant, case, full))
        more = (is_control,) if is_control else ()
        found = verdict(ranks.run(f"support.cells:{body}", variant, case, full, *more))
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
