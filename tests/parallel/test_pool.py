import ast
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import latentloom
from bodies.pool import total as total_here
from latentloom.parallel.errors import Cancelled, OutOfMemory, PeerLost, RankFailed, code_of
from latentloom.parallel.pool.job import End, first_cause
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.progress import SILENT, Progress
from latentloom.parallel.ranks.seat import Seat

TENSOR = torch.linspace(-1, 1, 7)


class Recorder(Progress):
    """Notes what it is told, and ends the work after a step when asked to."""

    def __init__(self, owner: str = "", *, previews: bool = False, stop_after: int = 0) -> None:
        self.owner = owner
        self.wants_previews = previews
        self.stop_after = stop_after
        self.told: list[Any] = []
        self.error = Cancelled("the user's own")

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.told.append(text)

    def step(self, done: int, total: int, preview: Any = None) -> None:
        self.told.append((done, total) if preview is None else (done, total, tuple(preview().shape)))
        if done == self.stop_after:
            raise self.error


def pids(pool: Pool) -> list[int]:
    return [answer["pid"] for answer in pool.call_every("bodies.pool:remember", {}, num_ranks=pool.size)]


def work(steps: int = 3, pause_s: float = 0.0) -> dict[str, Any]:
    return {"tensor": TENSOR, "steps": steps, "pause_s": pause_s}


def test_a_rank_answers_with_what_it_was_given(pool: Pool) -> None:
    tensors = {str(dtype): torch.arange(5).to(dtype) for dtype in (torch.bfloat16, torch.float32, torch.int64)}
    answer = pool.call("bodies.pool:echo", {"tensors": tensors, "plain": [1, "two", None]})
    assert (answer["rank"], answer["device"], answer["request"]["plain"]) == (0, "cpu", [1, "two", None])
    for name, tensor in tensors.items():
        assert torch.equal(answer["request"]["tensors"][name], tensor)


def test_ranks_compute_together_and_tell_of_their_steps(pool: Pool) -> None:
    progress = Recorder(previews=True)
    found = pool.call("bodies.pool:total", work(), progress, num_ranks=3)["tensor"]
    alone = total_here(work(), SILENT, Seat(rank=0, num_ranks=1, device="cpu"))["tensor"]
    assert torch.allclose(found, alone, atol=1e-5)
    assert progress.told[0] == (1, 3, (2, 2, 3))
    assert [each[:2] for each in progress.told] == [(1, 3), (2, 3), (3, 3)]


def test_every_answer_can_be_had_and_those_that_differ_are_refused(pool: Pool) -> None:
    assert [each["rank"] for each in pool.call_every("bodies.pool:differ", {}, num_ranks=3)] == [0, 1, 2]
    with pytest.raises(RankFailed, match="rank 1 has another result than rank 0"):
        pool.call("bodies.pool:differ", {}, num_ranks=2)


def test_all_ranks_map_the_same_request(pool: Pool) -> None:
    answers = pool.call_every("bodies.pool:mapped", {"tensor": torch.zeros(1 << 16)}, num_ranks=3)
    assert len(set.intersection(*map(set, answers))) == 1


def test_the_side_lane_runs_beside_the_main_lane(pool: Pool, tmp_path: Path) -> None:
    ways = [{"own": str(tmp_path / own), "other": str(tmp_path / other)} for own, other in ("ab", "ba")]
    with ThreadPoolExecutor() as threads:
        main = threads.submit(pool.call, "bodies.pool:meet", ways[0])
        side = threads.submit(pool.call, "bodies.pool:meet", ways[1], lane="side")
        assert main.result(60) and side.result(60)


def test_side_jobs_run_on_the_rank_they_name(pool: Pool) -> None:
    expected = pids(pool)
    found = [pool.call("bodies.pool:remember", {}, lane="side", rank=rank)["pid"] for rank in (0, 1, -1)]
    assert found == [expected[0], expected[1], expected[2]]


def test_owners_take_turns_when_they_ask_from_many_threads(pool: Pool, tmp_path: Path) -> None:
    def ask(name: str) -> None:
        request = {"file": str(tmp_path / "notes"), "name": name, "pause_s": 0.0}
        pool.call("bodies.pool:note", request, Recorder(name[0]), num_ranks=1)

    gate = {"file": str(tmp_path / "notes"), "name": "gate", "pause_s": 1.0}
    with ThreadPoolExecutor() as threads:
        futures = [threads.submit(pool.call, "bodies.pool:note", gate)]
        for name in ("a1", "a2", "b1"):
            time.sleep(0.1)  # so that they are asked for in this order
            futures.append(threads.submit(ask, name))
        for future in futures:
            future.result(60)
    assert (tmp_path / "notes").read_text().split() == ["gate", "a1", "b1", "a2"]


