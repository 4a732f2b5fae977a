"""The table of supported transformer classes in `parallel/README.md`, made from what the equality matrix found.

python tests/bench/matrix.py --out cells.jsonl
python tests/bench/support_table.py --cells cells.jsonl     # sums up to tests/matrix_results.json, writes the table
python tests/bench/support_table.py                         # writes the table from tests/matrix_results.json
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)

TESTS = Path(__file__).resolve().parents[1]
RESULTS = TESTS / "matrix_results.json"
README = TESTS.parent / "parallel" / "README.md"
BEGIN, END = "<!-- support table -->", "<!-- /support table -->"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", nargs="*", type=Path, default=[], help="what tests/bench/matrix.py --out wrote")
    args = parser.parse_args()
    if args.cells:
        lines = [line for path in args.cells for line in path.read_text().splitlines()]
        found = summed(lines, classes_of_variants())
        RESULTS.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
    README.write_text(with_table(README.read_text(), table(json.loads(RESULTS.read_text()))))


def classes_of_variants() -> dict[str, str]:
    """The transformer class that each variant of the matrix is."""
    from support.cells import variants
    from zoo.cases import CASES

    return {name: variant.build(CASES["even"])[0].__name__ for name, variant in variants().items()}


def summed(lines: Iterable[str], classes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Counts for each class, from lines `[variant, case, plan, text, verdict]`; of a cell run twice, the last."""
    from zoo.cases import CASES

    cells = {tuple(cell[:4]): cell[4] for cell in map(json.loads, lines) if cell[0] in classes}
    by_class: dict[str, dict[tuple[str, ...], str]] = {}
    for cell, verdict in cells.items():
        by_class.setdefault(classes[cell[0]], {})[cell] = verdict
    return {name: _counts(found, CASES) for name, found in sorted(by_class.items())}


def _counts(cells: dict[tuple[str, ...], str], cases: dict[str, Any]) -> dict[str, Any]:
    assert all(verdict == "ok" for (*_, text), verdict in cells.items() if text == "control"), "a control is equal"
    cells = {cell: verdict for cell, verdict in cells.items() if cell[3] != "control"}
    plans = sorted({plan for _, _, plan, _ in cells})
    masked = [verdict for (_, case, _, _), verdict in cells.items() if cases[case].masked]
    return {
        "variants": sorted({variant for variant, *_ in cells}),
        "plans": len(plans),
        "unequal_plans": sorted({plan for (_, _, plan, _), verdict in cells.items() if verdict != "ok"}),
        "cells": len(cells),
        "equal_cells": sum(verdict == "ok" for verdict in cells.values()),
        "masked_cells": len(masked),
        "equal_masked_cells": sum(verdict == "ok" for verdict in masked),
        "texts": sorted({text for _, _, _, text in cells} - {"auto"}),
    }


def table(results: dict[str, dict[str, Any]]) -> str:
    """One row for each class that has a split plan, and one for each that is refused."""
    from latentloom.pipelines.split_plans import REFUSED, SPLIT_PLANS

    rows = [
        "| class | plans equal | cells equal | of them masked | text stream |",
        "| --- | --- | --- | --- | --- |",
        *(_row(name, results.get(name)) for name in sorted(SPLIT_PLANS)),
        "",
        "| refused | why it runs on one device |",
        "| --- | --- |",
        *(f"| {name} | {REFUSED[name]} |" for name in sorted(REFUSED)),
        *(f"| some {name} | {why} |" for name in sorted(SPLIT_PLANS) for why, _ in SPLIT_PLANS[name].refused),
    ]
    return "\n".join(rows)


def _row(name: str, found: dict[str, Any] | None) -> str:
    if found is None:
        return f"| {name} | not run | | | |"
    plans = f"{found['plans'] - len(found['unequal_plans'])} of {found['plans']}"
    if found["unequal_plans"]:
        plans += f" (not {', '.join(found['unequal_plans'])})"
    cells = f"{found['equal_cells']} of {found['cells']}"
    masked = f"{found['equal_masked_cells']} of {found['masked_cells']}" if found["masked_cells"] else "takes no mask"
    return f"| {name} | {plans} | {cells} | {masked} | {' or '.join(found['texts']) or 'no choice'} |"


def with_table(readme: str, rows: str, *, begin: str = BEGIN, end: str = END) -> str:
    """A document with these rows between its two marks."""
    before, first, rest = readme.partition(begin)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise ValueError(f"the README has no {begin} ... {end}; put both lines where the table belongs")
    return f"{before}{begin}\n{rows}\n{end}{after}"


if __name__ == "__main__":
    main()
