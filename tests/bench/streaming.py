"""Streamed transformers against resident ones: every pair of a plan and what goes with it, to the bit.

    python tests/bench/streaming.py [--variants flux ...] [--plans ulysses=2 ...] [--kinds none ...] [--ranks 4]
    python tests/bench/streaming.py --budget [--tokens 64] [--limit 700MB] [--runs 5]

A cell is a variant of the zoo, a shape, a plan and one of: no block resident, half of them, a LoRA, int8, each block
failing once before, shares that ranks gather (a third resident, each block failing once before), compiled (aot_eager).
What rests is NaN wherever it is not brought, so that a weight that is read elsewhere shows. Prints one line for each
cell that is not equal, and counts; exits with 1 if there is one. All of 20 variants take 10 minutes on two cores, and
as long again with `compiled`.

`--budget` makes a random FLUX-shaped model of 3 GB, with blocks of 59 MB, and runs it under a limit on one rank and on
two: private memory above what the process had before, looked at each 10 ms, and seconds beside those of what computes
and what copies, each alone.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)
from bodies.streamed_cells import KINDS
from support.ranks import RankError, Ranks
from zoo.cases import CASES

VARIANTS = (
    *("minimax_h3", "flux2", "flux", "flux3", "wan", "qwen_image", "qwen_image21", "ltx2", "z_image", "sd3", "krea2"),
    *("hunyuan_video", "hunyuan_video_15", "cogvideox", "chroma", "mochi", "lumina2", "pixart", "cosmos3", "sana"),
)
PLANS = ("ulysses=1", "ulysses=2", "ring=2", "allgather=2", "ulysses=2,ring=2")
SHAPES = ("even", "both_odd")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--plans", nargs="*", default=list(PLANS))
    parser.add_argument("--kinds", nargs="*", default=[kind for kind in KINDS if kind != "compiled"])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--limit", default="700MB")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    if args.budget:
        from support.large_streams import budget

        return budget(tokens=args.tokens, limit=args.limit, runs=args.runs)
    ranks, counts, started = Ranks(args.ranks), Counter[str](), time.monotonic()
    for variant in args.variants:
        for plan in args.plans:
            for kind in args.kinds:
                for shape in SHAPES if kind in ("none", "half") else SHAPES[1:]:
                    found = _verdict(ranks, variant, shape, plan, kind)
                    counts[found if found == "equal" else "WRONG"] += 1
                    if found != "equal":
                        print(f"{variant:20} {shape:10} {plan:18} {kind:10} {found}", flush=True)
    ranks.close()
    print(f"{dict(counts)} of {sum(counts.values())} cells, {time.monotonic() - started:.0f} s")
    return int(counts["WRONG"] > 0)


def _verdict(ranks: Ranks, variant: str, shape: str, plan: str, kind: str) -> str:
    assert shape in CASES
    try:
        found = ranks.run("bodies.streamed_cells:cell", variant, shape, plan, kind, deadline_s=200)
    except RankError as error:
        return str(error).strip().splitlines()[-1][:200]
    cells = [each for each in found if each is not None]
    if not all(each["bits"] for each in cells):
        return "other bits than resident"
    if not all(each["blocks"] for each in cells):
        return "nothing is streamed"
    for each in cells:
        if not each.get("difference", 0.0) <= 1e-5 * max(1.0, each.get("largest", 1.0)):
            return f"off by {each['difference']:.2g} of one process"
    return "equal"


if __name__ == "__main__":
    sys.exit(main())
