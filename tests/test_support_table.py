"""The support table of `parallel/README.md` says what the equality matrix found, of every class there is a word on."""

import json

from bench import support_table
from latentloom.pipelines.split_plans import REFUSED, SPLIT_PLANS

README = support_table.README.read_text()


def rows() -> str:
    return README.partition(support_table.BEGIN)[2].partition(support_table.END)[0]


def test_table_names_every_class_that_is_split_or_refused() -> None:
    named = {line.split(" | ")[0].removeprefix("| ") for line in rows().splitlines()}
    assert sorted({*SPLIT_PLANS, *REFUSED} - named) == []


def test_table_is_what_the_results_make_of_it() -> None:
    results = json.loads(support_table.RESULTS.read_text())
    assert support_table.with_table(README, support_table.table(results)) == README


def test_a_cell_that_differs_is_counted_and_its_plan_named() -> None:
    cells = [["flux", "even", plan, "sharded", verdict] for plan, verdict in (("ulysses=2", "ok"), ("ring=2", "off"))]
    found = support_table.summed([json.dumps(cell) for cell in cells], {"flux": "FluxTransformer2DModel"})
    assert (found["FluxTransformer2DModel"]["equal_cells"], found["FluxTransformer2DModel"]["cells"]) == (1, 2)
    assert found["FluxTransformer2DModel"]["unequal_plans"] == ["ring=2"]
    assert "1 of 2 (not ring=2)" in support_table.table(found)
