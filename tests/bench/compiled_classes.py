"""Every class compiled: its blocks' output with the exchange in the graph and without, against eager and one process.

    python tests/bench/compiled_classes.py --kept /tmp/classes.jsonl [--variants flux ...] [--backend inductor]

On two ranks of a CPU, tiny, fp32, of an uneven size; with `--sizes 3` of two more, which share a second graph. What was
found is kept in the file, and not run again; the table of all that is there is printed at the end, which is
`tests/parallel/compiled_classes.md`. Exits with 1 where something is further off than 1e-5 of the largest number. Ten
seconds a class and size, more by inductor.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.attention import STRATEGIES
from support.cells import variants
from support.ranks import RankError, Ranks
from zoo.cases import CASES

TOLERANCE = 1e-5
DEADLINE_S = 3600  # of one class, on a busy machine
SIZES = [(3, 5), (4, 4), (5, 4)]

HEAD = (
    "# Every class compiled",
    "",
    "How far compiled blocks are from the same blocks eager, and from one process, as a share of the largest number:",
    "with the exchange in the graph, then in an operator; one number where a class has none in the graph. Two ranks of",
    "a CPU, fp32, tiny models of an uneven size, by `tests/bench/compiled_classes.py`.",
    "",
    "| class (variant) | plan, backend, sizes | from eager, sharded | from one process | graphs | not in a graph |",
    "| --- | --- | --- | --- | --- | --- |",
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", nargs="*", default=None)
    parser.add_argument("--plans", nargs="*", default=["ulysses=2"])
    parser.add_argument("--sizes", type=int, choices=(1, 2, 3), default=1)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--kept", type=Path, required=True)
    args = parser.parse_args()
    args.kept.touch()
    known = {key for key, row in rows(args.kept).items() if "error" not in row}
    with Ranks(2) as ranks:
        for variant in args.variants or first_of_each_class():
            for plan in args.plans:
                if (variant, plan, args.backend, args.sizes) not in known:
                    with args.kept.open("a") as file:
                        file.write(json.dumps(measured(ranks, variant, plan, args.backend, args.sizes)) + "\n")
    found = list(rows(args.kept).values())
    print_table(found)
    return int(not all(is_right(row) for row in found))


def rows(kept: Path) -> dict[tuple[str, str, str, int], Any]:
    found = [json.loads(line) for line in kept.read_text().splitlines()]
    return {(row["variant"], row["plan"], row["backend"], row["sizes"]): row for row in found}


def first_of_each_class() -> list[str]:
    found = {each.build(CASES["even"])[0]: name for name, each in reversed(variants().items())}
    return sorted(found.values())


def measured(ranks: Ranks, variant: str, plan: str, backend: str, sizes: int) -> dict[str, Any]:
    kind = variants()[variant].build(CASES["even"])[0].__name__
    row: dict[str, Any] = {"class": kind, "variant": variant, "plan": plan, "backend": backend, "sizes": sizes}
    options = {"backend": backend, "fullgraph": False}
    try:
        row["in graph"] = together(ranks, variant, plan, sizes, options)
        if set(row["in graph"]["ways"]) & STRATEGIES.keys():
            row["operator"] = together(ranks, variant, plan, sizes, {**options, "sends_in_graphs": False})
    except RankError as error:
        row["error"] = str(error).partition("\n")[0]
    return row


def together(ranks: Ranks, variant: str, plan: str, sizes: int, options: dict[str, Any]) -> dict[str, Any]:
    """The worst of all ranks."""
    everyone = ranks.run("bodies.compiled:in_graph", variant, plan, SIZES[:sizes], 4, options, deadline_s=DEADLINE_S)
    return {
        "eager": max(max(each["eager"]) for each in everyone),
        "alone": max(max(each["alone"]) for each in everyone),
        "ways": sorted({way for each in everyone for way in each["ways"]}),
        "graphs": max(each["graphs"] for each in everyone),
        "is as much sent": all(each["is as much sent"] for each in everyone),
        "are broken": any(each["are broken"] for each in everyone),
        "left out": sorted({why for each in everyone for why in each["left out"]}),
    }


def is_right(row: dict[str, Any]) -> bool:
    ways = [row[way] for way in ("in graph", "operator") if way in row]
    is_near = all(max(each["eager"], each["alone"]) <= TOLERANCE for each in ways)
    return "error" not in row and is_near and all(each["is as much sent"] for each in ways)


def print_table(found: list[dict[str, Any]]) -> None:
    for line in HEAD:
        print(line)
    for row in sorted(found, key=lambda row: (row["class"], row["variant"], row["plan"], row["backend"])):
        ways = [row[way] for way in ("in graph", "operator") if way in row]
        apart = [", ".join(f"{each[what]:.1e}" for each in ways) for what in ("eager", "alone")]
        left = ", ".join(ways[0]["left out"]) if ways and ways[0]["are broken"] else ""
        graphs = ways[0]["graphs"] if ways else ""
        cells = (
            f"{row['class']} ({row['variant']})",
            f"{row['plan']}, {row['backend']}, {row['sizes']}",
            *apart,
            graphs,
            row.get("error", left),
        )
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    raise SystemExit(main())
