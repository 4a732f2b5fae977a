"""Guidance in parallel: every family that runs two branches, and guiders with more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import planned_mesh
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.spreading.guidance import Branches, split_guider

FAMILIES = ["flux", "qwen_image", "sd3", "wan", "wan22"]
TOLERANCE = 1e-5  # of the largest latent, fp32


@pytest.mark.parametrize(
    ("plan", "family", "guidance"),
    [
        *(("cfg=2,ulysses=2", family, 3.0) for family in FAMILIES),
        ("cfg=2,allgather=2", FAMILIES[0], 3.0),
        *(pytest.param("cfg=2,allgather=2", family, 3.0, marks=pytest.mark.by_hand) for family in FAMILIES[1:]),
        ("cfg=2,ulysses=2", FAMILIES[0], 1.0),  # one branch alone, which every group runs
    ],
)
def test_split_branches_give_what_sequential_branches_give(
    ranks: Any, tiny: Callable[[str], Path], family: str, plan: str, guidance: float
) -> None:
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import to_plain

    model = to_plain(describe_model(str(tiny(family)), device="cpu"))
    found = ranks.run("bodies.guided:denoise_both_ways", model, plan, guidance)
    assert max(each["difference"] for each in found) <= TOLERANCE * max(1.0, found[0]["largest"])
    assert len({each["bits"] for each in found}) == 1
    assert {each["forwards"] for each in found} == {2}, "two steps, one branch for each group"


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("groups", [2, 3, 4])
def test_every_group_asks_equally_often_and_every_branch_is_asked(count: int, groups: int) -> None:
    plan = ParallelPlan(cfg=groups)
    shares = []
    for rank in range(groups):
        branches = Branches(planned_mesh(plan, rank)[Axis.CFG])
        shares.append(branches.take(list(range(count))))
    assert {number for share in shares for number in share} == set(range(count))
    assert len({len(share) for share in shares}) == 1


def test_three_branches_on_two_groups_are_exchanged_in_order(ranks: Any) -> None:
    found = ranks.run("bodies.guided:exchange_branches", 3, "cfg=2,ulysses=2")
    assert found == [[0.0, 1.0, 2.0]] * 4


def test_a_guider_knows_which_branch_it_asks(ranks: Any) -> None:
    assert ranks.run("bodies.guided:conditional_branches", "cfg=2") == [[True], [False], None, None]


def test_guidance_on_one_group_leaves_the_guider_as_it_is() -> None:
    guider = object()
    assert split_guider(guider, planned_mesh(ParallelPlan(ulysses=2), 0)) is guider
