"""Threads that wait for each other sleep: in the command's process, in its fork server and in what that forks."""

import json
import os

import pytest

from latentloom.parallel.machine.waiting import ASLEEP, asleep
from support.checkout import TESTS
from support.outside import python

PROGRAM = f"""
import json, os
NAMES = {list(ASLEEP)}
for name in NAMES:  # the tests' own
    os.environ.pop(name, None)
def seen():
    return {{name: os.environ.pop(name, None) for name in NAMES}}
sys.argv = ["latentloom", "nodes", "LoomDenoise"]
from latentloom.__main__ import main
main()
import torch  # and with it an OpenMP library, which prints what it took
host = seen()  # and nothing is left of it for the pool
from latentloom.parallel.pool.pool import Pool
with Pool(["cpu"]) as pool:
    found = pool.call("bodies.pool:environment", {{"names": NAMES}})
print(json.dumps([host, found]))
"""


def test_threads_of_host_and_ranks_sleep_as_they_wait() -> None:
    done = python(PROGRAM, path=TESTS, OMP_DISPLAY_ENV="VERBOSE")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [ASLEEP, ASLEEP]
    assert "GOMP_SPINCOUNT = '0'" in done.stderr


@pytest.mark.parametrize("name", ASLEEP)
def test_who_chose_one_of_them_keeps_all(name: str) -> None:
    assert asleep({name: "7"}) == {}
    assert asleep({}) == ASLEEP


def test_a_process_that_is_not_ours_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from latentloom.__main__ import main

    for name in ASLEEP:
        monkeypatch.delenv(name, raising=False)
    assert main(["nodes", "LoomDenoise"]) == 0
    assert not ASLEEP.keys() & os.environ.keys()
