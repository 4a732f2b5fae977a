"""A transformer spread and compiled for a denoise stays so for the next one, until one wants it otherwise."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.ranks import Ranks

TOLERANCE = 1e-5  # of the largest latent, fp32
PLANS = ("ulysses=2", "ring=2")


@pytest.mark.by_hand
def test_compiled_holds_with_plans_and_graphs_are_shared(
    pair: Ranks, model: Callable[..., Any], tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    other = str(shutil.copytree(tiny("flux"), tmp_path / "other"))
    one = {**model("flux"), "engine": "inductor"}
    for found in pair.run(
        "bodies.prepared:denoise_compiled", [one, {**one, "source": other, "folder": other}], PLANS, deadline_s=280
    ):
        assert max(found["differences"]) <= TOLERANCE
        graphs = [(plan, count) for plan, count in found["graphs"]]
        whole, split = 4, 8  # a graph and its twin of two kinds of block; then those of sharded blocks
        assert graphs[:3] == [("ulysses=1", 2), ("ulysses=1", whole), ("ulysses=1", whole)]
        assert graphs[3:6] == [("ulysses=2", 6), ("ulysses=2", split), ("ulysses=2", split)]
        assert {count for _, count in graphs[5:]} == {split}, "no plan, size, transformer or run makes another"


PRODUCTS = {"flux": 2 * 2 + 2, "wan": 2}
FUSED = ("ulysses=1", "ulysses=2", "allgather=2", "ring=2", "cfg=2")


def test_layers_that_share_an_input_are_fused_with_an_engine_and_any_plan(
    pair: Ranks, model: Callable[..., Any]
) -> None:
    for found, are_gone in pair.run("bodies.prepared:denoise_fused", model("flux"), FUSED, False):
        assert max(apart for _, apart, _ in found) <= TOLERANCE
        assert [(plan, num_products) for plan, _, num_products in found] == [(plan, PRODUCTS["flux"]) for plan in FUSED]
        assert are_gone


@pytest.mark.by_hand
@pytest.mark.parametrize("family", PRODUCTS)
def test_compiled_blocks_take_them_with_any_plan(pair: Ranks, model: Callable[..., Any], family: str) -> None:
    for found, _ in pair.run("bodies.prepared:denoise_fused", model(family), FUSED, True, deadline_s=280):
        assert max(apart for _, apart, _ in found) <= TOLERANCE
        assert {num_products for *_, num_products in found} == {PRODUCTS[family]}


@pytest.mark.by_hand
def test_of_two_ranks_one_compiles_and_the_other_finds_it_on_the_disk(
    pair: Ranks, model: Callable[..., Any], tmp_path: Path
) -> None:
    compiled = {**model("wan"), "engine": "inductor"}
    found = pair.run("bodies.prepared:denoise_by_inductor", compiled, "ulysses=2", str(tmp_path), deadline_s=280)
    assert max(difference for difference, *_ in found) <= TOLERANCE
    assert sum(missing for _, missing, _ in found) == 1, "it has one kind of block"
    assert all(len(folders) == 1 for *_, folders in found)


def test_a_transformer_is_sharded_once_for_all_denoises_of_a_plan(pair: Ranks, model: Callable[..., Any]) -> None:
    for found in pair.run("bodies.prepared:denoise_again", model("flux"), "ulysses=2", "ring=2"):
        assert [row[:3] for row in found] == [  # sharded, and angles made: else by each of two branches in two steps
            ("first", 1, 1),
            ("again", 0, 0),
            ("another size", 0, 1),
            ("another plan", 1, 1),
            ("back", 1, 1),
            ("with a cache", 1, 1),
            ("without", 1, 1),
            ("alone", 0, 4),
            ("once more", 1, 1),
        ]
        assert max(difference for *_, difference in found) <= TOLERANCE


def test_steps_replayed_as_graphs_hold_with_a_plan_and_without(pair: Ranks, model: Callable[..., Any]) -> None:
    for found in pair.run("bodies.prepared:denoise_captured", model("flux"), ("ulysses=1", "ulysses=2")):
        for apart, replays in found:
            assert max(apart) <= TOLERANCE
            assert replays == [3 + 4, 3], "of four steps the last three, and all of the second denoise"


@pytest.mark.parametrize("plan", [pytest.param("ulysses=1", marks=pytest.mark.by_hand), "ulysses=2"])
def test_compiled_steps_are_replayed_from_the_second_on_and_compile_nothing_more(
    pair: Ranks, model: Callable[..., Any], plan: str
) -> None:
    for is_equal, replays, graphs in pair.run("bodies.prepared:denoise_compiled_and_captured", model("wan"), plan):
        assert is_equal and replays == [3] and graphs[0] == graphs[1] > 0


@pytest.mark.parametrize("plan", [pytest.param("ulysses=1", marks=pytest.mark.by_hand), "ulysses=2"])
def test_unasked_steps_are_replayed_where_that_pays_and_all_ranks_have_room(
    pair: Ranks, model: Callable[..., Any], plan: str
) -> None:
    """Four steps of a kind that is met for the first time, again, six; and what is met where one rank has no room."""
    for rank, found in enumerate(pair.run("bodies.prepared:denoise_captured_unasked", model("flux"), plan)):
        equal, replays, is_dropped = found
        lacks = rank == 1 or plan == "ulysses=2"
        assert equal == [True] * 4 and is_dropped
        assert replays == [[], [3], [3 + 6], [3 + 6] if lacks else [3 + 6, 3]]


def test_a_cancel_leaves_nothing_behind_in_a_kept_transformer(pair: Ranks, model: Callable[..., Any]) -> None:
    assert pair.run("bodies.prepared:denoise_after_a_cancel", model("flux"), "cfg=2") == [True, True]


@pytest.mark.parametrize("plan", ["ulysses=2", "cfg=2"])
def test_one_rank_may_drop_its_transformer_for_something_else(
    pair: Ranks, model: Callable[..., Any], plan: str
) -> None:
    assert pair.run("bodies.prepared:denoise_after_one_was_dropped", model("flux"), plan) == [True, True]


@pytest.mark.parametrize("plan", ["ulysses=2", "cfg=2"])
def test_every_denoise_compares_what_the_ranks_were_asked_for(
    pair: Ranks, model: Callable[..., Any], plan: str
) -> None:
    for told in pair.run("bodies.prepared:denoise_for_different_seeds", model("flux"), plan):
        assert told == ["", "the ranks were asked for different seed; give every rank the same request", ""]
