"""A spare rank for each device: it takes the place of one that dies, and is the first to go for its memory."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom.parallel.pool import spare as spares
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.pool.rank_process import RankProcess
from latentloom.parallel.pool.spare import MOST_LOSSES, SpareRanks
from latentloom.parallel.progress import Progress
from latentloom.parallel.ranks.messages import FROM_RANK, TO_RANK, Fork
from latentloom.parallel.ranks.rank import Rank
from support.pool_processes import children_of, is_gone, server_of, spare_of, wait_until
from support.told import Told

TENSOR = torch.linspace(-1, 1, 7)


@pytest.fixture(scope="module")
def pool(start_warm_pool: Callable[..., Pool]) -> Iterator[Pool]:
    with start_warm_pool(["cpu"] * 2, limits=Limits(silence_s=3, work_s=30), spare_ranks=True) as pool:
        yield pool


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "AFTER_S", 0.0)


def spare_rank(pool: Pool) -> RankProcess:
    return pool._supervisor._crew.spares.ranks[0]


def pid_of_spare(pool: Pool) -> int:
    wait_until(lambda: spare_rank(pool).is_ready)
    return spare_rank(pool).pid


def pids(pool: Pool) -> list[int]:
    wait_until(lambda: all(state.is_ready for state in pool.states()))
    return [state.pid for state in pool.states()]


def die_once(pool: Pool, flag: Path, rank: int, progress: Progress) -> torch.Tensor:
    request = {"flag": str(flag), "rank": rank, "signal": signal.SIGKILL, "tensor": TENSOR}
    return pool.call("bodies.pool:die_once", request, progress, num_ranks=2)["tensor"]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_spare_takes_the_place_of_a_rank_that_dies_and_another_is_made(
    pool: Pool, tmp_path: Path, rank: int
) -> None:
    (tmp_path / "done").touch()
    undisturbed = die_once(pool, tmp_path / "done", rank, Progress())
    before, waiting, progress = pids(pool), pid_of_spare(pool), Told()
    assert torch.equal(die_once(pool, tmp_path / "flag", rank, progress), undisturbed)
    assert any(f"starting again: rank {rank} (cpu) was killed (SIGKILL)" in text for text in progress.phases)
    after = pids(pool)
    assert after[rank] == waiting and after[1 - rank] == before[1 - rank]
    assert pid_of_spare(pool) not in (waiting, *before)
    assert pool.call_every("bodies.pool:echo", {}, num_ranks=2)[rank]["pid"] == waiting


def test_what_a_spare_says_as_a_rank_is_in_the_log_that_is_named(pool: Pool) -> None:
    waiting = pid_of_spare(pool)
    os.kill(pids(pool)[0], signal.SIGKILL)
    wait_until(lambda: pool.states()[0].pid == waiting)
    with pytest.raises(ValueError, match="it is wrong"):
        pool.call("bodies.pool:fail", {"rank": 0, "kind": "value", "text": "it is wrong"})
    assert "it is wrong" in pool.states()[0].log.read_text()


def test_a_spare_that_dies_disturbs_nobody_and_another_is_made(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    before, waiting = pids(pool), pid_of_spare(pool)
    os.kill(waiting, signal.SIGKILL)
    wait_until(lambda: spare_rank(pool).pid != waiting and spare_rank(pool).is_ready)
    assert pids(pool) == before
    assert "the spare rank of cpu was killed (SIGKILL)" in caplog.text and "another is started" in caplog.text


def test_a_spare_that_is_stopped_is_replaced(pool: Pool) -> None:
    waiting = pid_of_spare(pool)
    os.kill(waiting, signal.SIGSTOP)
    wait_until(lambda: spare_rank(pool).pid != waiting and spare_rank(pool).is_ready)
    assert is_gone(waiting)


def test_a_spare_that_dies_as_its_rank_does_costs_a_fork(pool: Pool) -> None:
    before, waiting = pids(pool), pid_of_spare(pool)
    os.kill(waiting, signal.SIGKILL)
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: pool.states()[0].pid not in (0, before[0], waiting) and pool.states()[0].is_ready)
    assert len(pool.call_every("bodies.pool:echo", {}, num_ranks=2)) == 2


def test_spares_die_with_the_server_and_with_the_pool(start_warm_pool: Callable[..., Pool]) -> None:
    with start_warm_pool(["cpu"], spare_ranks=True) as pool:
        waiting, server = pid_of_spare(pool), server_of(pool)
        spare_of(pool)
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: is_gone(waiting))
        wait_until(lambda: spare_rank(pool).is_ready and spare_rank(pool).pid != waiting)
        assert pool.call("bodies.pool:echo", {})["pid"] == pids(pool)[0]
        waiting, others = spare_rank(pool).pid, children_of(server_of(pool))
        assert waiting in others
    assert all(map(is_gone, others))


def test_a_rank_that_runs_out_of_memory_is_given_that_of_the_spare_first(
    start_warm_pool: Callable[..., Pool], tmp_path: Path
) -> None:
    with start_warm_pool(["cpu"], spare_ranks=True) as pool:
        waiting, progress = pid_of_spare(pool), Told()
        request = {"flag": str(tmp_path / "flag"), "spare": waiting}
        assert pool.call("bodies.pool:fits_without", request, progress) == "it fits"
        assert any("starting again without a spare rank: rank 0 (cpu): " in text for text in progress.phases)
        assert is_gone(waiting)
        pool.call("bodies.pool:echo", {})
        assert spare_rank(pool).channel is None and not pool._supervisor._crew.spares.due()


def test_a_spare_rests_until_the_next_job(start_warm_pool: Callable[..., Pool]) -> None:
    with start_warm_pool(["cpu"], spare_ranks=True) as pool:
        waiting = pid_of_spare(pool)
        pool.rest_spares()
        wait_until(lambda: is_gone(waiting) and spare_rank(pool).channel is None)
        assert not pool._supervisor._crew.spares.due()
        pool.call("bodies.pool:echo", {})
        assert pid_of_spare(pool) != waiting


# ---- when there is one


def seats(tmp_path: Path, *memories: int) -> list[RankProcess]:
    found = [RankProcess(n, f"cuda:{n}", num_threads=1, folder=tmp_path) for n in range(len(memories))]
    for seat, memory in zip(found, memories, strict=True):
        seat.has_begun, seat.memory_bytes = True, memory
    return found


@pytest.mark.parametrize(
    ("wanted", "memories", "devices"),
    [(None, (80, 24), ["cuda:0"]), (None, (0, 0), []), (True, (24, 24), ["cuda:0", "cuda:1"]), (False, (80, 80), [])],
)
def test_a_card_of_40_gb_has_a_spare_and_others_where_it_is_asked_for(
    wanted: bool | None, memories: tuple[int, ...], devices: list[str], tmp_path: Path
) -> None:
    ranks = seats(tmp_path, *(memory * 10**9 for memory in memories))
    found = SpareRanks(ranks, wanted=wanted, folder=tmp_path)
    assert [rank.device for rank in found.due()] == devices
    ranks[1].has_begun = False
    assert not found.due()  # ranks come first


def test_a_device_whose_spares_are_lost_again_and_again_gets_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(spares.time, "monotonic", lambda: now[0])
    found = SpareRanks(seats(tmp_path, 80 * 10**9), wanted=None, folder=tmp_path)
    for _ in range(MOST_LOSSES):
        (rank,) = found.due()
        found.lose(rank, "was killed")
        assert not found.due()
        now[0] += 60
    assert not found.due() and "was killed; it gets no other" in caplog.text
    found.forgive()
    assert found.due()


def test_a_spare_that_was_started_with_peer_to_peer_takes_no_place_of_ranks_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    (seat,) = seats(tmp_path, 80 * 10**9)
    found = SpareRanks([seat], wanted=True, folder=tmp_path)
    (waiting,) = found.due()
    waiting.has_begun, waiting.kill = True, ended.append  # type: ignore[method-assign]
    monkeypatch.setattr(spares, "has_ended", lambda pidfd, wait_s: ended == ["dies"])
    assert found.take(seat) is waiting
    ended.append("dies")
    assert found.take(seat) is None
    ended.clear()
    seat.has_p2p = False
    assert found.take(seat) is None and ended == ["had been started with peer-to-peer"]


def test_a_spare_has_met_what_a_rank_meets_first(start_pool: Callable[..., Pool]) -> None:
    """It has joined a group of its own, and left it."""
    found: dict[str, Any]
    with start_pool(["cpu"], preload=["bodies.pool", "bodies.joins"], spare_ranks=True) as pool:
        waiting, first = pid_of_spare(pool), pids(pool)[0]
        assert pool.call("bodies.joins:joined", {}) == []
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: pool.states()[0].pid == waiting)
        found = pool.call("bodies.joins:joined", {})
    assert found == ["alone", "left"]


def test_a_spare_that_cannot_join_a_group_of_its_own_is_one_all_the_same(
    ends: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mine, _ = ends(TO_RANK)
    order = Fork(rank=2, birth=1, device="cpu", num_threads=1, ping_s=1.0, is_spare=True)
    waiting = Rank(mine, order)

    def join(*_: Any, **__: Any) -> None:
        raise RuntimeError("NCCL is not well")

    monkeypatch.setattr(waiting.membership, "join", join)
    waiting._warm_up()
    assert "a spare rank could not join a group of its own: NCCL is not well" in caplog.text


def test_memory_is_given_back_once(ends: Any, tmp_path: Path) -> None:
    found = SpareRanks(seats(tmp_path, 80 * 10**9), wanted=True, folder=tmp_path)
    mine, _ = ends(FROM_RANK)
    found.ranks[0].channel = mine
    assert [found.rest(for_good=True), found.rest(for_good=True)] == [True, False]  # a driver may not let go of it
