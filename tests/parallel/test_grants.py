"""Grants: that all ranks of a job stop after the same step, in whatever order they come and the host hears of them."""

import errno
import gc
import os
import queue
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from latentloom.parallel.errors import Cancelled, PeerLost, RankFailed
from latentloom.parallel.pool.attempt import JobRun
from latentloom.parallel.pool.job import Job, Last, Work
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.rank_process import RankProcess
from latentloom.parallel.pool.replica import Replica
from latentloom.parallel.ranks import grants
from latentloom.parallel.ranks.channel import Channel
from latentloom.parallel.ranks.grants import AHEAD, Granted, Grants
from latentloom.parallel.ranks.messages import RunJob, ToRank
from latentloom.parallel.ranks.rank_job import RankJob
from support.ranks import Ranks

NUM_CANCELS = 1000
NEVER = threading.Event()


class Place(RankProcess):
    """A rank that is a thread of this process: it gets its orders, and says what it does by a queue."""

    def __init__(self, number: int, told: "queue.SimpleQueue[Any]") -> None:
        super().__init__(number, "cpu", num_threads=1, folder=Path())
        self.told = told

    def send(self, message: ToRank, fds: Sequence[int] = ()) -> None:
        if isinstance(message, RunJob):
            self.job = RankJob(message, cast("Channel[ToRank]", Wire(self)))
            self.job.granted = Granted(os.dup(fds[1]))

    def work(self, total: int, seed: int) -> int:
        """How many steps were done."""
        chance, done = random.Random(seed), 0
        try:
            for done in range(1, total + 1):
                if chance.random() < 0.25:
                    time.sleep(1e-4 * chance.random())
                self.job.step(done, total)
        except Cancelled:
            assert self.job.is_in_step
        finally:
            self.told.put((self, None))
        return done


class Silent(RankProcess):
    def __init__(self, number: int) -> None:
        super().__init__(number, "cpu", num_threads=1, folder=Path())

    def send(self, message: ToRank, fds: Sequence[int] = ()) -> None:
        pass


class Wire:
    def __init__(self, place: Place) -> None:
        self.place = place

    def send(self, message: Any, fds: Any = ()) -> None:
        self.place.told.put((self.place, message))


def job_of(num_ranks: int) -> Job:
    return Job(Work(function="", num_ranks=num_ranks), os.memfd_create("request"))


def test_a_thousand_cancels_stop_all_ranks_after_the_same_step() -> None:
    """The host is told at a random moment: of steps that all have told of by then, and two more."""
    chance, told = random.Random(17), queue.SimpleQueue[Any]()
    with ThreadPoolExecutor(3) as threads:
        for seed in range(NUM_CANCELS):
            places = [Place(number, told) for number in range(3)]
            run = JobRun(job_of(3), [*places], Limits())
            run.dispatch()
            total, moment = chance.randint(1, 9), chance.randrange(12)
            works = [threads.submit(place.work, total, 3 * seed + place.number) for place in places]
            heard, known, num_left = dict.fromkeys(places, 0), total, 3
            while num_left:
                if sum(heard.values()) == moment and known == total:
                    known = min(heard.values())
                    run.cancel()
                place, message = told.get(timeout=10)
                if message is None:
                    num_left -= 1
                else:
                    heard[place] += 1
                    run.hear(place, message, None)
            assert {work.result() for work in works} == {min(total, known + AHEAD)}, seed
            run.job.is_cancelled = True
            run.settle()
            for place in places:
                place.job.granted.close()


def test_a_job_that_is_never_settled_leaves_no_descriptor() -> None:
    """As where its pool is closed meanwhile."""
    run = JobRun(job_of(2), [Silent(0), Silent(1)], Limits())
    run.dispatch()
    os.close(run.job.body)
    del run
    gc.collect()
    held = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    assert not [each for each in held if "memfd:grants" in each]


def test_what_is_granted_grows_with_the_slowest_until_the_end_is_set_once() -> None:
    host = Grants(2)
    rank = Granted(os.dup(host.fd))
    found = []
    for index in (0, 0, 1, 1, 0):
        host.hear_step(index)
        found.append(rank._words[grants.GRANTED])
    assert found == [AHEAD, AHEAD, AHEAD + 1, AHEAD + 2, AHEAD + 2]
    host.stop()
    host.hear_step(1)
    host.stop()
    assert list(rank._words) == [AHEAD + 2, AHEAD + 2]
    assert rank.may_begin(AHEAD + 2, NEVER) and not rank.may_begin(AHEAD + 3, NEVER)
    with pytest.raises(TypeError, match="read-only"):
        rank._words[grants.GRANTED] = 99
    rank.close()
    host.close()


def test_a_rank_whose_part_is_done_is_not_waited_for() -> None:
    host = Grants(2)
    rank = Granted(os.dup(host.fd))
    for _ in range(AHEAD):
        host.hear_step(0)
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(rank.may_begin, AHEAD + 1, NEVER)
        with pytest.raises(TimeoutError):
            waits.result(0.05)
        host.hear_end(1)
        host.hear_step(1)  # of a thread that it has left behind
        assert waits.result(10)
    rank.close()
    host.close()


def test_a_wait_for_a_step_ends_by_an_abort_or_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    host, aborted = Grants(2), threading.Event()
    rank = Granted(os.dup(host.fd))
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(rank.may_begin, AHEAD + 1, aborted)
        with pytest.raises(TimeoutError):
            waits.result(0.02)
        aborted.set()
        with pytest.raises(PeerLost, match="aborted while this rank waited"):
            waits.result(10)
    monkeypatch.setattr(grants, "DEADLINE_S", 0.0)
    with pytest.raises(RankFailed, match=f"step {AHEAD + 1} was not granted in 0 hours"):
        rank.may_begin(AHEAD + 1, NEVER)
    rank.close()
    host.close()


def test_a_job_for_which_there_is_no_descriptor_left_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    places = [Place(number, queue.SimpleQueue()) for number in range(2)]
    replica, job = Replica("group0", [*places], folder=tmp_path, limits=Limits()), job_of(2)
    replica.take(job)
    monkeypatch.setattr(os, "memfd_create", full)
    replica._start(job, [*places])
    last = job.told.get_nowait()
    assert isinstance(last, Last) and "the ranks cannot begin: Too many open files; close" in str(last.error)
    assert replica.job is None and replica.run is None


def test_a_job_that_was_cancelled_begins_no_other_phase() -> None:
    place = Place(0, queue.SimpleQueue())
    JobRun(job_of(2), [place, Silent(1)], Limits()).dispatch()
    place.job.is_cancelled = True
    with pytest.raises(Cancelled):
        place.job.phase("decoding")
    assert place.told.empty()


def test_ranks_of_several_machines_stop_after_the_same_step_by_a_vote(ranks: Ranks) -> None:
    assert ranks.run("bodies.pool:voted") == [4] * 4
