"""One run of the README's first workflow: what is prepared, settled, forecast and read, and how often."""

from typing import Any

import pytest

from bench.one_run import one_run

ONCE = {
    "nodes/graph/ready.py:ready": 1,
    "nodes/graph/unfolding/unfold.py:unfold": 1,
    "nodes/graph/resolve.py:upgrade": 1,
    "nodes/graph/ready.py:effective": 1,
    "nodes/execution/schedule.py:schedule": 1,
    "nodes/preview/preview.py:planned": 1,
    "pipelines/settling.py:settled": 3,  # text, denoise, decode
    "pipelines/forecast/forecast.py:forecast": 1,
}
READ = "pipelines/models/folder.py:_read_named"  # the file of the model's index


@pytest.fixture(scope="module", params=["", "cpu*2"])
def counted(request: pytest.FixtureRequest) -> dict[str, Any]:
    for _ in range(3):  # another test that links the model's files meanwhile changes their times: they are read anew
        found = one_run(devices=request.param, names=[*ONCE, READ])
        if found["named"][READ] <= 2:
            break
    return {**found, "devices": request.param}


def test_one_run_prepares_settles_forecasts_and_reads_once(counted: dict[str, Any]) -> None:
    assert {name: counted["named"][name] for name in ONCE} == ONCE
    assert 1 <= counted["named"][READ] <= 2  # once, as it stayed as it was, but for two threads that ask at one moment


def test_one_run_goes_through_no_more_of_the_house(counted: dict[str, Any]) -> None:
    assert counted["files"] <= 120 and counted["functions"] <= (800 if counted["devices"] == "" else 850)
