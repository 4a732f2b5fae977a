"""The processes that a pool is made of, one by one."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from latentloom.parallel.errors import Closed
from latentloom.parallel.machine.now import Container, num_free_cores
from latentloom.parallel.pool import folder as pool_folder
from latentloom.parallel.pool import server_process, spare
from latentloom.parallel.pool.folder import PoolFolder, keep_logs
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.processes import Crew
from latentloom.parallel.pool.rank_process import RankProcess
from latentloom.parallel.pool.server_process import LOG_BYTES, START, shorten
from latentloom.parallel.ranks import fork_server, rank
from latentloom.parallel.ranks.channel import write_body
from latentloom.parallel.ranks.messages import FROM_RANK, FROM_SERVER, TO_RANK, TO_SERVER, Fork, RunJob
from latentloom.parallel.ranks.rank_job import RankJob


def test_each_lane_of_a_rank_takes_its_threads_and_its_device_and_works_on_a_stream_of_its_own(
    ends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[str, list[Any]] = {f"lane {name}": [] for name in rank.LANES}

    def take(what: Any) -> None:
        taken[threading.current_thread().name].append(what)

    @contextlib.contextmanager
    def on(stream: tuple[str, int]) -> Iterator[None]:
        take(stream)
        yield

    monkeypatch.setattr(torch, "set_num_threads", take)  # OpenMP has a count for each thread
    monkeypatch.setattr(torch.cuda, "set_device", take)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device, *, priority: (device, priority))
    monkeypatch.setattr(torch.cuda, "stream", on)
    mine, _ = ends(TO_RANK)
    started = rank.Rank(mine, Fork(rank=0, birth=1, device="cuda:3", num_threads=1, ping_s=1.0))
    worked = [threading.Event() for _ in rank.LANES]
    for orders, event in zip(started.lanes.values(), worked, strict=True):
        orders.put(lambda event=event: (take("work"), event.set())[1])
    assert all(event.wait(10) for event in worked)
    assert taken["lane main"] == [1, "cuda:3", ("cuda:3", -1), "work"]
    assert taken["lane side"] == [1, "cuda:3", ("cuda:3", 0), "work"]  # behind the steps: the lowest number is first


def test_a_lane_that_nobody_hears_leaves_the_end_of_the_process_to_the_first_thread(
    ends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which waits until the host is dead, and wakes a server that is stopped."""
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    mine, theirs = ends(TO_RANK)
    theirs.close()
    alone = rank.Rank(mine, Fork(rank=0, birth=1, device="cpu", num_threads=1, ping_s=1.0))
    job = RankJob(run_of(".parallel.pool.measuring:meet"), mine)
    alone.jobs[1] = job
    alone._run(job, [write_body({})])
    assert not ended and not alone.jobs


def test_a_rank_is_told_its_interface_before_it_makes_a_group(tmp_path: Path) -> None:
    orders: list[Fork] = []
    server: Any = SimpleNamespace(fork=lambda order, log: orders.append(order))
    RankProcess(0, "cpu", num_threads=1, folder=tmp_path, interface="eth7").start(server, ping_s=1.0)
    assert [order.interface for order in orders] == ["eth7"]


def test_a_function_that_is_not_there_keeps_no_request(ends: Any) -> None:
    mine, _ = ends(TO_RANK)
    alone = rank.Rank(mine, Fork(rank=0, birth=1, device="cpu", num_threads=1, ping_s=1.0))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        job = RankJob(run_of(".parallel.nowhere:meet"), mine)
        alone.jobs[1] = job
        alone._run(job, [write_body({})])
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def run_of(function: str) -> RunJob:
    return RunJob(job=1, function=function, lane="main", rank=0, num_ranks=1, previews=False, answers=True)


def server_in(root: Path, code: str) -> Path:
    """A package with nothing but this fork server."""
    folder = root / "parallel" / "ranks"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent, root):
        (each / "__init__.py").write_text(f"name = {root.name!r}\n")
    (folder / "fork_server.py").write_text(code)
    return root


def started(package: str, root: Path, *given: Any, path: str = "") -> str:
    order = json.dumps([package, str(root), ".parallel.ranks.fork_server:main", *given])
    command, env = [sys.executable, "-P", "-c", START, order], {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=60).stdout


def test_the_fork_server_is_the_hosts_own_copy(tmp_path: Path) -> None:
    own, _ = (server_in(tmp_path / name, f"main = lambda *_: print({name!r})") for name in ("own", "other/loom"))
    assert started("loom", own, 0, 0, [], 0, path=str(tmp_path / "other")) == "own\n"


def test_a_package_that_a_new_process_would_not_find_is_loaded_whole(tmp_path: Path) -> None:
    root = server_in(tmp_path / "custom-nodes", "from ... import name\ndef main(*given):\n    print(name, *given)\n")
    assert started("loom_of_another_name", root, 3, 4, ["x"], 2) == "custom-nodes 3 4 ['x'] 2\n"


