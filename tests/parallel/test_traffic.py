"""Bytes and exchanges of each strategy: counted ones are the reckoned ones, and those that one reckons by hand."""

import itertools

import pytest

from bodies.operator_cases import PLANS
from support.ranks import Ranks

WIDTH, ITEM = 8, 4  # of rank_bodies._traffic: head width, bytes of an element


def test_counted_bytes_and_calls_are_the_reckoned_ones(ranks: Ranks) -> None:
    shapes = [(24, 12, 12, 12, 1), (25, 7, 5, 5, 2), (25, 7, 6, 2, 1), (2, 1, 3, 3, 1), (9, 0, 8, 1, 1)]
    calls = [
        {"plan": p, "image": i, "text": t, "shards_text": m, "heads": h, "kv_heads": kv, "batch": b, "packs": way}
        for p, m, way, (i, t, h, kv, b) in itertools.product(PLANS[1:], (True, False), (True, False), shapes)
    ]
    found = zip(calls, zip(*ranks.run("bodies.rank:traffic", calls), strict=True), strict=True)
    wrong = [
        (call, place, one)
        for call, each in found
        for place, one in enumerate(each)
        if one is not None and one[:2] != one[2:]
    ]
    assert not wrong


@pytest.mark.parametrize(("plan", "count"), [("ulysses=2", 2), ("ulysses=3", 3), ("ulysses=4", 4)])
@pytest.mark.parametrize("shards_text", [True, False])
def test_ulysses_sends_what_one_reckons_by_hand(ranks: Ranks, plan: str, count: int, shards_text: bool) -> None:
    call = {"plan": plan, "image": 24, "text": 12, "shards_text": shards_text, "heads": 24, "kv_heads": 12, "batch": 1}
    h, k, size = 24 * WIDTH, 12 * WIDTH, count
    tokens = 36 if shards_text else 24  # those that travel in
    both_ways = (size - 1) * tokens * ITEM * (2 * h + 2 * k) // size**2
    text_out = 0 if shards_text else (size - 1) * 12 * ITEM * h // size
    for found in ranks.run("bodies.rank:traffic", [call])[:count]:
        assert found[0][:2] == (both_ways + text_out, 2)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("name", ["ring", "allgather"])
@pytest.mark.parametrize("shards_text", [True, False])
def test_ring_and_allgather_send_what_one_reckons_by_hand(
    ranks: Ranks, name: str, count: int, shards_text: bool
) -> None:
    call = {"image": 24, "text": 12, "shards_text": shards_text, "heads": 6, "kv_heads": 3, "batch": 2}
    tokens = 36 if shards_text else 24
    keys = (count - 1) * 2 * (tokens // count) * 2 * 3 * WIDTH * ITEM
    answers = 0 if shards_text else (count - 1) * 2 * (12 // count) * 6 * WIDTH * ITEM
    num_calls = (count - 1 if name == "ring" else 1) + (not shards_text)
    for found in ranks.run("bodies.rank:traffic", [{"plan": f"{name}={count}", **call}])[:count]:
        assert found[0][:2] == (keys + answers, num_calls)


def test_a_gather_in_one_buffer_sends_as_much_as_the_rank_with_most(ranks: Ranks) -> None:
    call = {"plan": "allgather=4", "image": 25, "text": 0, "shards_text": True, "heads": 1, "kv_heads": 1, "batch": 1}
    found = [
        each[0][0] // (3 * 2 * WIDTH * ITEM) for each in ranks.run("bodies.rank:traffic", [{**call, "packs": True}])
    ]
    assert found == [7] * 4
    assert [each[0][0] // (3 * 2 * WIDTH * ITEM) for each in ranks.run("bodies.rank:traffic", [call])] == [7, 6, 6, 6]


@pytest.mark.parametrize(
    ("plan", "sharded", "replicated"),
    [
        ("ulysses=2", 2, 2),
        ("ulysses=4", 2, 2),
        ("ring=2", 1, 2),
        ("allgather=2", 1, 2),
        ("allgather=3", 1, 2),
        ("ulysses=2,ring=2", 3, 4),
        ("ulysses=2,allgather=2", 3, 4),
    ],
)
def test_a_forward_of_flux_makes_as_many_exchanges_as_promised(
    ranks: Ranks, plan: str, sharded: int, replicated: int
) -> None:
    num_attention = 4  # layers of the tiny Flux
    for text, each in (("sharded", sharded), ("replicated", replicated)):
        found = [calls for calls in ranks.run("bodies.rank:flux_calls", f"{plan},text={text}") if calls is not None]
        assert found == [num_attention * each + 1] * len(found)  # and one that puts the output together
