"""New ranks for one function: their answers, every way of not answering, and no process left behind."""

import psutil
import pytest

from latentloom.parallel.launch import RankFailed, run_on_ranks

FUNCTION = "pipelines.verify:on_rank"


def our_ranks() -> list[int]:
    return [p.pid for p in psutil.Process().children() if any("parallel.rank" in part for part in p.cmdline())]


def test_what_a_rank_raises_is_told_with_its_number() -> None:
    with pytest.raises(RankFailed, match=r"^rank [01]: 'model'$"):
        run_on_ranks(FUNCTION, {}, num_ranks=2, backend="gloo", timeout_s=60)
    assert our_ranks() == []


def test_a_rank_that_dies_is_told_with_its_last_words() -> None:
    with pytest.raises(RankFailed, match=r"rank 0 died with exit code 1: .*no_such_thing"):
        run_on_ranks("pipelines.verify:no_such_thing", {}, num_ranks=1, backend="gloo", timeout_s=60)
    assert our_ranks() == []


def test_silent_ranks_are_named_and_ended_at_the_deadline() -> None:
    with pytest.raises(RankFailed, match=r"rank 0, 1 did not answer in 0.2 s; give it longer"):
        run_on_ranks(FUNCTION, {}, num_ranks=2, backend="gloo", timeout_s=0.2)
    assert our_ranks() == []
