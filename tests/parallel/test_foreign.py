"""Classes of others: rows told by their numbers, a function that attends, what is said where a plan does not fit."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from latentloom.parallel.layout import Layout, Stream, shares_of
from latentloom.parallel.sharding.cutting import part_of
from latentloom.parallel.sharding.split_plan import Spans

RIGHT = ["two streams", "one text token", "no rows", "a count", "segments", "items in one dim"]


@pytest.mark.parametrize("plan", ["ulysses=2", "ulysses=3", "ring=2", "allgather=2", "ulysses=2,ring=2"])
def test_rows_told_by_numbers_give_what_one_process_gives(ranks: Any, plan: str) -> None:
    found = [each for each in ranks.run("bodies.foreign:answers", plan, RIGHT) if each is not None]
    for name in RIGHT:
        assert all(each[name][0] <= 1e-5 for each in found), name
        assert len({str(each[name][1]) for each in found}) == 1, name


def test_a_plan_that_counts_rows_from_a_part_of_the_text_is_far_off(ranks: Any) -> None:
    name = "not behind the text"
    found = [each for each in ranks.run("bodies.foreign:answers", "ulysses=2", [name]) if each is not None]
    assert all(each[name][0] > 1e-2 for each in found)


def test_every_row_of_every_span_is_on_the_rank_that_holds_it() -> None:
    """Of any lengths, ranks and spans; a span is cut where a stream ends, and a rank may have none of it."""
    draw = random.Random(0)
    for _ in range(300):
        count, lengths = draw.randint(2, 4), [draw.randint(4, 9), draw.randint(4, 12)]
        shares = [shares_of(lengths[0], count) if draw.random() < 0.7 else None, shares_of(lengths[1], count)]
        streams = tuple(map(Stream, ("text", "image"), lengths, shares))
        layout, num_rows = Layout(streams, count), sum(lengths)
        first, last = sorted(draw.sample(range(num_rows + 1), 2))
        spans = [(first, None if last == num_rows else last, torch.arange(first, last), "name")]
        for rank in range(count):
            session: Any = SimpleNamespace(layout=lambda _: layout, rank=rank, title="a class")  # noqa: B023
            mine = torch.cat([torch.arange(*each) for each in layout.positions(rank)])
            found = part_of(spans, Spans(("text", "image")), session, "its rows")
            wanted = mine[(mine >= first) & (mine < last)].tolist()
            assert [number for a, b, *_ in found for number in mine[a:b].tolist()] == wanted
            assert [number for *_, rows, _ in found for number in rows.tolist()] == wanted
            assert all(each[-1] == "name" for each in found)


@pytest.mark.parametrize("plan", ["ulysses=2", "allgather=2", "ulysses=2,allgather=2"])
def test_a_function_attends_in_place_of_a_kernel(ranks: Any, plan: str) -> None:
    for num_calls, apart in filter(None, ranks.run("bodies.foreign:with_function", plan)):
        assert num_calls == 4 and apart < 1e-5


@pytest.mark.parametrize("plan", ["ring=2", "ulysses=2,ring=2"])
def test_a_ring_refuses_a_function_by_its_name(ranks: Any, plan: str) -> None:
    for said in filter(None, ranks.run("bodies.foreign:with_function", plan)):
        assert said.startswith(f"plan {plan}: a ring merges answers by their log-sum-exp, which the function with_func")
        assert said.endswith("counted does not give; use ulysses or allgather, or a kernel by its name")


def test_what_does_not_fit_is_told_of_the_class_that_it_is(ranks: Any) -> None:
    remedy = (
        "this version of bodies.foreign builds it in another way; use one that the plan fits, or run it on one device"
    )
    for missing, unknown, silent, rows in filter(None, ranks.run("bodies.foreign:misfits", "ulysses=2")):
        assert missing == f"OneSequence has no module 'layers', which its split plan names: {remedy}"
        assert unknown == (
            "OneSequence: Counting takes no 'hidden_states', which its split plan names; it takes x, times, "
            f"zero_index, segments: {remedy}"
        )
        assert "no attention call of its blocks was seen" in silent and "set_attention_backend" not in silent
        assert "have it attend by torch's scaled_dot_product_attention" in silent
        assert rows == (
            "OneSequence: blocks.*'s segments has a tensor beside rows 0 to 11 that has not one for each; run it on "
            "one device"
        )
