"""The short form of tests/bench/drills.py."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.pool.limits import Limits

BENCH = str(Path(__file__).resolve().parent.parent / "bench")
SMALL = {"steps": 4, "size": 64}
CPUS = ("cpu", "cpu")


@pytest.fixture(scope="module")
def drills() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        patch.setenv("PYTHONPATH", BENCH)
        import drills

        yield drills
        for name in ("drills", "drill_work", "drill_host", "drill_server", "drill_memory", "drill_bodies"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def work(drills: Any, warm_pools: None) -> Iterator[Any]:
    from drill_work import Work

    with Work(CPUS, **SMALL, limits=Limits(silence_s=6)) as work:
        yield work


def test_a_rank_killed_in_each_moment_costs_no_picture(drills: Any, work: Any) -> None:
    rows = drills.kill(work, 5)
    assert [row["moment"] for row in rows] == list(drills.MOMENTS)
    assert all(row["equal"] for row in rows), drills.table(rows, "kill")


@pytest.mark.by_hand
def test_a_fork_server_killed_in_each_moment_costs_no_picture_and_no_import(drills: Any, work: Any) -> None:
    rows = drills.server(work, 5, seed=3)
    assert [row["moment"] for row in rows] == list(drills.MOMENTS)
    assert all(row["equal"] for row in rows), drills.table(rows, "server")


@pytest.mark.parametrize(("drill", "times"), [("spare", 1), ("stop", 1), ("cancel", 2), ("oom", 2)])
def test_what_stops_a_rank_costs_no_picture(drills: Any, work: Any, drill: str, times: int) -> None:
    rows = getattr(drills, drill)(work, times)
    assert all(row["equal"] for row in rows), drills.table(rows, drill)


@pytest.mark.parametrize("drill", ["host", pytest.param("all_at_once", marks=pytest.mark.by_hand)])
def test_a_killed_host_leaves_nothing(drills: Any, drill: str) -> None:
    (row,) = getattr(drills, drill)(1, devices=CPUS, **SMALL)
    assert row["left"] == []


def test_a_drill_that_can_have_no_control_group_leaves_none_and_is_skipped(
    drills: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import drill_memory

    def refuse(path: Path, text: str) -> int:
        raise PermissionError(13, "Permission denied")

    groups = tmp_path / "groups"
    groups.mkdir()
    (tmp_path / "own").write_text("0::/")
    monkeypatch.setattr(drill_memory, "OWN", tmp_path / "own")
    monkeypatch.setattr(drill_memory, "GROUPS", groups)
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(drill_memory.NoGroup), drill_memory._group(1):
        pass
    assert not list(groups.iterdir())
    monkeypatch.setattr(drills, "DRILLS", {})
    monkeypatch.setattr(drills, "HOSTS", {"memory": drills.HOSTS["memory"]})
    monkeypatch.setattr(drills, "machine", str)
    monkeypatch.setattr(sys, "argv", ["drills.py", "every", "--times", "1"])
    assert drills.main() == 0
    assert "memory: skipped (no control group can be made here" in capsys.readouterr().out
