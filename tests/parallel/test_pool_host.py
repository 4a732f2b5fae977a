"""What a whole host process does to its pool, and its machine to both; each host is a process of its own."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from latentloom.parallel.pool.folder import PREFIX, PoolFolder
from support.pool_processes import alive_with, be, wait_until
from support.ranks import started

TESTS = Path(__file__).resolve().parent.parent
BEGIN = """
import errno, os, signal, sys, time
from pathlib import Path
sys.path.insert(0, os.environ["TESTS"])
import support.checkout, torch
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
pool = Pool(["cpu", "cpu"], preload=["bodies.pool"], spare_ranks="SPARE" in os.environ)
def works(size=9):
    pool.call("bodies.pool:total", {"tensor": torch.ones(size), "steps": 2}, num_ranks=2)
def told(call):
    try:
        call()
    except Exception as error:
        print(str(error).splitlines()[0], flush=True)
def kill(number):
    os.kill(pool.states()[number].pid, signal.SIGKILL)
works()
"""
UNSHARE = ["unshare", "--mount"]


def command(program: str) -> list[str]:
    return [sys.executable, "-c", BEGIN + program]


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "TESTS": str(TESTS), "PYTHONPATH": path, "TMPDIR": str(folder)}


def host(program: str, folder: Path, *, before: Sequence[str] = ()) -> list[str]:
    """The lines that a host prints which runs this with a pool; it must end well."""
    arguments = [*before, *command(program)]
    done = subprocess.run(arguments, env=environment(folder), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextlib.contextmanager
def forked(program: str, folder: Path, **more: str) -> Iterator[tuple[int, Connection]]:
    """A host that needs no import of torch: its pid, and what it says; it is gone at the end."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = started(be, BEGIN + program, {**environment(folder), **more}, theirs)
    theirs.close()
    with ours:
        try:
            yield process.pid, ours
        finally:
            process.kill()
            process.join()


def alone_may_mount() -> bool:
    """Whether this user can have mounts that nobody else sees."""
    try:
        return not subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode
    except OSError:
        return False


def test_a_killed_host_leaves_no_process_and_the_next_start_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
spare = pool._supervisor._crew.spares.ranks[0]
while not spare.is_ready:
    time.sleep(0.01)
say(spare.pid, *(state.pid for state in pool.states()))
pool.call("bodies.pool:total", {"tensor": torch.ones(9), "steps": 10_000, "pause_s": 0.01}, num_ranks=2)
"""
    with forked(program, tmp_path, SPARE="") as (_, told):
        pids = told.recv()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.01)
    assert len(pids) == 3 and not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert [each for each in tmp_path.iterdir() if each.name.startswith(PREFIX)]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    PoolFolder().remove()
    assert not [each for each in tmp_path.iterdir() if PREFIX in each.name]


@pytest.mark.parametrize(
    ("num_losses", "stopped", "killed"),
    [
        (0, "", "spare server host"),
        (1, "server spare", "host"),
        pytest.param(0, "server spare", "host", marks=pytest.mark.by_hand),
        pytest.param(1, "server", "host", marks=pytest.mark.by_hand),
    ],
)
def test_no_process_is_left_when_host_server_and_spare_are_killed_or_stopped(
    tmp_path: Path, num_losses: int, stopped: str, killed: str
) -> None:
    """With a loss before, the server is the spare of another, and so not the host's child."""
    program = f"""
from support.pool_processes import server_of, spare_of, wait_until
for _ in range({num_losses}):
    server, spare = server_of(pool), spare_of(pool)
    os.kill(server, 9)
    wait_until(lambda: server_of(pool) == spare)
say(server_of(pool), spare_of(pool))
pool.call("bodies.pool:total", {{"tensor": torch.ones(9), "steps": 10_000, "pause_s": 0.01}}, num_ranks=2)
"""
    with forked(program, tmp_path) as (pid, told):
        server, spare = told.recv()
        pids = {"host": pid, "server": server, "spare": spare}
        assert len(alive_with(str(tmp_path))) == 4, "beside the host, which has another's environment"
        for name in stopped.split():
            os.kill(pids[name], signal.SIGSTOP)
        for name in killed.split():
            os.kill(pids[name], signal.SIGKILL)
    wait_until(lambda: not alive_with(str(tmp_path)))


def test_a_folder_whose_host_lives_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = PoolFolder()
    second = PoolFolder()
    assert first.path.exists() and second.path.exists()
    first.remove()
    second.remove()
    assert not list(tmp_path.iterdir())


def test_a_process_that_the_host_forks_and_too_many_open_files_do_not_end_its_pool(tmp_path: Path) -> None:
    """Too many are one sentence each time."""
    program = """
before = [state.pid for state in pool.states()]
if not os.fork():
    sys.exit()
os.wait()
works()
print(before == [state.pid for state in pool.states()] and pool.folder.exists())
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
used = max(map(int, os.listdir("/proc/self/fd")))
for room in (0, 1, 2):
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + room, hard))
    told(works)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    works()
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
kill(1)
time.sleep(1)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
works()
print("alive")
"""
    forked, *lines, last = host(program, tmp_path)
    assert forked == "True"
    assert last == "alive" and lines
    assert all("oo many open files" in line for line in lines), lines


@pytest.mark.skipif(not alone_may_mount(), reason="mounting a small folder needs root")
def test_a_full_folder_for_temporary_files_is_one_sentence_and_tiny_shared_memory_has_no_effect(tmp_path: Path) -> None:
    program = """
full = pool.folder / "full"
with full.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError as error:
        assert error.errno == errno.ENOSPC
kill(1)
time.sleep(1)
told(works)
full.unlink()
works()
works(1 << 20)
print("alive")
"""
    small = 'mount -t tmpfs -o size=256k tmpfs "$0" && mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"'
    *lines, last = host(program, tmp_path, before=[*UNSHARE, "sh", "-c", small, str(tmp_path)])
    assert last == "alive"
    assert all("no space left" in line.lower() for line in lines), lines
