import itertools
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom.parallel.errors import RankFailed
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.pool.server_process import is_stopped
from latentloom.parallel.ranks import shortage
from support.pool_processes import children_of, field, is_gone, server_of, spare_of, wait_until
from support.told import Told
from support.warm_server import pools_from

TESTS = str(Path(__file__).resolve().parent.parent)
LIMITS = Limits(silence_s=5, work_s=5, step_s=5, leave_s=2, die_s=4)
TENSOR = torch.linspace(-1, 1, 7)


@pytest.fixture(scope="module")
def pool(start_pool: Callable[..., Pool]) -> Iterator[Pool]:
    with start_pool(["cpu"] * 3, limits=LIMITS) as pool:
        yield pool


def memories(pool: Pool) -> list[dict[str, int]]:
    return pool.call_every("bodies.pool:remember", {}, num_ranks=3)


def once(path: Path, rank: int = 1, number: int = signal.SIGKILL) -> dict[str, Any]:
    return {"flag": str(path), "rank": rank, "signal": number, "tensor": TENSOR}


def survivors_are_warm(before: list[dict[str, int]], after: list[dict[str, int]], lost: int) -> bool:
    kept = all(
        now["pid"] == then["pid"] and now["calls"] == then["calls"] + 1
        for rank, (then, now) in enumerate(zip(before, after, strict=True))
        if rank != lost
    )
    return kept and after[lost]["pid"] != before[lost]["pid"] and after[lost]["calls"] == 1


def wait_for_another(pool: Pool, rank: int, pid: int) -> None:
    """Until another process than `pid` is ready."""
    end = time.monotonic() + 30
    while not (pool.states()[rank].is_ready and pool.states()[rank].pid != pid) and time.monotonic() < end:
        time.sleep(0.01)


def test_work_that_goes_on_without_a_word_is_waited_for_and_what_hangs_in_a_module_is_not(pool: Pool) -> None:
    before = memories(pool)[0]["pid"]
    assert pool.call("bodies.pool:slow_model", {"modules": 9, "seconds": LIMITS.work_s / 6}) == 9
    assert memories(pool)[0]["pid"] == before
    with pytest.raises(RankFailed, match=r"^rank \d \(cpu\) was silent about its work for 5 s \(at the start\)"):
        pool.call("bodies.pool:slow_model", {"modules": 1, "seconds": 60})


@pytest.mark.parametrize(
    ("rank", "number", "words"),
    [
        (0, signal.SIGKILL, "was killed (SIGKILL)"),
        (2, signal.SIGKILL, "was killed (SIGKILL)"),
        (1, signal.SIGABRT, f"was ended by signal {int(signal.SIGABRT)}"),
        (1, signal.SIGSTOP, "was silent for 5 s: its process is stopped"),
    ],
)
def test_a_death_is_mended_and_the_job_tried_again_with_the_same_result(
    pool: Pool, tmp_path: Path, rank: int, number: int, words: str
) -> None:
    (tmp_path / "done").touch()
    undisturbed = pool.call("bodies.pool:die_once", once(tmp_path / "done"), num_ranks=3)["tensor"]
    before, progress, start = memories(pool), Told(), time.monotonic()
    found = pool.call("bodies.pool:die_once", once(tmp_path / "flag", rank, number), progress, num_ranks=3)["tensor"]
    assert torch.equal(found, undisturbed) and time.monotonic() - start < 60
    assert any(f"starting again: rank {rank} (cpu) {words}" in each for each in progress.phases)
    assert survivors_are_warm(before, memories(pool), rank)


def test_a_rank_that_is_lost_or_fails_while_another_waits_for_a_step_is_told(pool: Pool, tmp_path: Path) -> None:
    first, progress = memories(pool), Told()
    request = {"flag": str(tmp_path / "flag"), "rank": 1, "kind": "dies"}
    assert pool.call("bodies.pool:uneven", request, progress, num_ranks=3) == "done"
    assert any("starting again: rank 1 (cpu) was killed (SIGKILL)" in each for each in progress.phases)
    before = memories(pool)
    assert survivors_are_warm(first, before, 1)
    with pytest.raises(RankFailed, match=r"^rank 1 \(cpu\): broken"):
        pool.call("bodies.pool:uneven", {**request, "flag": str(tmp_path / "next"), "kind": "raises"}, num_ranks=3)
    assert [each["pid"] for each in memories(pool)] == [each["pid"] for each in before]


