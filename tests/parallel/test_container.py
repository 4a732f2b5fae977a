import errno
import os
from pathlib import Path

import pytest

from latentloom.parallel.machine.now import Container, num_cores, num_memory_kills, read_container
from latentloom.parallel.pool.server_process import how_it_ended
from latentloom.parallel.ranks.shortage import MemoryKills, advice


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def test_limits_of_version_2_are_the_tightest_of_all_groups_around(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/service/job",
            "sys/fs/cgroup/service/job/memory.max": "max",
            "sys/fs/cgroup/service/job/cpu.max": "400000 100000",
            "sys/fs/cgroup/service/memory.max": "8589934592",
            "sys/fs/cgroup/memory.max": "17179869184",
            "sys/fs/cgroup/service/cpu.max": "150000 100000",
            "sys/fs/cgroup/service/pids.max": "100",
            "sys/fs/cgroup/service/pids.current": "30",
        },
    )
    assert read_container(root) == Container(memory_bytes=8 << 30, num_cpus=1.5, num_processes_left=70)


def test_limits_of_version_1_are_read_where_only_the_outermost_group_is_seen(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
        },
    )
    assert read_container(root) == Container(memory_bytes=1 << 30, num_cpus=2.0)


@pytest.mark.parametrize("limit", ["9223372036854771712", "max", "-1", "", "many words here"])
def test_no_limit_is_none(limit: str, tmp_path: Path) -> None:
    names = ("memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us")
    root = write(tmp_path, {"proc/self/cgroup": "0::/", **{f"sys/fs/cgroup/{name}": limit for name in names}})
    assert read_container(root) == read_container(tmp_path / "absent") == Container()


def test_this_process_has_cores_and_its_limits_can_be_read() -> None:
    assert num_cores() >= 1
    assert read_container().num_processes_left != 0


VERSION_2 = {
    "proc/self/cgroup": "0::/job",
    "sys/fs/cgroup/job/memory.events": "low 0\nmax 7\noom 1\noom_kill 0",
    "sys/fs/cgroup/job/memory.max": str(450 << 20),
    "sys/fs/cgroup/job/memory.peak": str(448 << 20),
}
VERSION_1 = {
    "proc/self/cgroup": "4:memory:/job",
    "sys/fs/cgroup/memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": str(450 << 20),
    "sys/fs/cgroup/memory/job/memory.max_usage_in_bytes": str(448 << 20),
}
NO_GROUP = {
    "proc/self/cgroup": "0::/",
    "proc/vmstat": "pgfault 9\noom_kill 0",
    "proc/meminfo": f"MemTotal: {8 << 20} kB\nMemFree: 1 kB\nMemAvailable: {1 << 20} kB",
}
LIMITED = "the limit here is 450 MiB, and 448 MiB were in use; raise it, or use fewer ranks,"
FREE = "of 8192 MiB here 1024 MiB are free without it; end other processes,"
NUMBERS = [(VERSION_2, LIMITED), (VERSION_1, LIMITED), (NO_GROUP, FREE)]


@pytest.mark.parametrize(("files", "words"), NUMBERS, ids=["version 2", "version 1", "no group"])
def test_an_end_for_want_of_memory_is_told_with_the_numbers(files: dict[str, str], words: str, tmp_path: Path) -> None:
    kills = MemoryKills(write(tmp_path, files))
    assert kills.reason() == ""
    write(tmp_path, {name: text.replace("oom_kill 0", "oom_kill 2") for name, text in files.items()})
    told = [how_it_ended(-9, log=tmp_path / "log", starved=kills.reason()) for _ in range(2)]
    assert told[0] == told[1] and told[0].startswith(f"was ended by the system for want of memory ({words}")


@pytest.mark.parametrize(
    ("code", "starved", "words"),
    [
        (-9, "", "was killed (SIGKILL), not by the kernel for want of memory"),
        (-9, None, "was killed (SIGKILL), as the system does when memory runs out"),
        (-11, "of 8192 MiB", "was ended by signal 11 (Segmentation fault): it said nothing"),
        (None, "", "was killed, or ended: it said nothing"),
    ],
)
def test_other_ends_are_not_blamed_on_memory(code: int, starved: str | None, words: str, tmp_path: Path) -> None:
    assert how_it_ended(code, log=tmp_path / "log", starved=starved) == words


def test_where_nobody_counts_ends_for_want_of_memory_nothing_is_known(tmp_path: Path) -> None:
    assert num_memory_kills(tmp_path) is None and MemoryKills(tmp_path).reason() is None


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.EMFILE, "close other files, or raise the limit (ulimit -n)"),
        (errno.ENOSPC, "free some space in the folder for temporary files, or name another (TMPDIR)"),
        (errno.EAGAIN, "end other processes, or free memory"),
        (errno.EIO, "see `latentloom doctor`"),
    ],
)
def test_what_the_system_lacks_is_told_with_what_to_do(number: int, cure: str) -> None:
    assert advice(OSError(number, os.strerror(number))) == f"{os.strerror(number)}; {cure}"
