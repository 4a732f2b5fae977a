import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from latentloom.parallel.errors import Cancelled, RankFailed
from latentloom.parallel.pool.attempt import JobRun
from latentloom.parallel.pool.job import End, Job, Work
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.pool.rank_process import RankProcess
from latentloom.parallel.pool.trial import Deadline
from latentloom.parallel.progress import Progress
from latentloom.parallel.ranks.messages import NAMES, OfJob, Phase, Preview, StepDone, ToRank
from latentloom.parallel.ranks.seat import World
from support.ports import free_port

LIMITS = Limits(abort_s=1, leave_s=10, step_s=120, work_s=900)


class Noted(RankProcess):
    """A rank without a process, and what was done to it."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "cpu", num_threads=1, folder=Path())
        self.done: list[str] = []

    def send(self, message: ToRank, fds: Sequence[int] = ()) -> None:
        self.done.append(NAMES[type(message)])

    def kill(self, why: str) -> None:
        self.done.append(why)


def running(num_ranks: int = 2) -> tuple[JobRun, list[Noted]]:
    ranks = [Noted(number) for number in range(num_ranks)]
    return JobRun(
        Job(Work(function="", num_ranks=num_ranks), os.open(os.devnull, os.O_RDONLY)), [*ranks], LIMITS
    ), ranks


def hear(run: JobRun, message: OfJob) -> None:
    for rank in run.ranks:
        run.hear(rank, message, None)


def test_a_picture_that_cannot_be_read_ends_nothing() -> None:
    run, ranks = running()
    body = os.memfd_create("odd")
    os.write(body, b"no picture")
    run.hear(ranks[0], Preview(1), body)
    assert run.job.told.empty() and not run.ends
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(body)


def test_ranks_that_do_not_heed_a_cancel_are_ended() -> None:
    run, (first, second) = running()
    run.cancel()
    now = time.monotonic()
    run.check_time(now + 9)
    assert first.done == ["cancel"]
    run.check_time(now + 11)
    assert first.done == ["cancel", "abort"]
    run.check_time(now + 13)
    assert first.done == second.done == ["cancel", "abort", "did not stop when its job was cancelled"]


def test_a_cancel_waits_for_three_steps_where_their_length_is_known() -> None:
    run, (first, _) = running()
    run.longest_step_s = 20.0
    run.cancel()
    now = time.monotonic()
    run.check_time(now + 60)
    assert first.done == ["cancel"]
    run.check_time(now + 62)
    assert first.done == ["cancel", "abort"]


@pytest.mark.parametrize("text", ["loading transformer", "charge le transformer", ""])
@pytest.mark.parametrize(("is_loading", "done"), [(True, ["cancel"]), (False, ["cancel", "abort"])])
def test_a_cancel_waits_for_what_is_loaded_whatever_its_text(text: str, is_loading: bool, done: list[str]) -> None:
    run, (first, _) = running()
    hear(run, Phase(job=1, text=text, is_loading=is_loading))
    run.cancel()
    run.check_time(time.monotonic() + 60)
    assert first.done == done


@pytest.mark.parametrize(("longest_s", "wait_s"), [(0.0, 10.0), (3.0, 4.0)])
def test_survivors_have_time_to_leave_a_job(longest_s: float, wait_s: float) -> None:
    run, (first, second) = running()
    run.longest_step_s = longest_s
    run.lose(second, "was killed")
    now = time.monotonic() + 1
    run.check_time(now)
    run.check_time(now + wait_s - 0.1)
    assert first.done == ["abort"]
    run.check_time(now + wait_s + 0.1)
    assert len(first.done) == 2


def test_a_step_has_five_times_the_longest_so_far_and_never_less_than_one_that_may_compile() -> None:
    assert [Limits(step_s=120.0).step_deadline(longest_s) for longest_s in (0.1, 24.0, 60.0)] == [120.0, 120.0, 300.0]


def test_ranks_that_were_told_to_leave_are_in_no_group_though_all_have_done_their_part() -> None:
    """A cancel that comes while the first rank decodes alone, for longer than it is waited for."""
    run, (first, second) = running()
    done = End("done", is_whole=True)
    run._end(1, done)
    run.cancel()
    run.check_time(time.monotonic() + 11)
    assert first.done == ["cancel", "abort"] and not second.done
    run._end(0, done)
    assert run.is_over and not run.leaves_world_whole


def test_a_phase_between_steps_may_take_as_long_as_one_before_them() -> None:
    run, (first, _) = running()
    for done in (1, 2):
        hear(run, StepDone(job=1, done=done, total=9))
    hear(run, Phase(job=1, text="compiling", is_loading=False))
    now = time.monotonic()
    run.check_time(now + 800)
    assert not first.done
    run.check_time(now + 1000)
    assert first.done == ["abort"]


def test_a_deadline_ends_ranks_whatever_they_do() -> None:
    with Pool(["cpu"]) as own, pytest.raises(RankFailed, match="too late"):
        progress = Deadline(0.1, close=own.close, words="too late")
        own.call("time:sleep", {}, progress)
    assert own.is_closed


def test_a_cancel_while_other_machines_are_waited_for_takes_effect_at_once(pool: Pool) -> None:
    class Impatient(Progress):
        end = time.monotonic() + 1

        def check(self) -> None:
            if time.monotonic() > self.end:
                raise Cancelled

    world = World(name="wide", store=f"127.0.0.1:{free_port()}", size=2)
    with pytest.raises(Cancelled):
        pool.call("bodies.pool:echo", {}, Impatient(), world=world)
    start = time.monotonic()
    assert len(pool.call_every("bodies.pool:remember", {}, num_ranks=3)) == 3
    assert time.monotonic() - start < 30