def test_ranks_that_wait_for_a_lost_one_to_make_a_group_are_freed_at_once(
    start_warm_pool: Callable[..., Pool], tmp_path: Path
) -> None:
    limits = Limits(silence_s=60, work_s=60, step_s=60, leave_s=60, die_s=60)
    with start_warm_pool(["cpu"] * 2, limits=limits) as pool:
        start = time.monotonic()
        found = pool.call("bodies.pool:make_group", {"flag": str(tmp_path / "flag"), "rank": 1}, num_ranks=2)
        assert found == {"size": 2}
        assert time.monotonic() - start < 30


def test_a_job_that_kills_a_rank_twice_is_given_up(pool: Pool) -> None:
    with pytest.raises(
        RankFailed, match=r"^rank 2 \(cpu\) was killed \(SIGKILL\).*for the second time.*given up(\n|$)"
    ):
        pool.call("bodies.pool:die", {"rank": 2}, num_ranks=3)
    assert len(memories(pool)) == 3


def test_a_rank_that_lost_its_device_says_so_and_is_replaced(pool: Pool) -> None:
    before = memories(pool)
    text = "CUDA error: an illegal memory access was encountered"
    with pytest.raises(RankFailed, match=rf"^rank 1 \(cpu\): {text}"):
        pool.call("bodies.pool:fail", {"rank": 1, "kind": "runtime", "text": text}, num_ranks=3)
    assert survivors_are_warm(before, memories(pool), 1)


def test_a_lost_rank_is_missed_before_its_process_has_ended(pool: Pool, tmp_path: Path) -> None:
    process = Path(f"/proc/{memories(pool)[1]['pid']}")
    seen: list[bool] = []

    class Looks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "rank 1 (cpu) was killed, or ended" in record.getMessage():
                seen.append(process.exists())

    handler = Looks()
    logging.getLogger("latentloom").addHandler(handler)
    pool.call("bodies.pool:let_go", {"flag": str(tmp_path / "flag"), "rank": 1}, num_ranks=3)
    logging.getLogger("latentloom").removeHandler(handler)
    assert seen == [True]