def test_groups_of_different_sizes_follow_one_another(pool: Pool) -> None:
    before = pids(pool)
    for num_ranks in (2, 3, 1, 3, 2, 1, 2):
        found = pool.call("bodies.pool:total", work(1), num_ranks=num_ranks)["tensor"]
        assert torch.allclose(found, TENSOR, atol=1e-5)
    assert pids(pool) == before


@pytest.mark.parametrize(("kind", "error"), [("value", ValueError), ("runtime", RankFailed), ("memory", OutOfMemory)])
def test_a_rank_that_fails_is_named_and_no_rank_is_lost(pool: Pool, kind: str, error: type[Exception]) -> None:
    before = pids(pool)
    with pytest.raises(error, match=r"^rank 1 \(cpu\): the strength must be under 1(\n|$)"):
        request = {"rank": 1, "kind": kind, "text": "the strength must be under 1"}
        pool.call("bodies.pool:fail", request, num_ranks=3)
    assert torch.allclose(pool.call("bodies.pool:total", work(), num_ranks=3)["tensor"], TENSOR, atol=1e-5)
    assert pids(pool) == before


def test_a_rank_that_fails_alone_leaves_nobody_waiting_for_its_share_of_a_block(pool: Pool) -> None:
    before = pids(pool)
    for rank in (-1, 1, -1, 0, -1):
        if rank < 0:
            assert pool.call_every("bodies.pool:gather_blocks", {"rank": rank}, num_ranks=3) == [True] * 3
            continue
        with pytest.raises(ValueError, match=rf"^rank {rank} \(cpu\): alone"):
            pool.call("bodies.pool:gather_blocks", {"rank": rank}, num_ranks=3)
    assert pids(pool) == before


def test_a_rank_that_comes_late_to_a_group_that_is_gone_is_not_blamed(pool: Pool) -> None:
    with pytest.raises(RankFailed, match=r"^rank 1 \(cpu\): cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"):
        pool.call("bodies.pool:fail_first", {}, num_ranks=3)


def test_the_lowest_rank_with_a_reason_of_its_own_is_the_cause() -> None:
    late = End("failed", code=PeerLost.code, reason="Process group is not initialized")
    ends = {2: End("failed", code="internal", reason="own"), 0: late, 1: End("failed", code="internal", reason="too")}
    assert first_cause(ends)[0] == 1 and first_cause({2: late, 0: late})[0] == 0


def test_a_refusal_keeps_its_code_on_the_way_from_a_rank(pool: Pool) -> None:
    with pytest.raises(ValueError, match="no number") as caught:
        pool.call("bodies.pool:fail", {"rank": 0, "kind": "not_finite", "text": "no number"})
    assert code_of(caught.value) == "not-finite"


def test_what_every_rank_refuses_is_told_as_one_process_would(pool: Pool) -> None:
    with pytest.raises(ValueError, match=r"^too many(\n|$)"):
        pool.call("bodies.pool:fail", {"rank": "every", "kind": "value", "text": "too many"}, num_ranks=3)


@pytest.mark.parametrize("kind", ["runtime", "value"])
def test_a_failure_carries_the_ranks_traceback(pool: Pool, kind: str) -> None:
    with pytest.raises((RankFailed, ValueError)) as caught:
        pool.call("bodies.pool:fail", {"rank": 0, "kind": kind, "text": "broken"})
    notes = "".join(caught.value.__notes__)
    assert "bodies/pool.py" in notes
    assert (str(pool.states()[0].log) in notes) == (kind == "runtime")


def test_a_preview_that_cannot_be_made_fails_no_job(pool: Pool) -> None:
    progress = Recorder(previews=True)
    assert pool.call("bodies.pool:no_picture", {}, progress) == "done"
    assert progress.told == [(1, 1)]


@pytest.mark.parametrize("replicas", [0, -1])
def test_no_replicas_are_refused(replicas: int) -> None:
    with pytest.raises(ValueError, match=f"cannot be shared out to {replicas} replicas"):
        Pool(["cpu"], replicas=replicas)


def test_a_function_that_is_not_there_is_told(pool: Pool) -> None:
    with pytest.raises(RankFailed, match="no_such"):
        pool.call("bodies.pool:no_such", {})


