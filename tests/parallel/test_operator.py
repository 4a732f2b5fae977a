"""Sharded attention equals one fp64 attention, whatever the shapes, heads, masks, streams and plan."""

from typing import Any

import pytest

from bodies import operator_cases
from bodies.operator_cases import Call, call, verdict
from support.ranks import Ranks

SEEDS = list(range(180))
MORE = list(range(180, 500))
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def plain(ranks: Ranks) -> list[list[Any]]:
    """What each rank answers to all seeds."""
    return ranks.run("bodies.operator_cases:answers", SEEDS, "")


def verdicts(answers: list[list[Any]], seeds: list[int]) -> dict[int, str]:
    """What is found of each call, from what each rank answered."""
    return {seed: verdict(list(each), TOLERANCE) for seed, each in zip(seeds, zip(*answers, strict=True), strict=True)}


def wrong(answers: list[list[Any]], seeds: list[int]) -> dict[Call, str]:
    return {call(seed): found for seed, found in verdicts(answers, seeds).items() if found != "ok"}


def test_sharded_attention_equals_one_attention_in_fp64(plain: list[list[Any]]) -> None:
    assert not wrong(plain, SEEDS)


@pytest.mark.by_hand
def test_more_sharded_attention_equals_one_attention_in_fp64(ranks: Ranks) -> None:
    assert not wrong(ranks.run("bodies.operator_cases:answers", MORE, ""), MORE)


def test_one_buffer_each_way_gives_the_bits_of_many_pieces(plain: list[list[Any]], ranks: Ranks) -> None:
    packed = ranks.run("bodies.operator_cases:answers", SEEDS[:72], "packed")
    assert packed == [each[:72] for each in plain]


def test_buffers_that_stand_give_the_bits_of_new_ones(ranks: Ranks) -> None:
    seeds = [seed for seed in SEEDS if call(seed).form == "none" and "ulysses" in call(seed).plan]
    new, standing = (ranks.run("bodies.operator_cases:answers", seeds, way) for way in ("", "standing"))
    stand = [each.pop("stands") for answers in (*new, *standing) for each in answers if each]
    assert standing == new and sum(stand) > len(stand) / 4


def test_the_cases_meet_every_plan_with_every_kind_of_mask() -> None:
    met = {(call(seed).plan, call(seed).form) for seed in SEEDS}
    assert met == {(plan, form) for plan in operator_cases.PLANS for form in operator_cases.FORMS}


def test_the_cases_meet_the_shapes_that_break_kernels() -> None:
    cases = [call(seed) for seed in SEEDS]
    sharded = [[length for _, length, is_sharded in case.streams if is_sharded] for case in cases]
    assert any(case.plan.endswith("4") and 0 < sum(lengths) < 4 for case, lengths in zip(cases, sharded, strict=True))
    assert any(length == 0 for case in cases for _, length, _ in case.streams)
    assert any(case.plan == "ulysses=4" and case.heads == 3 for case in cases)
    assert any(case.heads == 3 * case.kv_heads for case in cases)


@pytest.mark.parametrize("mutation", ["local", "layout"])
def test_attention_that_stays_local_or_mixes_up_streams_is_found_wrong(ranks: Ranks, mutation: str) -> None:
    seeds = [seed for seed in SEEDS[:60] if call(seed).plan != "ulysses=1" and len(call(seed).streams) > 1]
    found = list(verdicts(ranks.run("bodies.operator_cases:answers", seeds, mutation), seeds).values())
    assert sum(each != "ok" for each in found) > len(found) * 0.6  # a few calls have one token, or streams of one size
