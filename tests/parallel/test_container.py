from pathlib import Path

import pytest

from latentloom.parallel.container import Container, num_cores, read_container


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