def test_a_spare_that_cannot_be_had_is_tried_at_growing_pauses_and_the_reason_told(
    ends: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now, asked = [100.0], list[float]()
    monkeypatch.setattr(spare.time, "monotonic", lambda: now[0])
    waiting = spare.Spare(listen=lambda *_: None, ignore=lambda _: None)

    class Full(server_process.ServerProcess):
        def spare(self) -> server_process.ServerProcess:
            asked.append(now[0])
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    mine, _ = ends(FROM_SERVER)
    server = Full(mine)
    for _ in range(1500):
        waiting.keep(server)
        now[0] += 0.125
    assert [each - 100 for each in asked] == [0, 0.25, 1.125, 4.375, 17.25, 68.5, 128.5]
    assert "cannot be had: Too many open files; close other files" in caplog.text


def test_a_spare_whose_end_was_heard_is_not_refused_once_more(ends: Any, caplog: pytest.LogCaptureFixture) -> None:
    waiting = spare.Spare(listen=lambda *_: None, ignore=lambda _: None)
    mine, theirs = ends(FROM_SERVER)
    waiting._process = server_process.ServerProcess(mine)
    theirs.close()
    waiting._read()
    waiting.refuse("no room")
    assert waiting._num_losses == 1
    assert "has ended" in caplog.text and "no room" not in caplog.text


READY = json.dumps({"kind": "server_ready", "pid": os.getpid(), "culprit": ""}).encode()
HELLO = b'{"kind": "hello", "gpu": "", "uuid": "", "memory_bytes": 0}'


@pytest.mark.parametrize(
    ("data", "is_understood"),
    # one in office that is ready, but the host had no descriptor left to take its pidfd with, gives way to another
    [(READY, True), (HELLO, False), (b'{"kind": "server_ready"}', False), (b"what?", False)],
    ids=["ready", "of a rank", "cut", "no JSON"],
)
def test_a_fork_server_that_is_not_understood_or_could_not_be_ended_is_let_go(
    ends: Any, data: bytes, is_understood: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine, theirs = ends(FROM_SERVER)
    crew = Crew([], folder=tmp_path, preload=(), limits=Limits())
    with crew.selector as selector:
        crew._take(server_process.ServerProcess(mine))
        theirs.send(data)
        crew._on_server()
        assert crew._server is None and mine.fileno() == -1 and not selector.get_map()
    assert ("the fork server is not understood, and ended: " in caplog.text) is not is_understood


def test_a_rank_that_is_not_understood_is_ended(ends: Any, tmp_path: Path) -> None:
    class Watched(RankProcess):
        def kill(self, why: str) -> None:
            self.why_killed = why

    mine, theirs = ends(FROM_RANK)
    mine.socket.setblocking(False)
    watched = Watched(0, "cpu", num_threads=1, folder=tmp_path)
    watched.channel = mine
    crew = Crew([watched], folder=tmp_path, preload=(), limits=Limits())
    crew.listener = Deaf()
    with crew.selector:
        theirs.send(HELLO)
        theirs.send(b'{"kind": "dance"}')
        crew._on_rank(watched)
    assert watched.has_begun and watched.why_killed.startswith("is not understood: a message of kind 'dance' is not kn")


class Deaf:
    """A listener whom no rank is told of."""

    def on_message(self, rank: object, message: object) -> None: ...

    def on_loss(self, rank: object, reason: str) -> None: ...

    def on_failure(self, reason: str) -> None: ...


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_whose_birth_cannot_be_told_is_ended(ends: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: (pids.append(fork()), pids[-1])[1])
    monkeypatch.setattr(fork_server.ForkServer, "_become_rank", lambda *_: (time.sleep(60), os._exit(0)))
    mine, theirs = ends(TO_SERVER)
    theirs.close()
    server = fork_server.ForkServer(mine, -1)
    with pytest.raises(Closed):
        server.fork(Fork(rank=0, birth=1, device="cpu", num_threads=1, ping_s=1.0), [0, 1])
    mine.close()
    assert pids and not server.children and not Path(f"/proc/{pids[0]}").exists()


@pytest.mark.parametrize(("visible", "nvml"), [("MIG-8f4b5d3c-0000-0000-0000-000000000000", 8), ("0,1", -1)])
def test_mig_names_or_a_missing_nvml_do_not_make_imports_ask_the_driver(
    visible: str, nvml: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver would not survive the fork; libraries are told how many GPUs the pool has, and later ask again."""
    asked: list[int] = []
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: asked.append(1) or 5, raising=False)
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_raw_device_count_nvml", lambda: nvml)
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: torch.device("cuda"))
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (tmp_path / "asks.py").write_text(
        "import torch\nfound = torch.accelerator.is_available(), torch.cuda.device_count()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    fork_server.import_all(["asks"], num_gpus=2)
    assert sys.modules.pop("asks").found == (True, 2) and not asked
    assert torch.cuda.device_count() == 5 and asked


def test_a_long_log_keeps_its_end(tmp_path: Path) -> None:
    log = tmp_path / "rank0.log"
    log.write_bytes(b"\n" * LOG_BYTES + b"the end\n")
    shorten(log)
    assert log.stat().st_size == LOG_BYTES and server_process.last_line(log).endswith("the end")


def test_logs_of_a_failure_are_kept_for_some_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_folder.tempfile, "tempdir", str(tmp_path))
    folder = PoolFolder()
    for name in ("rank0.log", "group0-1"):
        (folder.path / name).touch()
    keep_logs(folder.path)
    folder.remove()
    PoolFolder().remove()
    assert {each.name for each in folder.path.iterdir()} == {"rank0.log", "failed"}
    os.utime(folder.path / "failed", (0, 0))
    PoolFolder().remove()
    assert not folder.path.exists()


@pytest.mark.parametrize(("num_cpus", "cores"), [(None, 8), (2.5, 2), (0.5, 1), (64.0, 8)])
def test_threads_are_as_many_as_the_container_allows(
    monkeypatch: pytest.MonkeyPatch, num_cpus: float | None, cores: int
) -> None:
    monkeypatch.setattr("latentloom.parallel.machine.now.num_cores", lambda: 8)
    monkeypatch.setattr("latentloom.parallel.machine.now.read_container", lambda: Container(num_cpus=num_cpus))
    assert num_free_cores() == cores
