"""Who holds which tokens: shares, ranges and what merging ranks does to them; rows and how they are put in order."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from latentloom.parallel.attention import rows
from latentloom.parallel.attention.rows import cut_along
from latentloom.parallel.layout import Layout, Stream, shares_of


@given(units=st.integers(0, 40), count=st.integers(1, 9), unit=st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_shares_are_whole_units_as_even_as_can_be(units: int, count: int, unit: int) -> None:
    shares = shares_of(units * unit, count, unit)
    assert sum(shares) == units * unit and len(shares) == count
    assert max(shares) - min(shares) in (0, unit) and list(shares) == sorted(shares, reverse=True)


def test_tokens_that_are_no_whole_number_of_units_are_an_error() -> None:
    with pytest.raises(AssertionError, match="7 tokens are no whole number of units of 3"):
        shares_of(7, 2, 3)


def layout(num_ranks: int) -> Layout:
    text, image = Stream("text", 3, None), Stream("image", 7, shares_of(7, num_ranks))
    return Layout((text, image, Stream("past", 2, shares_of(2, num_ranks))), num_ranks)


def test_positions_and_ranges_of_a_rank() -> None:
    made = layout(4)
    assert made.length == 12 and made.starts() == (0, 3, 10)
    assert made.positions(1) == [(0, 3), (5, 7), (11, 12)]
    assert made.local_ranges(3) == [(0, 3), (3, 4), (4, 4)]
    assert [made.num_held(rank) for rank in range(4)] == [6, 6, 5, 4]
    assert [made.num_sharded(rank) for rank in range(4)] == [3, 3, 2, 1]


def test_every_sharded_token_has_one_rank_and_every_replicated_one_all() -> None:
    made = layout(4)
    held = [token for rank in range(4) for start, end in made.positions(rank) for token in range(start, end)]
    assert [held.count(token) for token in range(12)] == [4] * 3 + [1] * 9


def test_merged_ranks_hold_what_they_held_together() -> None:
    made = layout(4).merged(2)
    assert made.num_ranks == 2 and made.streams[0].shares is None
    assert made.streams[1].shares == (4, 3) and made.streams[2].shares == (2, 0)


def test_packed_rows_that_arrive_rank_by_rank_are_the_joint_sequence() -> None:
    made, whole = layout(3), torch.randn(2, 4, 12, 5)
    parts = [cut_along(whole, 2, layout=made, rank=rank) for rank in range(3)]
    sharded = [made.local_ranges(rank)[1:] for rank in range(3)]
    arrived = torch.cat([rows.pack([part], ranges) for part, ranges in zip(parts, sharded, strict=True)])
    text = rows.pack([parts[0]], made.local_ranges(0)[:1])
    joint = rows.in_order(arrived, layout=made, ranks=range(3), replicated=[text])
    assert torch.equal(rows.unpack(joint, (4,))[0], whole)


def test_tensors_are_packed_side_by_side_and_nothing_packs_to_nothing() -> None:
    q, k = torch.randn(2, 3, 6, 4), torch.randn(2, 1, 6, 4)
    packed = rows.pack((q, k), [(1, 3), (5, 6)])
    again = rows.unpack(packed, (3, 1))
    assert torch.equal(again[0], q[:, :, [1, 2, 5]]) and torch.equal(again[1], k[:, :, [1, 2, 5]])
    assert rows.pack((q, k), [(2, 2)]).shape == (0, 2, 4, 4)
    assert rows.take(q, 2, []).shape == (2, 3, 0, 4)
