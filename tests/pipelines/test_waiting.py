"""Branches of guidance that other ranks compute: what a pipeline does with them meanwhile gives the same values."""

from typing import Any

import pytest

from support.ranks import Ranks

STEPS = 4
NO_USE = (
    "plan cfg=2: the step shared out no guidance, because {}; leave cfg out of the plan, unless later steps have more"
)


def compared(pair: Ranks, script: str, *, rows: int = 1, sizes: tuple[int, ...] = (0, 0)) -> list[dict[str, Any]]:
    found = pair.run("bodies.waiting:compare", script, rows, sizes)
    assert all(each["difference"] <= 1e-6 and each["is_plain"] for each in found)
    assert [each["modes"] for each in found] == [found[0]["modes"]] * 2
    return found


@pytest.mark.parametrize("script", ["guided", "pieces", "operand_changed", "as_numpy", "without_sound"])
def test_branches_are_taken_in_turns_with_the_bits_of_one_process(pair: Ranks, script: str) -> None:
    for each in compared(pair, script):
        assert all(each["is_same"]) and each["alone"] == 2 * STEPS
        assert each["calls"] == [STEPS + 1, STEPS], "the first step of the first run is learnt from"
        assert each["modes"][1] == {"turns": 2 * STEPS} and not each["why"]


def test_of_three_branches_two_are_taken_in_turns_and_all_compute_the_last(pair: Ranks) -> None:
    for each in compared(pair, "three_branches"):
        assert all(each["is_same"]) and each["calls"] == [3 + 2 * (STEPS - 1), 2 * STEPS]


def test_a_change_in_place_finishes_what_waits_first(pair: Ranks) -> None:
    for each in compared(pair, "branch_changed"):
        assert all(each["is_same"])


def test_a_pipeline_that_looks_at_each_branch_is_told_and_computes_all(pair: Ranks) -> None:
    for each in compared(pair, "looked_at"):
        assert all(each["is_same"]) and each["calls"][1] == 2 * STEPS
        assert each["why"] == "the pipeline looks at each branch before it asks for the next"


def test_guidance_in_some_steps_only_is_exact(pair: Ranks) -> None:
    for each in compared(pair, "window"):
        assert all(each["is_same"]) and each["alone"] == STEPS + 2


def test_one_rank_may_print(pair: Ranks) -> None:
    first, second = compared(pair, "printed")
    assert all(first["is_same"]) and all(second["is_same"])
    assert any("another rank computes it" in each for each in second["shown"])
    assert all(each.startswith("tensor(") for each in first["shown"])


def test_a_call_that_fills_a_cache_is_never_skipped(pair: Ranks) -> None:
    for each in compared(pair, "with_cache"):
        assert each["calls"] == [2 * STEPS] * 2 and len(each["cache"]) == 4 * STEPS
        assert each["why"] == "a call takes Cache, which it may change"


@pytest.mark.parametrize("script", ["doubled", "listed"])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_a_doubled_batch_are_shared_out_once_that_is_proven(pair: Ranks, script: str, rows: int) -> None:
    for each in compared(pair, script, rows=rows):
        assert each["modes"][1] == {"rows": STEPS} and not each["why"]
        assert each["calls"] == [STEPS + 1, STEPS], "the first call is made whole as well"


@pytest.mark.parametrize(
    ("script", "num_tried"),
    [("emptied", 3), ("behind_layers", 4), ("table_as_long", 5)],  # lists that are no rows, other dims, one argument
)
def test_rows_are_shared_out_where_they_lie_otherwise(pair: Ranks, script: str, num_tried: int) -> None:
    for each in compared(pair, script):
        assert each["modes"][1] == {"rows": STEPS} and not each["why"]
        assert each["calls"] == [1 + num_tried + STEPS - 1, STEPS]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("mixed", "no way to share out the 2 rows of a call gave the result of the whole"),
        ("odd_rows", "a call has 3 rows, which do not go into 2 groups"),
        ("one_branch", "a step asks the transformer for one branch"),
    ],
)
def test_what_cannot_be_shared_out_is_computed_whole_and_told_after_the_first_step(
    pair: Ranks, script: str, why: str
) -> None:
    first, second = compared(pair, script)
    for each in (first, second):
        assert all(each["is_same"]) and each["modes"][1] == {"whole": STEPS} and each["why"] == why
    assert second["told"] == [] and first["told"] == [(0, f"{NO_USE.format(why)} branches")] * 2, "before it is over"


def test_another_size_is_learnt_anew(pair: Ranks) -> None:
    for each in compared(pair, "guided", rows=3, sizes=(0, 2, 0)):
        assert all(each["is_same"])
    for each in compared(pair, "last_chunk", rows=5):
        assert all(each["is_same"])


def test_it_is_what_it_was_afterwards(pair: Ranks) -> None:
    assert all(each["kind"].endswith("True") for each in compared(pair, "guided"))