def test_a_cancel_stops_all_ranks_at_the_same_step_and_leaves_nothing_behind(pool: Pool) -> None:
    undisturbed = pool.call("bodies.pool:total", work(5), num_ranks=3)["tensor"]
    before = pids(pool)
    progress = Recorder(stop_after=2)
    with pytest.raises(Cancelled) as caught:
        pool.call("bodies.pool:total", work(500, pause_s=0.02), progress, num_ranks=3)
    assert caught.value is progress.error
    reached = pool.call_every("bodies.pool:reached", {}, num_ranks=3)
    assert len(set(reached)) == 1 and 2 <= reached[0] < 500
    assert torch.equal(pool.call("bodies.pool:total", work(5), num_ranks=3)["tensor"], undisturbed)
    assert pids(pool) == before


def test_a_job_that_waits_can_be_cancelled(pool: Pool, tmp_path: Path) -> None:
    class Impatient(Progress):
        def check(self) -> None:
            raise Cancelled

    ways = {"own": str(tmp_path / "a"), "other": str(tmp_path / "b")}
    with ThreadPoolExecutor() as threads:
        first = threads.submit(pool.call, "bodies.pool:meet", ways)
        with pytest.raises(Cancelled):
            pool.call("bodies.pool:note", {"file": "", "name": "", "pause_s": 0}, Impatient())
        assert not first.done()
        (tmp_path / "b").touch()
        assert first.result(60)


def test_more_ranks_than_there_are_is_refused(pool: Pool) -> None:
    with pytest.raises(ValueError, match="4 ranks are asked for; 3 work together here"):
        pool.call("bodies.pool:total", work(), num_ranks=4)


def test_a_launchers_environment_and_a_taken_port_have_no_effect(pool: Pool) -> None:
    names = ["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"]
    taken = socket.socket()
    try:
        taken.bind(("127.0.0.1", 29500))
    except OSError:
        pass  # it is taken already
    try:
        found = pool.call("bodies.pool:environment", {"names": names}, num_ranks=3)
        pool.call("bodies.pool:total", work(1), num_ranks=2)
    finally:
        taken.close()
    assert found == dict.fromkeys(names)


def test_ranks_listen_on_the_loopback_only(pool: Pool) -> None:
    pool.call("bodies.pool:total", work(1), num_ranks=3)
    addresses = [each for found in pool.call_every("bodies.pool:listening", {}, num_ranks=3) for each in found]
    assert addresses and set(addresses) <= {"0100007F", "00000000000000000000000001000000"}


def test_failures_and_new_groups_leave_no_descriptor_behind(pool: Pool) -> None:
    def count() -> list[int]:
        pool.call("bodies.pool:total", work(1), num_ranks=3)
        return pool.call_every("bodies.pool:open_files", {}, num_ranks=3)

    before = count()
    for _ in range(5):
        with pytest.raises(ValueError, match="no"):
            pool.call("bodies.pool:fail", {"rank": 1, "kind": "value", "text": "no"}, num_ranks=3)
    assert all(now <= then + 5 for now, then in zip(count(), before, strict=True))


def test_replicas_run_two_jobs_at_once(start_warm_pool: Callable[..., Pool], tmp_path: Path) -> None:
    ways = [{"own": str(tmp_path / own), "other": str(tmp_path / other)} for own, other in ("ab", "ba")]
    with start_warm_pool(["cpu", "cpu"], replicas=2) as pool, ThreadPoolExecutor() as threads:
        assert all(list(threads.map(lambda request: pool.call("bodies.pool:meet", request), ways)))


def test_close_ends_jobs_and_processes_and_later_calls_are_told(start_pool: Callable[..., Pool]) -> None:
    pool = start_pool(["cpu", "cpu"], limits=Limits(silence_s=10))
    processes = [Path(f"/proc/{state.pid}") for state in pool.states()]
    started = threading.Event()

    class Started(Progress):
        def step(self, done: int, total: int, preview: Any = None) -> None:
            started.set()

    with ThreadPoolExecutor() as threads:
        future = threads.submit(pool.call, "bodies.pool:total", work(10_000, 0.01), Started(), num_ranks=2)
        assert started.wait(60)
        pool.close()
        with pytest.raises(RankFailed, match="the pool was closed"):
            future.result(10)
    with pytest.raises(RankFailed, match="the pool was closed"):
        pool.call("bodies.pool:echo", {})
    assert not any(each.exists() for each in processes) and not pool.folder.exists()
    pool.close()


def test_nothing_is_pickled() -> None:
    folder = Path(latentloom.__file__).parent / "parallel"
    for path in folder.rglob("*.py"):
        for statement in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
            names += [statement.module or ""] if isinstance(statement, ast.ImportFrom) else []
            roots = {name.partition(".")[0] for name in names}
            assert not roots & {"pickle", "multiprocessing", "shelve", "marshal", "dill"}, path