def test_a_rank_that_cannot_be_killed_is_named_and_comes_back_once_it_can(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = memories(pool)
    with monkeypatch.context() as patch:
        send, pid = signal.pidfd_send_signal, before[1]["pid"]

        def spare(pidfd: int, number: int) -> None:
            if f"Pid:\t{pid}\n" not in Path(f"/proc/self/fdinfo/{pidfd}").read_text():
                send(pidfd, number)

        patch.setattr(signal, "pidfd_send_signal", spare)
        os.kill(pid, signal.SIGSTOP)
        words = rf"^rank 1 \(cpu\) was silent.* process {pid} does not end and holds the device"
        with pytest.raises(RankFailed, match=words):
            pool.call("bodies.pool:die_once", once(Path(os.devnull)), num_ranks=3)
    wait_for_another(pool, 1, pid)
    assert memories(pool)[1]["pid"] != pid


def test_the_logs_of_ranks_that_failed_are_kept(start_warm_pool: Callable[..., Pool]) -> None:
    with start_warm_pool(["cpu"]) as pool, pytest.raises(RankFailed):
        pool.call("bodies.pool:fail", {"rank": 0, "kind": "runtime", "text": "broken"})
    assert "broken" in (pool.folder / "rank0.log").read_text()
    assert {each.suffix for each in pool.folder.iterdir()} == {".log", ""}
    shutil.rmtree(pool.folder)


def test_a_rank_that_hangs_is_ended_and_the_others_keep_what_they_have(pool: Pool) -> None:
    before = memories(pool)
    with pytest.raises(RankFailed, match=r"^rank 1 \(cpu\) was silent about its work for 5 s \(at the start\)"):
        pool.call("bodies.pool:hang", {"rank": 1}, num_ranks=3)
    assert survivors_are_warm(before, memories(pool), 1)


def test_a_rank_lost_while_idle_is_replaced_before_it_is_needed(pool: Pool) -> None:
    before, restarts = memories(pool), pool.restarts
    os.kill(before[1]["pid"], signal.SIGKILL)
    wait_for_another(pool, 1, before[1]["pid"])
    assert survivors_are_warm(before, memories(pool), 1)
    assert (pool.restarts, pool.is_failing) == (restarts + 1, False)


def test_a_member_lost_during_a_job_of_fewer_ranks_is_missed_by_the_next_of_all(pool: Pool) -> None:
    before = memories(pool)
    pool.call("bodies.pool:echo", {}, num_ranks=1)
    os.kill(before[2]["pid"], signal.SIGKILL)
    kept = [now["pid"] == then["pid"] for now, then in zip(memories(pool), before, strict=True)]
    assert kept == [True, True, False]


def test_the_spare_takes_the_place_of_a_killed_fork_server_and_nothing_is_imported(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "done").touch()
    undisturbed = pool.call("bodies.pool:die_once", once(tmp_path / "done"), num_ranks=3)["tensor"]
    spare, progress = spare_of(pool), Told()
    request = {**once(tmp_path / "flag"), "parent": True}
    found = pool.call("bodies.pool:die_once", request, progress, num_ranks=3)["tensor"]
    assert torch.equal(found, undisturbed)
    again = [each for each in progress.phases if each.startswith("starting again")]
    assert len(again) == 1 and "was ended with the fork server, which was killed (SIGKILL)" in again[0]
    assert server_of(pool) == spare != spare_of(pool)


def test_spares_follow_one_another_when_fork_servers_die_in_a_row(pool: Pool) -> None:
    for _ in range(4):
        server, spare = server_of(pool), spare_of(pool)
        os.kill(server, signal.SIGKILL)
        wait_until(lambda server=server: is_gone(server))
        assert len(memories(pool)) == 3 and server_of(pool) == spare


def test_a_lost_spare_is_forked_anew_and_a_stopped_one_does_no_harm(pool: Pool) -> None:
    before, lost = memories(pool), spare_of(pool)
    os.kill(lost, signal.SIGKILL)
    wait_until(lambda: is_gone(lost))
    spare = spare_of(pool)
    os.kill(spare, signal.SIGSTOP)
    after = memories(pool)
    assert [each["pid"] for each in after] == [each["pid"] for each in before]
    server = server_of(pool)
    os.kill(server, signal.SIGKILL)  # which the kernel tells the stopped spare with a SIGCONT
    wait_until(lambda: is_gone(server))
    assert len(memories(pool)) == 3 and server_of(pool) == spare


def test_a_spare_that_is_stopped_before_it_is_ready_dies_with_its_server_and_takes_no_place(
    start_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flag = tmp_path / "spares stop"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("STOP_SPARES", str(flag))
    with start_pool(["cpu"] * 2, limits=Limits(start_s=3600)) as pool:
        server, lost = server_of(pool), spare_of(pool)
        flag.touch()
        os.kill(lost, signal.SIGKILL)
        started = {state.pid for state in pool.states()} | {lost}
        stopped = set[int]()
        wait_until(lambda: bool(stopped.update(p for p in children_of(server) - started if is_stopped(p)) or stopped))
        flag.unlink()
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: all(map(is_gone, {server, *stopped})))
        assert pool.call("bodies.pool:echo", {})["rank"] == 0


def test_server_and_spare_have_one_thread_and_the_spare_next_to_no_memory_of_its_own(pool: Pool) -> None:
    server, spare = server_of(pool), spare_of(pool)
    assert field(server, "Threads") == field(spare, "Threads") == "1"
    lines = [line.split() for line in Path(f"/proc/{spare}/smaps_rollup").read_text().splitlines()]
    private = sum(int(line[1]) for line in lines if line[0].startswith("Private_"))
    assert private < 30 << 10, "KiB"


def test_a_stopped_fork_server_that_is_needed_is_replaced_by_its_spare(pool: Pool) -> None:
    server, spare = server_of(pool), spare_of(pool)
    os.kill(server, signal.SIGSTOP)
    os.kill(pool.states()[1].pid, signal.SIGKILL)
    assert len(memories(pool)) == 3 and server_of(pool) == spare
    assert is_gone(server)


def test_server_and_spare_killed_at_once_are_started_anew(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]))
    before, killed = memories(pool), {server_of(pool), spare_of(pool)}
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(map(is_gone, killed)))
    assert not {each["pid"] for each in before} & {each["pid"] for each in memories(pool)}
    assert not killed & {server_of(pool), spare_of(pool)}


@pytest.mark.parametrize("parent", [False, True])
def test_a_rank_or_server_that_the_system_ended_for_want_of_memory_is_told_so(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent: bool
) -> None:
    spare_of(pool)
    counts = itertools.count(1 << 40)
    monkeypatch.setattr(shortage, "num_memory_kills", lambda root: next(counts))
    monkeypatch.setattr(shortage, "tightest_memory", lambda root: (450 << 20, 448 << 20))
    progress = Told()
    pool.call("bodies.pool:die_once", {**once(tmp_path / "flag"), "parent": parent}, progress, num_ranks=3)
    who = "was ended with the fork server, which" if parent else "rank 1 (cpu)"
    assert any(
        f"{who} was ended by the system for want of memory (the limit here is 450 MiB" in x for x in progress.phases
    )


def test_a_device_that_cannot_be_had_is_told(warm_server: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    words = r"^rank 0 \(cuda:0\) ended with exit code 1: "
    with pools_from(warm_server), Pool(["cuda:0"]) as pool, pytest.raises(RankFailed, match=words):
        pool.call("bodies.pool:echo", {})
