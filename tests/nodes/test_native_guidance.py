"""Conditionings that ComfyUI asks for at once, shared out over cfg, by stand-ins that follow its rules.

`tests/bench/comfyui_matrix.py` asks the classes themselves, and `comfyui_native.py` a server.
"""

from typing import Any

import pytest
import torch

from latentloom.nodes.hosts.native.rows import carrying, num_rows, unfit
from latentloom.parallel.plan import ParallelPlan

CHECKING = ["checking the plan against one device"]


@pytest.mark.parametrize(("plan", "count"), [("cfg=2", 2), ("cfg=2,ulysses=2", 2), ("cfg=2,ring=2", 4), ("cfg=4", 4)])
def test_each_group_computes_its_rows_and_all_get_all(ranks: Any, plan: str, count: int) -> None:
    found = [each for each in ranks.run("bodies.native_rows:answers", plan, count) if each is not None]
    for name in found[0]:
        assert all(each[name][0] <= 1e-5 and each[name][2] for each in found), name
        assert len({str(each[name][1]) for each in found}) == 1, name


def test_what_carries_rows_is_told_by_its_first_dim_and_never_a_list() -> None:
    given = {
        "x": [torch.ones(2, 4, 3), torch.ones(2, 5)],
        "timestep": torch.ones(2),
        "context": torch.ones(2, 7, 8),
        "y": torch.ones(1, 8),
        "ref_latents": [torch.ones(2, 4), torch.ones(1, 4)],
        "control": {"input": [torch.ones(2, 9, 8), None]},
        "scale": torch.tensor(2.0),
        "frame_rate": 25,
        "transformer_options": {},
    }
    assert num_rows(given) == 2
    assert carrying(given) == {
        *("['x'][0]", "['x'][1]", "['timestep']", "['context']"),
        *("['ref_latents'][0]", "['control']['input'][0]"),
    }


def test_rows_that_do_not_go_into_groups_are_refused_with_a_plan_that_does() -> None:
    plan = ParallelPlan(cfg=2, ulysses=2)
    assert unfit(plan, {"x": torch.ones(4, 1)}) == unfit(ParallelPlan(ulysses=2), {"x": torch.ones(1)}) == ""
    told = unfit(plan, {"x": torch.ones(1, 4)})
    assert told.startswith("plan cfg=2,ulysses=2: cfg has nothing to do here, because each forward is of one row")
    assert told.endswith("use plan ulysses=4, or set allow_whole")
    assert "asks for 3 rows at once, which do not go into 2 groups; use plan ulysses=4" in unfit(
        plan, {"x": [torch.ones(3, 4)]}
    )


@pytest.mark.parametrize("plan", ["cfg=4", "cfg=2,ulysses=2"])
def test_the_check_at_first_use_asks_whether_rows_stand_alone(ranks: Any, plan: str) -> None:
    count = ParallelPlan.parse(plan).cfg
    asked = [("plain", count), ("plain", 2 * count), ("mixing", count), ("table", 4), ("table", count)]
    for found in ranks.run("bodies.native_rows:first_uses", plan, asked):
        plain, twice, mixing, table, same = found
        assert plain[0].startswith("checked on this machine") and plain[1] == CHECKING
        assert twice == (plain[0], [])  # the same tensors carry them
        assert "of the largest value away from one device" in mixing[0] and mixing[1] == CHECKING
        assert table[0].startswith("checked on this machine") and table[1] == CHECKING
        # A table that is as long as the batch is cut, and so found out.
        assert same[0].startswith("checked") if count > 2 else "away from one device" in same[0]
