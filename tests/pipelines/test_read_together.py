"""Weights that ranks of a machine need alike are read once, if all of them lack them."""

from typing import Any

import pytest

from latentloom.parallel.mesh import planned_mesh
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.components.store import _gathers, _reads_together
from latentloom.pipelines.values import Model, from_plain


@pytest.mark.parametrize("family", ["flux", "wan22"])
def test_each_rank_reads_a_share_and_all_have_the_same(family: str, model: Any, pair: Any) -> None:
    one, two = pair.run("bodies.together:read_by_turns", model(family))
    for found in (one, two):
        assert found["same"] == [True, True, True]
        assert 0 < found["first"] <= 0.55 * found["bytes"], "but for small tensors, which each reads"
        assert found["kept"] == 0
        assert found["lost"] == 0, "who lost them reads alone, and who has them is not waited for"


@pytest.mark.parametrize(
    ("lacking", "is_together"),
    [([["a"], ["a"]], True), ([["a"], []], False), ([["a", "b"], ["b"]], False), ([[], []], False)],
)
def test_ranks_read_together_if_all_lack_the_same(lacking: list[list[str]], is_together: bool, pair: Any) -> None:
    assert pair.run("bodies.together:voted", lacking) == [is_together, is_together]


def test_ranks_agree_on_the_least_where_all_have_the_same(pair: Any) -> None:
    assert pair.run("bodies.together:agreed", [[3, 1, -1], [2, 7, 0]], ["a", "a"]) == [[2, 1, -1]] * 2
    assert pair.run("bodies.together:agreed", [[3], [3]], ["a", "b"]) == [None] * 2


def test_what_did_not_arrive_as_it_was_read_is_refused_by_the_rank_s_number(pair: Any) -> None:
    told, nothing = pair.run("bodies.together:spoilt")
    assert told.startswith("weights that rank 1 read did not arrive here as they are") and nothing == ""


@pytest.mark.parametrize(
    ("device", "plan", "is_asked"),
    [
        ("cuda:1", "ulysses=2", True),
        ("cpu", "ulysses=2", False),
        ("cuda:1", "ulysses=2,weights=2", False),
        ("cuda:1", "cfg=2", True),
    ],
)
def test_only_ranks_on_gpus_that_hold_all_weights_ask(device: str, plan: str, is_asked: bool, model: Any) -> None:
    described = from_plain(Model, {**model("flux"), "device": device})
    mesh = planned_mesh(ParallelPlan.parse(plan), 0)
    assert _reads_together(described, mesh) == is_asked
    assert _gathers(described, mesh) == (is_asked and mesh.plan.cfg == 1), "branches may skip different blocks"
