"""Modulation that ranks share out: the same bits, by half of the products, whatever hangs on the transformer."""

import pytest

from bodies.modulation import WAYS, built
from latentloom.pipelines.fusing.modulation import MODULATED, _owners
from support.ranks import Ranks

# By variant: how many layers modulate its blocks.
LAYERS = {
    "flux": 6,
    "ovis_image": 6,
    "longcat_image": 6,
    "bria": 6,
    "bria_fibo": 6,
    "qwen_image": 4,
    "sd35": 4,
    "hunyuan_video_15": 4,
}


@pytest.mark.parametrize("name", LAYERS)
def test_two_ranks_make_half_each_and_the_same_bits(pair: Ranks, name: str) -> None:
    found = pair.run("bodies.modulation:share_out", name)
    assert all(is_same for is_same, *_ in found)
    assert sum(num_alone - num_products for _, num_alone, num_products, _ in found) == LAYERS[name]
    assert all(num_products < num_alone for _, num_alone, num_products, _ in found)
    assert [left for *_, left in found] == [[], []]


def test_no_row_of_the_table_is_of_a_class_that_is_not_tried() -> None:
    assert set(MODULATED) <= {type(each).__name__ for name in LAYERS for each in built(name)[0].modules()}


BY_HAND = {"compiled": (pytest.mark.by_hand,)}


@pytest.mark.parametrize("how", [pytest.param(each, marks=BY_HAND.get(each, ())) for each in WAYS])
def test_it_changes_nothing_beside(pair: Ranks, how: str) -> None:
    for found in pair.run("bodies.modulation:beside", how):
        assert found and all(found)


@pytest.mark.parametrize("plan", ["ulysses=2", "allgather=2", "ring=2"])
def test_a_spread_transformer_has_every_form_and_as_it_was_afterwards(pair: Ranks, plan: str) -> None:
    found = pair.run("bodies.modulation:prepare", plan)
    for apart, _, processors in found:
        assert apart[0] == 0, "eager, to the bit"
        assert apart[1] <= 1e-6
        assert processors == [{"OneLaunch"}, *4 * ({"FluxAttnProcessor"},)], (
            "turned by one launch without an engine only"
        )
    assert sum(saved[0] for _, saved, _ in found) == LAYERS["flux"]
    assert sum(saved[1] - saved[0] for _, saved, _ in found) == 2 * 14


def test_the_busiest_rank_has_least_to_do() -> None:
    widths = [12] * 19 + [3] * 38  # FLUX, in numbers of its width
    for count in (1, 2, 3, 4, 8, 60):
        owners = _owners(widths, count)
        loads = [
            sum(width for width, owner in zip(widths, owners, strict=True) if owner == rank) for rank in range(count)
        ]
        assert sum(loads) == sum(widths) and max(loads) <= max(12, sum(widths) / count + 3)


def test_a_model_that_modulates_words_by_half_of_the_rows_makes_all_itself(pair: Ranks) -> None:
    for is_same, num_alone, num_products, _ in pair.run("bodies.modulation:share_out", "qwen_image_edit"):
        assert is_same and num_products == num_alone
