"""Any diffusers pipeline, spread over ranks: is it exact? Every pipeline class whose transformer has a split plan.

    python tests/bench/pipelines.py                                  # all, under every plan: about half an hour
    python tests/bench/pipelines.py --only LTX2 Sana --plans cfg=2
    python tests/bench/pipelines.py --write                          # rows into tests/pipelines_results.json

Tiny random weights, fp32, CPU, gloo, one thread a rank. A row holds if, under its plan, each transformer call gives
what it gives in one process, from the same inputs, within 1e-5 of its largest value, and so do the calls of a free
run's first step; a whole free run differs by no more than ten times what a change of the noise by 1e-7 makes; all ranks
have the same bits; a run that one rank cancels ends on all at that step; and the pipeline gives its own bytes
afterwards; or it is refused by the words that its row gives. Exits with 1 if one does not.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.checkout import ROOT
from support.ranks import RankError, Ranks

PAIR = ("ulysses=2", "ring=2", "allgather=2", "cfg=2")
FOUR = "cfg=2,ulysses=2"
TOLERANCE = 1e-5
RESULTS = ROOT / "tests" / "pipelines_results.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="pipelines whose name begins with one of these")
    parser.add_argument("--plans", nargs="*", default=[*PAIR, FOUR])
    parser.add_argument("--write", action="store_true", help=f"put these rows into {RESULTS.name}")
    chosen = parser.parse_args()
    from zoo.pipelines import LEFT_OUT, TINY

    start, results, meter = time.monotonic(), dict[str, dict[str, Any]](), Meter()
    names = [name for name in TINY if not chosen.only or name.startswith(tuple(chosen.only))]
    for size in (2, 4):
        plans = [plan for plan in chosen.plans if (plan == FOUR) == (size == 4)]
        for name, plan, found in _compared(names, plans, size) if plans else ():
            results.setdefault(name, {})[plan] = found
            meter.read()
            print(f"{name:<46} {plan:<16} {_line(found)}", flush=True)
    for name, why in LEFT_OUT.items():
        print(f"{name:<46} left out: {why}")
    for name in names:
        if TINY[name].rounds:
            print(f"{name:<46} ring=2           left out: {TINY[name].rounds}")
    wrong = [f"{name} {plan}" for name, each in results.items() for plan, found in each.items() if problems(found)]
    classes = {name.partition(":")[0] for name in results}
    embeds = [name for name in names if TINY[name].embeds]
    print(
        f"{len(classes)} pipeline classes in {len(results)} ways, {sum(map(len, results.values()))} rows, "
        f"{len(wrong)} wrong; {len(embeds)} with embeddings in place of a text encoder; "
        f"{len(LEFT_OUT)} left out; {time.monotonic() - start:.0f} s, {meter}"
    )
    print(*wrong, sep="\n")
    if chosen.write:
        kept = json.loads(RESULTS.read_text())
        merged = {name: {**kept.get(name, {}), **results.get(name, {})} for name in TINY}
        RESULTS.write_text(json.dumps(merged, indent=1, sort_keys=True) + "\n")
    return 1 if wrong else 0


def _compared(names: list[str], plans: list[str], size: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    from zoo.pipelines import TINY

    with Ranks(size) as ranks:
        for name in names:
            for plan in plans:
                if ("cfg" in plan and TINY[name].branches < 2) or (plan == "ring=2" and TINY[name].rounds):
                    continue
                try:
                    each = ranks.run("bodies.spreading:compare", name, plan)
                except RankError as error:
                    said = str(error).strip().splitlines()[-1][:300]
                    known = TINY[name].unshared if "cfg" in plan else ""
                    is_known = any(words and words in said for words in (known, TINY[name].refused))
                    yield name, plan, {"refused" if is_known else "error": said}
                else:
                    yield name, plan, of_all(each)


class Meter:
    """Memory and processor time of this process and its ranks, as they were at the end of each row."""

    def __init__(self) -> None:
        self.bytes = 0
        self.seconds = dict[int, float]()  # by process: those of ranks that have ended stay as they were last seen

    def read(self) -> None:
        here = psutil.Process()
        every = (here, *here.children(recursive=True))
        self.bytes = max(self.bytes, sum(each.memory_full_info().pss for each in every))  # a shared page counts once
        for each in every:
            used = each.cpu_times()
            self.seconds[each.pid] = used.user + used.system

    def __str__(self) -> str:
        return f"{sum(self.seconds.values()) / 60:.0f} minutes of processor time, at most {self.bytes / 1e9:.1f} GB"


def of_all(each: list[dict[str, Any]]) -> dict[str, Any]:
    """What the first rank found, and whether all found the same; each change of the noise was one rank's."""
    return {
        **{name: value for name, value in each[0].items() if name != "mark"},
        "nudge": max(one["nudge"] for one in each),
        "is_restored": all(one["is_restored"] for one in each),
        "is_alike": len({one["mark"] for one in each}) == 1,
        "cancelled": all(one["cancelled"] for one in each),
    }


def problems(found: dict[str, Any]) -> list[str]:
    """What does not hold, in words."""
    if "error" in found:
        return [found["error"]]
    if "refused" in found:
        return []
    held = {
        "a call differs": found["difference"] <= TOLERANCE,
        "the first step differs": found["first"] <= TOLERANCE,
        "it drifts": found["drift"] <= max(TOLERANCE, 10 * found["nudge"]),
        "ranks differ": found["is_alike"],
        "it is not what it was": found["is_restored"],
        "a cancel is not heard": found["cancelled"],
    }
    return [what for what, is_so in held.items() if not is_so]


def _line(found: dict[str, Any]) -> str:
    if "error" in found:
        return f"WRONG: {found['error']}"
    if "refused" in found:
        return f"refused: {found['refused']}"
    whole, first, then = found["calls"]
    calls = f"calls {whole} -> {first} -> {then}" if found["modes"] else f"calls {whole}"
    numbers = f"call {found['difference']:.0e}, first step {found['first']:.0e}, drift {found['drift']:.0e}"
    words = f"{numbers} (nudge {found['nudge']:.0e}), {calls}, {found['sent'] / 1e6:.2f} MB"
    why = f", whole because {found['why']}" if found["why"] else ""
    wrong = "".join(f", WRONG: {each}" for each in problems(found))
    return words + why + wrong


if __name__ == "__main__":
    sys.exit(main())
