import itertools

from latentloom.parallel.pool.job import Job, Work
from latentloom.parallel.pool.supervisor import JobQueue

_bodies = itertools.count(10_000)


def job(owner: str, rank: int = 0) -> Job:
    return Job(Work(function="f", num_ranks=1, rank=rank, owner=owner), next(_bodies))


def test_owners_take_turns_and_keep_their_own_order() -> None:
    jobs = [job(owner) for owner in "aaabbc"]
    queue = JobQueue()
    for each in jobs:
        queue.put(each)
    taken = [queue.take() for _ in jobs]
    assert taken == [jobs[i] for i in (0, 3, 5, 1, 4, 2)]
    assert queue.take() is None


def test_a_job_that_is_tried_again_goes_first() -> None:
    queue = JobQueue()
    first, second = job("a"), job("b")
    queue.put(first)
    queue.put_again(second)
    assert list(queue) == [second, first]
    assert queue.take() is second


def test_a_job_that_does_not_fit_waits_and_its_owner_keeps_its_turn() -> None:
    queue = JobQueue()
    jobs = [job("a", 0), job("a", 1), job("b", 1)]
    for each in jobs:
        queue.put(each)
    assert queue.take(lambda each: each.work.rank == 1) is jobs[1]
    assert queue.take(lambda each: each.work.rank == 1) is jobs[2]
    assert queue.take(lambda each: each.work.rank == 1) is None
    assert queue.take() is jobs[0]


def test_a_job_can_be_removed_once() -> None:
    queue = JobQueue()
    first, second = job("a"), job("b")
    queue.put(first)
    queue.put_again(second)
    assert queue.remove(first) and not queue.remove(first)
    assert queue.remove(second)
    assert queue.take() is None
