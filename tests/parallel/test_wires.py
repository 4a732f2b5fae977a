"""Wires between ranks are tried when ranks join; where they fail, new ranks do without peer-to-peer."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from latentloom.parallel.errors import BadWires, RankFailed
from latentloom.parallel.group import Group
from latentloom.parallel.pool.job import Again, Job, Last, Work
from latentloom.parallel.pool.known import Known
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.pool.rank_process import RankProcess
from latentloom.parallel.pool.replica import Replica
from latentloom.parallel.process_groups import Use
from latentloom.parallel.ranks import membership
from latentloom.parallel.ranks.messages import Join, Joined
from latentloom.parallel.ranks.rank import Rank
from latentloom.parallel.ranks.seat import World


def test_every_byte_that_is_sent_between_ranks_is_looked_at(ranks: Any) -> None:
    found = ranks.run("bodies.rank:proved_wires", ["nothing", "add", "start_hop", "start_exchange"])
    for rank, told in enumerate(found):
        assert told == [
            "well",
            "an all-reduce arrived with 1 of 262144 numbers changed",
            f"rank {(rank - 1) % 4}'s send arrived with 1 of 262144 numbers changed",
            f"rank {0 if rank else 1}'s part of an exchange arrived with 1 of 262144 numbers changed",
        ]
    (told, *_) = ranks.run("bodies.rank:proved_wires", ["add"], True)
    assert told == ["an all-reduce arrived with 1 of 1024 numbers changed"]


def test_what_does_not_arrive_is_not_waited_for() -> None:
    with pytest.raises(BadWires, match=r"does not arrive in 0\.01 s"):
        membership._wait(lambda: False, 0.0, 0.01)


def test_what_is_sent_differs_for_every_two_ranks_and_fills_its_bytes() -> None:
    device = torch.device("cpu")
    sent = [membership._sent(device, *pair, 1 << 18) for pair in ((0, 1), (1, 0), (63, 62), (7, 8))]
    assert all((one != other).all() for one in sent for other in sent if one is not other)
    assert all(len(each.view(torch.uint8)[lane::4].unique()) > 200 for each in sent for lane in range(4))


def test_a_rank_on_an_accelerator_proves_its_wires_when_it_joins_and_leaves_if_they_are_bad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done, answers = [], []

    def prove(group: Group, device: torch.device, *, is_proven: bool) -> None:
        done.append((group.ranks, group.index, str(device), is_proven))
        raise BadWires("it hangs")

    def group_of(ranks: range, use: Use = Use.WORK) -> None:
        done.append((str(use), *ranks))

    monkeypatch.setattr(membership.dist, "init_process_group", lambda backend, **_: done.append(backend))
    monkeypatch.setattr(membership.process_groups, "begin", lambda device: None)
    monkeypatch.setattr(membership.process_groups, "group_of", group_of)
    monkeypatch.setattr(membership.process_groups, "connected", lambda: [])
    monkeypatch.setattr(membership, "_store", lambda *_: None)
    monkeypatch.setattr(membership, "_abort_process_group", lambda: done.append("left"))
    monkeypatch.setattr(membership, "prove", prove)
    one = object.__new__(Rank)
    one.membership = membership.Membership("cuda:1")
    one.channel = SimpleNamespace(send=answers.append)  # type: ignore[assignment]
    one._join(Join(world=World(name="w", store="/w", size=2), rank=1, is_proven=True))
    joined = ["cpu:gloo,cuda:nccl", ("votes", 0, 1), ("work", 0, 1)]
    assert done == [*joined, ((0, 1), 1, "cuda:1", True), "left"]
    assert answers == [Joined(world="w", problem="it hangs", are_wires_bad=True)]


class Place(RankProcess):
    """A rank without a process: what it was told and why it was killed are kept."""

    def __init__(self, number: int, folder: Path) -> None:
        super().__init__(number, f"cuda:{number}", num_threads=1, folder=folder)
        self.told: list[Any] = []
        self.uuid = f"gpu {number}"
        self.has_begun = True

    def send(self, message: Any, fds: Any = ()) -> None:
        self.told.append(message)

    def kill(self, why: str) -> None:
        self.why_killed = self.why_killed or why


def work_on(num_ranks: int, world: World | None = None) -> Job:
    return Job(Work(function="f", num_ranks=num_ranks, world=world), os.memfd_create("request"))


def told(job: Job) -> list[Any]:
    return [job.told.get_nowait() for _ in range(job.told.qsize())]


def joins(replica: Replica, *problems: str) -> None:
    """The ranks join, and say how that went."""
    replica.advance()
    for rank, problem in zip(replica.ranks, problems, strict=True):
        order = rank.told.pop()  # type: ignore[attr-defined]
        assert isinstance(order, Join)
        replica.hear_joined(rank, Joined(world=order.world.name, problem=problem, are_wires_bad=bool(problem)))


def test_ranks_whose_wires_fail_start_again_without_peer_to_peer_and_only_once(tmp_path: Path) -> None:
    places, job = [Place(number, tmp_path) for number in range(2)], work_on(2)
    replica = Replica("group0", list(places), folder=tmp_path, limits=Limits())
    replica.take(job)
    joins(replica, "", "rank 0's send arrived with 9 of 10 numbers changed")
    assert [each.why_killed for each in places] == ["was to start again without peer-to-peer"] * 2
    (phase,) = told(job)
    assert isinstance(phase, Again) and phase.text == (
        "starting again without peer-to-peer between cuda:0, cuda:1: "
        "rank 1: rank 0's send arrived with 9 of 10 numbers changed"
    )
    for place in places:
        replica.lose(place, place.why_killed)
        place.why_killed = ""
    assert replica.job is job and not any(place.has_p2p for place in places)
    joins(replica, "it hangs", "it hangs")
    (last,) = told(job)
    assert isinstance(last, Last) and isinstance(last.error, RankFailed) and "rank 0: it hangs" in str(last.error)


def test_a_rank_that_is_lost_while_ranks_join_ends_the_wait_of_those_that_wait(tmp_path: Path) -> None:
    places, job = [Place(number, tmp_path) for number in range(3)], work_on(3)
    replica = Replica("group0", list(places), folder=tmp_path, limits=Limits())
    replica.take(job)
    for words in ("starting again: {}", "{}, for the second time in this job, so it is given up"):
        replica.advance()
        replica.hear_joined(places[2], Joined(world=places[2].told[-1].world.name, problem=""))
        replica.lose(places[0], "was killed")
        assert [each.why_killed for each in places] == ["waited for another rank, which was lost"] * 2 + [""]
        (last,) = told(job)
        said = last.text if isinstance(last, Again) else str(last.error)
        assert said == words.format("rank 0 (cuda:0) was killed")
        places[0].why_killed = places[1].why_killed = ""
    assert replica.job is None and not replica.joining


def test_wires_that_were_seen_to_work_are_proven_briefly_and_those_that_did_not_wholly(tmp_path: Path) -> None:
    """Not those of ranks without peer-to-peer, and not those of a job over several machines."""
    places, known = [Place(number, tmp_path) for number in range(2)], Known()

    def join(problem: str = "", world: World | None = None) -> bool:
        replica = Replica("group0", list(places), folder=tmp_path, limits=Limits(), known=known)
        replica.take(work_on(2, world))
        replica.advance()
        orders = [rank.told.pop() for rank in places]
        for rank, order in zip(places, orders, strict=True):
            replica.hear_joined(rank, Joined(world=order.world.name, problem=problem, are_wires_bad=bool(problem)))
        assert orders[0].is_proven == orders[1].is_proven
        return orders[0].is_proven

    afar = World(name="w", store="10.0.0.1:9", size=4)
    assert [join(), join(), join(world=afar), join()] == [False, True, False, True]
    join("9 of 10 numbers changed")
    for place in places:
        place.why_killed, place.has_p2p = "", True
    assert [join(), join()] == [False, True]
    places[0].has_p2p = False
    assert not join()


def test_a_rank_that_starts_again_without_peer_to_peer_tells_nccl(pool: Pool) -> None:
    asked = {"names": ["NCCL_P2P_DISABLE"]}
    rank = pool._replicas[0].ranks[2]
    before = rank.pid
    assert pool.call_every("bodies.pool:environment", asked, num_ranks=3) == [{"NCCL_P2P_DISABLE": None}] * 3
    for has_p2p, expected in ((False, "1"), (True, None)):
        rank.has_p2p = has_p2p
        os.kill(rank.pid, signal.SIGKILL)
        found = pool.call_every("bodies.pool:environment", asked, num_ranks=3)
        assert found[2] == {"NCCL_P2P_DISABLE": expected} and rank.pid != before


def test_ranks_of_one_machine_have_nccl_look_for_no_network_unless_the_user_says_so(
    start_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"names": ["NCCL_RAS_ENABLE", "NCCL_IB_DISABLE", "NCCL_NET_PLUGIN"]}
    monkeypatch.setenv("NCCL_IB_DISABLE", "0")
    with start_pool(["cpu"]) as pool:
        found = pool.call("bodies.pool:environment", asked)
    assert found == {"NCCL_RAS_ENABLE": "0", "NCCL_IB_DISABLE": "0", "NCCL_NET_PLUGIN": "none"}
    with start_pool(["cpu"], interface="eth7") as pool:  # by which it meets ranks of other machines
        found = pool.call("bodies.pool:environment", asked)
    assert found == {"NCCL_RAS_ENABLE": None, "NCCL_IB_DISABLE": "0", "NCCL_NET_PLUGIN": None}
