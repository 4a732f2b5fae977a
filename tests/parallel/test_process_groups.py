"""One process group of all ranks, which lasts, and the groups within it."""

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _world

from latentloom.parallel import process_groups
from latentloom.parallel.errors import BadInput
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.progress import SILENT, Progress
from latentloom.parallel.ranks import membership
from latentloom.parallel.ranks.membership import Membership
from latentloom.parallel.ranks.seat import World
from latentloom.parallel.sharding.captured import Captured
from support.tapes import Tapes
from support.told import Told

CPU = torch.device("cpu")


def meet(pool: Pool, num_ranks: int) -> list[dict[str, Any]]:
    found = pool.call_every("bodies.pool:add_up", {}, num_ranks=num_ranks)
    assert [each["sums"] for each in found] == [[sum(range(num_ranks + 1))] * 2] * num_ranks
    return found


def test_jobs_on_some_ranks_and_on_all_rebuild_no_group(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    meet(pool, 2)
    made = [each["groups"] for each in meet(pool, 3)]
    with caplog.at_level(logging.INFO, "latentloom"):
        for num_ranks in (2, 3, 2, 3):
            assert [each["groups"] for each in meet(pool, num_ranks)] == made[:num_ranks]
    assert "have joined" not in caplog.text
    assert {name for name in made[0] if "0 1 2" not in name} - made[2].keys() == {"work 0 1", "votes 0 1"}


def test_a_rank_that_is_lost_beside_a_job_on_others_does_not_disturb_it(pool: Pool) -> None:
    class Killing(Progress):
        def step(self, done: int, total: int, preview: Any = None) -> None:
            if done == 2:
                os.kill(pool.states()[2].pid, signal.SIGKILL)

    request = {"tensor": torch.arange(4.0), "steps": 30, "pause_s": 0.01}
    found = pool.call("bodies.pool:total", request, Killing(), num_ranks=2)["tensor"]
    assert torch.equal(found, torch.arange(4.0))
    meet(pool, 3)


# ---- stopped by revoking


class Backend:
    def __init__(self, address: int, done: list[str], together: threading.Barrier | None = None) -> None:
        self.address, self.done, self.together = address, done, together

    def _comm_ptr(self) -> int:
        return self.address

    def abort(self) -> None:
        if self.together is not None:
            self.together.wait(10)
        self.done.append(f"abort {self.address}")


def group(backend: Any) -> Any:
    return type("Group", (), {"_get_backend": lambda self, device: backend})()


@pytest.mark.parametrize(("answers", "is_revoked"), [({7: 0, 8: 0}, True), ({7: 0, 8: 5}, False)])
def test_groups_are_all_revoked_or_are_to_be_aborted_once_no_call_is_under_way(
    monkeypatch: pytest.MonkeyPatch, answers: dict[int, int], is_revoked: bool
) -> None:
    """An abort beside a revoke of NCCL hangs."""
    have_begun, came_back = threading.Barrier(len(answers)), list[int]()

    def call(address: int) -> int:
        have_begun.wait(10)  # all at once: a kernel of one may wait for that of another
        time.sleep(0.02 * address)
        came_back.append(address)
        return answers[address]

    monkeypatch.setattr(membership, "_nccl", lambda: call)
    assert membership.revoke([group(Backend(each, [])) for each in answers], CPU) == is_revoked
    assert sorted(came_back) == sorted(answers)


def test_nothing_is_revoked_without_the_function_or_the_communicator(monkeypatch: pytest.MonkeyPatch) -> None:
    has_nccl = dist.is_nccl_available()
    assert has_nccl or membership._nccl() is None
    monkeypatch.setattr(membership, "_nccl", lambda: None)
    assert not membership.revoke([group(Backend(7, []))], CPU)
    monkeypatch.setattr(membership, "_nccl", lambda: lambda address: 0)
    assert not membership.revoke([group(object())], CPU)
    assert not membership.revoke([], CPU)


@pytest.fixture
def member(tmp_path: Any) -> Iterator[Membership]:
    member = Membership("cpu")
    member.join(World(name="w", store=str(tmp_path / "store"), size=1), 0)
    yield member
    member.leave()
    assert not dist.is_initialized()


@pytest.mark.parametrize("is_revoked", [True, False])
def test_a_group_that_is_stopped_by_revoking_is_freed_when_the_rank_leaves(
    member: Membership, monkeypatch: pytest.MonkeyPatch, is_revoked: bool
) -> None:
    done: list[str] = []
    aborted: list[Any] = []
    within = process_groups.group_of([0])
    stand_in: Any = dist.ProcessGroup(dist.HashStore(), 0, 1)  # of no backend, so that torch's abort does nothing to it
    _world.pg_names[stand_in] = _world.pg_names.pop(within)
    abort = membership._abort_process_group
    monkeypatch.setattr(membership, "_abort_process_group", lambda: (aborted.extend(_world.pg_names), abort()))
    monkeypatch.setattr(process_groups, "connected", lambda: [stand_in])
    monkeypatch.setattr(membership, "revoke", lambda *_: is_revoked)
    monkeypatch.setattr(membership, "abort", lambda groups, device: done.append(f"{len(groups)} aborted"))
    member.abort()
    assert member.was_aborted and not dist.is_initialized()
    assert done == ([] if is_revoked else ["1 aborted"])
    assert stand_in not in aborted  # by torch, one by one
    member.leave()
    member.leave()
    assert done[-2:] == [f"{int(is_revoked)} aborted", "0 aborted"]


def test_a_loopback_that_is_down_is_told_as_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """What gloo says where `ip link set lo down` was run."""

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(
            "[enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. "
        )

    monkeypatch.setattr(dist, "init_process_group", fail)
    with pytest.raises(BadInput, match=r"this machine's loopback is down, .*ip link set lo up"):
        Membership("cpu").join(World(name="w", store=str(tmp_path / "store"), size=1), 0)


def test_groups_are_aborted_at_once() -> None:
    """A kernel of one may wait for that of another."""
    done, together = list[str](), threading.Barrier(2)
    membership.abort([group(Backend(each, done, together)) for each in (7, 8)], CPU)
    membership.abort([], CPU)
    assert sorted(done) == ["abort 7", "abort 8"]


# ---- on an accelerator


def test_an_accelerator_is_connected_in_groups_of_their_members_only(
    member: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    connected: list[int] = []
    aborted: list[str] = []

    def helper(size: int, index: int, ranks: list[int], backend: str, store: Any, name: str, **options: Any) -> Any:
        made.append((size, index, ranks, backend, name, options["device_id"]))
        return group(Backend(len(made), aborted)), store

    gpu = torch.device("cuda:0")
    process_groups.begin(gpu)
    monkeypatch.setattr(process_groups, "_new_process_group_helper", helper)
    monkeypatch.setattr(process_groups, "set_up", lambda given: connected.append(len(given)))
    monkeypatch.setattr(dist, "get_backend", lambda group: made[-1][3])
    assert process_groups.group_of([1]) is dist.GroupMember.NON_GROUP_MEMBER
    of_all, votes = process_groups.group_of([0]), process_groups.group_of([0], process_groups.Use.VOTES)
    assert process_groups.at_work() is of_all and process_groups.ballot() is votes
    assert made == [(1, 0, [0], "nccl", "work 0", gpu), (1, 0, [0], "gloo", "votes 0", None)]
    assert connected[:3] == [0, 1, 0] and process_groups.connected() == [of_all]
    monkeypatch.setitem(_world.pg_names, of_all, "work 0")
    member.leave()
    assert aborted == ["abort 1"]


@pytest.mark.parametrize("way", ["stop", "abort", "leave", "join"])
def test_graphs_are_dropped_before_a_group_goes_and_none_is_launched_in_the_next(
    member: Membership, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, way: str
) -> None:
    """A replaced rank makes all others stop, leave and join."""
    tapes, module, seen = Tapes(), torch.nn.Linear(2, 2), list[bool]()
    Captured(module, recorder=tapes)
    revoke_groups, abort = membership.revoke, membership._abort_process_group

    def dropped(go: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: (seen.append(tapes.made[0].is_reset), go(*given))[1]

    with torch.no_grad():
        wanted = module(torch.ones(2))
        assert torch.equal(module(torch.ones(2)), wanted) and tapes.made[0].num_replays == 1
        monkeypatch.setattr(membership, "revoke", dropped(revoke_groups))
        monkeypatch.setattr(membership, "_abort_process_group", dropped(abort))
        if way == "join":
            member.join(World(name="v", store=str(tmp_path / "next"), size=1), 0)
        else:
            getattr(member, way)()
        assert seen and all(seen)
        assert torch.equal(module(torch.ones(2)), wanted) and tapes.made[0].num_replays == 1


def connect(pool: Pool, progress: Progress = SILENT, **request: Any) -> Any:
    return pool.call("bodies.pool:connect", request, progress, num_ranks=3)


def test_a_peer_that_compiles_for_longer_than_nccl_may_take_is_waited_for(pool: Pool) -> None:
    before = [state.pid for state in pool.states()]
    assert connect(pool, limit_s=0.3, busy_s=1.0) == [6.0]
    assert [state.pid for state in pool.states()] == before


@pytest.mark.parametrize(
    ("hangs", "what"), [("connecting", "connecting ranks by NCCL"), ("first", "the first collective over NCCL")]
)
def test_a_rank_that_hangs_in_nccl_ends_with_its_stacks_in_its_log_and_is_replaced(
    start_warm_pool: Callable[..., Pool], tmp_path: Path, hangs: str, what: str
) -> None:
    progress = Told()
    with start_warm_pool(["cpu"] * 3) as pool:
        assert connect(pool, progress, limit_s=1.0, busy_s=0.0, hangs=hangs, flag=str(tmp_path / "flag")) == [6.0]
        log = pool.states()[1].log.read_text()
    # Its exit code may come after the end of its connection, by which the pool sees that it is gone.
    ended = re.compile(rf"rank 1 \(cpu\) (ended with exit code 1|was killed, or ended): it hung: {what} took over 1 s")
    assert any(map(ended.search, progress.phases))
    assert "in hang_once" in log and "most recent call first" in log
