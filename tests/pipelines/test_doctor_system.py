import os
import shutil
import socket
import sys
import tempfile
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.machine.now import Container
from latentloom.pipelines.doctor import system
from latentloom.pipelines.doctor.system import system_checks

Usage = namedtuple("Usage", "total used free")


def test_a_small_shared_memory_matters_to_several_gpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(64 << 20, 0, 64 << 20))
    monkeypatch.setattr(sys, "platform", "linux")
    for num_gpus, state in ((0, "ok"), (1, "ok"), (2, "problem")):
        (finding,) = system_checks(cache_dir=None, data_dir=None, num_gpus=num_gpus)["shared memory"]()
        assert finding.state == state
        assert "64 MiB of 64 MiB free" in finding.says
    assert "--shm-size" in finding.mend and "--ipc=host" in finding.mend


@pytest.mark.parametrize(("free", "state"), [(2 << 30, "ok"), (512 << 20, "warning"), (1 << 20, "problem")])
def test_a_full_disk_is_told(free: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(4 << 30, 0, free))
    checks = system_checks(cache_dir=tmp_path, data_dir=None, num_gpus=0)
    assert checks["temporary folder"]()[0].state == state
    # without a cache everything still works
    assert checks["cache folder"]()[0].state == ("warning" if state == "problem" else state)


def test_a_folder_that_takes_no_files_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    (finding,) = system_checks(cache_dir=tmp_path, data_dir=None, num_gpus=0)["cache folder"]()
    assert finding.state == "warning" and "cannot be written to (No space left on device)" in finding.says
    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    (finding,) = system_checks(cache_dir=None, data_dir=None, num_gpus=0)["temporary folder"]()
    assert finding.state == "problem" and "TMPDIR" in finding.mend


@pytest.mark.parametrize(
    ("check", "container", "state", "cure"),
    [
        ("_processor", Container(num_cpus=1.5), "warning", "OMP_NUM_THREADS=1"),
        ("_processor", Container(num_cpus=64.0), "ok", ""),
        ("_memory", Container(memory_bytes=512 << 20), "problem", "docker run --memory"),
        ("_processes", Container(num_processes_left=100), "warning", "--pids-limit"),
        ("_processes", Container(num_processes_left=20), "problem", "--pids-limit"),
    ],
)
def test_what_a_container_withholds_is_told(
    check: str, container: Container, state: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "num_cores", lambda: 8)
    (finding,) = getattr(system, check)(container)
    assert finding.state == state
    assert cure in finding.mend


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize(("soft", "state"), [(65536, "ok"), (512, "warning"), (64, "problem")])
def test_few_open_files_are_told(soft: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, soft))
    (finding,) = system_checks(cache_dir=None, data_dir=None, num_gpus=0)["open files"]()
    assert finding.state == state
    assert ("ulimit -n" in finding.mend) == (state != "ok")


@pytest.mark.skipif(sys.platform != "linux", reason="what ranks need of Linux")
def test_what_ranks_need_and_the_system_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    monkeypatch.setattr(socket, "create_server", refuse)
    checks = system_checks(cache_dir=None, data_dir=None, num_gpus=0)
    for name, cure in (("memory files", "Linux 5.3"), ("loopback", "ip link set lo up")):
        (finding,) = checks[name]()
        assert finding.state == "problem" and cure in finding.mend
        assert "Operation not permitted; several devices cannot work together" in finding.says


def test_on_other_systems_ranks_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    checks = system_checks(cache_dir=None, data_dir=None, num_gpus=0)
    assert set(checks) == {"processor", "memory", "temporary folder", "ranks"}
    assert "one device, in process" in checks["ranks"]()[0].says
