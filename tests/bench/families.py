"""Families that are rows: each against the classic pipeline, and on two ranks against one, as a table.

    python tests/bench/families.py [--compiled] [NAME ...]

Tiny random models on a CPU, fp32: about ten seconds a row, 2 GB. With `--compiled` blocks are traced into graphs, and
each plan is compared with one process that has none.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "pipelines")]

import support.checkout  # noqa: E402, F401 (makes the checkout importable)

os.environ["LATENTLOOM_SAFETY_CHECKER"] = "0"  # its package is no dependency
ALONE = "ulysses=1"
PLANS = ("ulysses=2", "ring=2", "allgather=2")


def main(names: list[str], *, is_compiled: bool) -> None:
    import test_rows

    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import to_plain
    from support.ranks import Ranks
    from support.tiny_models import write_tiny
    from support.tiny_rows import EDITS, FRAMED, TINY_ROWS, request_of, small_references

    heading = "each plan: difference, calls of the transformer on a rank"
    print(f"{'row':22} {'' if is_compiled else 'classic':>9}  {'each plan' if is_compiled else heading}")
    with Ranks(2) as pair, small_references(), tempfile.TemporaryDirectory() as root:
        rows = TINY_ROWS | {f"{name}+pictures": row for name, row in EDITS.items()}
        rows |= {f"{name}+frame": row for name, row in FRAMED.items()}
        for name in names or list(rows):
            row, tiny = rows[name], name.partition("+")[0]
            folder = write_tiny(tiny, Path(root) / tiny)
            model = to_plain(describe_model(str(folder), device="cpu"))
            if is_compiled:
                plans = (ALONE, *PLANS, "cfg=2") if row.guidance > 1 else (ALONE, *PLANS)
                traced = pair.run("bodies.prepared:denoise_traced", request_of(model, row), plans)[0]
                told = [
                    f"{plan} {apart:.1e} ({graphs} graphs, {breaks} breaks)" for plan, apart, graphs, breaks in traced
                ]
                print(f"{name:22} {'  '.join(told)}", flush=True)
                continue
            both = zip(test_rows.ours(model, row), test_rows.classic(folder, row), strict=True)
            differences = " ".join(f"{float((one - other).abs().max()):.1e}" for one, other in both)
            plans = (*PLANS, "cfg=2") if row.guidance > 1 else PLANS
            one, two = pair.run("bodies.rows:denoise_each_way", request_of(model, row), plans)
            assert [each.get("sum") for each in one] == [each.get("sum") for each in two], "ranks differ"
            found = [f"{each['plan']} {each['difference']:.1e} ({each['calls']})" for each in one[1:]]
            print(f"{name:22} {differences:>9}  one ({one[0]['calls']}) {'  '.join(found)}", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    given = sys.argv[1:]
    main([name for name in given if name != "--compiled"], is_compiled="--compiled" in given)
