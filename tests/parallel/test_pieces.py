"""Collectives with nothing to send, halo exchange, and the question whether all ranks are given the same."""

import pytest
import torch

from support.ranks import Ranks


@pytest.mark.parametrize("packs", [False, True])
def test_collectives_take_what_is_empty_on_some_ranks(ranks: Ranks, packs: bool) -> None:
    for rank, found in enumerate(ranks.run("bodies.rank:exchanged", packs)):
        gathered, hopped, traded, nothing, total = found
        assert gathered == [1, 2, 2, 3, 3, 3]
        assert hopped == [(rank - 1) % 4] * ((rank - 1) % 4)
        assert traded == [x for other in range(4) if other != rank for x in [other] * other + [9 + other]]
        assert (nothing, total) == ([], [6])


@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize("rows", [12, 9, 5, 3, 1])
def test_a_convolution_over_shared_rows_is_that_over_all(ranks: Ranks, rows: int, reach: int) -> None:
    assert max(ranks.run("bodies.rank:convolved", rows, reach)) <= 1e-5


def test_the_same_on_all_ranks_is_fine_and_a_difference_is_named_on_all(ranks: Ranks) -> None:
    x, y = torch.zeros(2, 3), torch.zeros(2, 3)
    y[1, 2] = 1e-6
    same = {"a": x, "b": [x, {"c": 1}], "d": None, "e": 0.5, "f": torch.zeros(0), "g": torch.ones((), dtype=torch.bool)}
    given = [
        [dict(same) for _ in range(4)],
        [same, same, {**same, "a": y}, same],
        [same, {**same, "b": [x, {"c": 2}]}, same, {**same, "e": 0.25}],
        [{**same, "a": x.T.contiguous()}, same, same, same],
        [same, same, same, {**same, "more": 1}],
    ]
    for found in ranks.run("bodies.rank:fingerprints", given):
        assert found[0] == "nothing was raised"
        assert found[1].startswith("Toy: a differs between the ranks; give every rank the same tensors")
        assert found[2].startswith("Toy: b, e differ between the ranks")
        assert found[3].startswith("Toy: a differs")
        assert "different arguments; call it in the same way on every rank" in found[4]
