"""The warm ranks of the tests: whatever a rank does, `run` comes back, tells, and leaves no process."""

import os
import time

import pytest

from support.ranks import RankError, Ranks


def test_a_rank_that_misbehaves_is_told_of_and_all_are_replaced_and_none_is_left_behind() -> None:
    with Ranks(2) as ranks:
        pids = set(ranks.run("bodies.rank:process"))
        for how, said in (("raise", "rank 1: ValueError: no good"), ("die", "rank 1: died")):
            with pytest.raises(RankError, match=said):
                ranks.run("bodies.rank:misbehave", how)
            assert ranks.run("bodies.rank:misbehave", "nothing") == ["fine", "fine"]
            pids |= set(ranks.run("bodies.rank:process"))
        with pytest.raises(RankError, match="rank 1: no answer in 1 s"):
            ranks.run("bodies.rank:misbehave", "hang", deadline_s=1)
        pids |= set(ranks.run("bodies.rank:process"))
    assert len(pids) == 8
    assert not any(_is_alive(pid) for pid in pids)


def _is_alive(pid: int) -> bool:
    """Still there after two seconds, in which the server that forked it collects it."""
    for _ in range(20):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True
