"""What may be written as a parallel plan, and what is said to what may not."""

import pytest

from latentloom.parallel.plan import ParallelPlan


def test_a_plan_is_read_as_it_is_written() -> None:
    plan = ParallelPlan.parse(" cfg=2, ulysses=3,ring=2,weights=6,text=replicated ")
    assert plan == ParallelPlan(cfg=2, ulysses=3, ring=2, weights=6, text="replicated")
    assert (plan.num_ranks, plan.sequence, plan.exchange, plan.strategies) == (12, 6, 2, ("ulysses", "ring"))


def test_layers_multiply_the_ranks_of_a_branch() -> None:
    plan = ParallelPlan.parse("cfg=2,layers=3,ulysses=2")
    assert (plan.num_ranks, plan.branch, plan.sequence, plan.splits_forward) == (12, 6, 2, True)


@pytest.mark.parametrize(
    "plan",
    [
        "ulysses=1",
        "allgather=3",
        "layers=2",
        "cfg=2,layers=2,ulysses=2",
        "cfg=2,ulysses=2",
        "ulysses=2,ring=2,text=sharded",
    ],
)
def test_a_plan_prints_as_it_is_read(plan: str) -> None:
    assert str(ParallelPlan.parse(plan)) == plan


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("usp=2", "'usp=2' is no axis.*cfg=2,ulysses=2,ring=2"),
        ("auto", "auto is a word of --plan and of the node Parallel Plan.*name the axes here, like cfg=2,ulysses=2"),
        ("ulyses=2", "did you mean ulysses"),
        ("ulysses", "'ulysses' is no axis"),
        ("ring=2,ring=2", "ring is given twice"),
        ("ring=0", "ring is 0; give a whole number from 1"),
        ("ring=-1", "ring is '-1'; give a whole number"),
        ("ring=two", "ring is 'two'; give a whole number"),
        ("ring=2,allgather=2", "two ways to exchange.*set one of them to 1"),
        ("ulysses=4,weights=3", "4 ranks cannot be put into groups of 3.*divides 4"),
        ("layers=2,weights=2", "layers puts each block's weights on the ranks of one section.*set one of them to 1"),
        ("cfg=3,ulysses=2,weights=3", "parts of several sequences.*divides 2, or a multiple"),
        ("ulysses=2,text=whole", "text is 'whole'; give one of auto, sharded, replicated"),
    ],
)
def test_a_wrong_plan_is_refused_with_a_remedy(plan: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ParallelPlan.parse(plan)


def test_degrees_given_in_code_are_checked_too() -> None:
    with pytest.raises(ValueError, match="ulysses is True; give a whole number"):
        ParallelPlan(ulysses=True)
