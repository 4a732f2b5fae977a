"""Jobs on the machines of a cluster: two of Ray's nodes on this one stand for machines."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from latentloom.parallel.errors import Cancelled, RankFailed
from latentloom.parallel.machine.now import num_free_cores
from latentloom.parallel.progress import Progress, RankWork
from latentloom.parallel.ranks.seat import World
from latentloom.pipelines import placement
from latentloom.pipelines.cluster import agent
from latentloom.pipelines.cluster.cluster import Cluster, too_few
from latentloom.pipelines.cluster.head import MISSING, RayHead, connect, leave
from latentloom.pipelines.cluster.job import ClusterJob, MachinePart
from latentloom.pipelines.cluster.machine import MachineLost, RayMachine, answer
from latentloom.pipelines.requests import Decode, Denoise, EncodeText
from latentloom.pipelines.values import Latents, Model, Place
from support.ports import free_port
from support.told import Told

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
pytestmark = pytest.mark.timeout(600)  # agents and ranks import torch and diffusers, each for itself
BODY = "bodies.pool:total"
LATER_S = 10.0  # for what must come
TOKEN = "a" * 32
TESTS = Path(__file__).resolve().parent.parent


class Watcher(Told):
    """Acts at a step, too."""

    def __init__(self, act: Callable[[int], None] = lambda done: None, *, wants_previews: bool = False) -> None:
        super().__init__()
        self.act = act
        self.wants_previews = wants_previews
        self.work: list[Any] = []
        self.cancel = threading.Event()

    def step(self, done: int, total: int, preview: Any = None) -> None:
        super().step(done, total, preview)
        self.act(done)

    def spread(self, plan: str, ranks: Any) -> None:
        self.work.extend(ranks)

    def check(self) -> None:
        if self.cancel.is_set():
            raise Cancelled


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from support.ray_nodes import two_nodes

    with two_nodes() as address:
        yield f"127.0.0.1:{address.rpartition(':')[2]}"  # as a user writes it; Ray tells another one


@pytest.fixture(scope="module")
def cluster(address: str) -> Iterator[Cluster]:
    """Two machines of one device each, as `placement` uses them too."""
    from latentloom.pipelines.cluster.cluster import CLUSTERS

    yield CLUSTERS.of(Place(devices=("cpu",), cluster=address))
    CLUSTERS.close()


@pytest.fixture(scope="module")
def bobbin(cluster: Cluster) -> Callable[..., Model]:
    """`bobbin()` is the built-in model for this process, `bobbin(plan)` the same for the cluster."""
    from dataclasses import replace

    from latentloom.pipelines.models.describe import describe_model

    here = describe_model("builtin:bobbin", device="cpu")
    place = Place(devices=("cpu",), cluster=cluster.address)
    return lambda plan="": replace(here, place=replace(place, plan=plan)) if plan else here


@pytest.fixture
def threads_of_a_rank() -> Iterator[None]:
    """As many threads here as in an agent's only rank: over several steps the order of sums is seen in the picture."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_free_cores())
    yield
    torch.set_num_threads(before)


def picture(model: Model, seed: int, progress: Progress, **request: Any) -> torch.Tensor:
    text = placement.encode_text(EncodeText(model=model, prompt="a red star"), progress)
    canvas = Latents(family=model.family, width=64, height=64)
    request = {"seed": seed, "steps": 3, "guidance": 3.0, **request}
    latents = placement.denoise(Denoise(model=model, conditioning=text, latents=canvas, **request), progress)
    return placement.decode(Decode(model=model, latents=latents), progress).pixels


def job(steps: int, pause_s: float = 0.0) -> dict[str, Any]:
    return {"tensor": torch.arange(4.0), "steps": steps, "pause_s": pause_s}


def pid_of(machine: Any) -> int:
    return json.loads(answer(machine.ask("hello")))["pid"]


@needs_ray
@pytest.mark.usefixtures("threads_of_a_rank")
@pytest.mark.by_hand
def test_a_sweep_over_two_machines_makes_the_pictures_of_one_process(
    bobbin: Callable[..., dict[str, Any]], cluster: Cluster
) -> None:
    watchers = [Watcher(), Watcher()]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda seed: picture(bobbin("auto"), seed, watchers[seed]), (0, 1)))
    for seed in (0, 1):
        assert (found[seed] - picture(bobbin(), seed, Progress())).abs().max() <= 1e-5
        assert watchers[seed].steps == [(1, 3), (2, 3), (3, 3)]
        assert [work.device for work in watchers[seed].work] == ["cpu"] * 3  # text, denoise, decode
    assert all(machine.done for machine in cluster._machines.values())
    names = {machine.name for machine in cluster._machines.values()}
    assert {work.machine for watcher in watchers for work in watcher.work} == names


@needs_ray
@pytest.mark.by_hand
@pytest.mark.usefixtures("threads_of_a_rank")
def test_branches_of_guidance_on_two_machines_make_the_picture_of_one_process(
    bobbin: Callable[..., dict[str, Any]],
) -> None:
    watcher = Watcher()
    found = picture(bobbin("cfg=2"), 4, watcher)
    reference = picture(bobbin(), 4, Progress())
    assert (found - reference).abs().max() <= 1e-5
    assert watcher.steps == [(1, 3), (2, 3), (3, 3)]


@needs_ray
@pytest.mark.parametrize("num_ranks", [1, pytest.param(2, marks=pytest.mark.by_hand)])
def test_a_job_whose_agent_is_killed_ends_with_the_same_bits(cluster: Cluster, num_ranks: int) -> None:
    undisturbed = cluster.call(BODY, job(5), num_ranks=num_ranks)["tensor"]
    busy: list[Any] = []

    def kill(done: int) -> None:
        if done == 2 and not busy:
            busy.extend(machine for machine in cluster._machines.values() if machine.jobs["main"])
            os.kill(pid_of(busy[-1]), signal.SIGKILL)

    watcher = Watcher(kill)
    found = cluster.call(BODY, job(5, 0.1), watcher, num_ranks=num_ranks)["tensor"]
    assert torch.equal(found, undisturbed)
    assert any(phase.startswith(f"starting again: {busy[-1].name}") for phase in watcher.phases)
    assert watcher.steps[-1] == (5, 5)


@needs_ray
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_a_cancelled_job_ends_at_once_and_the_next_one_is_whole(cluster: Cluster, num_ranks: int) -> None:
    times: list[float] = []

    def cancel(done: int) -> None:
        if done == 3:
            times.append(time.monotonic())
            watcher.cancel.set()

    watcher = Watcher(cancel)
    with pytest.raises(Cancelled):
        cluster.call(BODY, job(1000, 0.02), watcher, num_ranks=num_ranks)
    assert time.monotonic() - times[0] < 2.0
    assert torch.equal(cluster.call(BODY, job(3), num_ranks=num_ranks)["tensor"], torch.arange(4.0))


@needs_ray
def test_previews_come_from_the_machine_that_works(cluster: Cluster) -> None:
    watcher = Watcher(wants_previews=True)
    cluster.call(BODY, job(3, 0.1), watcher)
    assert watcher.previews
    assert watcher.previews[0].shape == (2, 2, 3)


@needs_ray
def test_a_refusal_and_a_fault_name_the_machine(cluster: Cluster) -> None:
    fault = {"rank": 0, "kind": "value", "text": "seed is too large"}
    with pytest.raises(ValueError, match=r"^machine .*: seed is too large"):
        cluster.call("bodies.pool:fail", fault)
    with pytest.raises(RankFailed, match=r"^machine .*: rank 0 \(cpu\): broken"):
        cluster.call("bodies.pool:fail", {**fault, "kind": "runtime", "text": "broken"})


@needs_ray
def test_a_job_for_more_machines_than_there_are_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match=r"needs 3 machines .* has 2; add machines"):
        cluster.call(BODY, job(1), num_ranks=3)


@needs_ray
def test_an_address_where_nobody_answers_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:1 .*ray start --head"):
        connect("127.0.0.1:1")


@pytest.fixture
def guarded() -> Iterator[str]:
    """The address of a head that asks for the token `TOKEN`."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a socket's path is short
        port = free_port()
        head = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
        head += [
            "--include-dashboard=false",
            "--num-cpus=1",
            f"--object-store-memory={80 << 20}",
            f"--temp-dir={folder}",
        ]
        with (Path(folder) / "log").open("w+") as log:
            process = subprocess.Popen(head, env=with_token(TOKEN), stdout=log, stderr=log, start_new_session=True)
            try:
                while "Ray runtime started" not in (said := (Path(folder) / "log").read_text()):
                    assert process.poll() is None, said
                    time.sleep(0.2)
                yield f"127.0.0.1:{port}"
            finally:
                for part in psutil.Process(process.pid).children(
                    recursive=True
                ):  # asked to end, Ray takes half a minute
                    part.kill()
                process.wait(timeout=60)  # it ends when they have


def with_token(token: str | None) -> dict[str, str]:
    """The environment with this token; without one Ray is asked to use what it does not find."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"HOME": "/nowhere"}
    env |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
    return env if token is None else {**env, "RAY_AUTH_TOKEN": token}


@needs_ray
def test_a_token_that_is_missing_or_another_one_is_told_apart_from_a_machine_that_has_not_joined(guarded: str) -> None:
    joining = f"from latentloom.pipelines.cluster.head import connect; connect({guarded!r}); print('joined')"

    def end(env: dict[str, str]) -> str:
        done = subprocess.run([sys.executable, "-c", joining], env=env, capture_output=True, text=True, timeout=300)
        return (done.stdout or done.stderr).strip().splitlines()[-1]

    wrong = [{**with_token(None), "RAY_AUTH_MODE": "disabled"}, with_token(None), with_token("b" * 32)]
    with ThreadPoolExecutor() as threads:
        told = list(threads.map(end, wrong))
    said = ["is missing or incorrect. Note: RAY_AUTH_MODE is currently 'disabled' (not 'token')"]
    said += ["but no authentication token was found", "is missing or incorrect"]
    for sentence, why in zip(told, said, strict=True):
        assert sentence.startswith(f"ValueError: cluster {guarded} asks for a token that this process has not (")
        assert f"{why}); set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to what `ray get-auth-token` prints" in sentence
    assert end(with_token(TOKEN)) == "joined"


@needs_ray
def test_a_second_cluster_in_one_process_is_refused(cluster: Cluster) -> None:
    port = cluster.address.rpartition(":")[2]
    with pytest.raises(ValueError, match=rf"with the cluster at [\d.]+:{port} already"):
        connect("127.0.0.1:1")


@needs_ray
@pytest.mark.by_hand
def test_a_lost_head_is_told_and_the_process_ends_at_once_with_its_own_code() -> None:
    from support.ray_nodes import one_node

    program = f"""
import sys, time
sys.path.insert(0, {str(TESTS)!r})
import support.checkout
from latentloom.pipelines.cluster.head import check_head, connect, leave
connect(sys.argv[1])
print("joined", flush=True)
try:
    for _ in range(1000):
        check_head()
        time.sleep(0.05)
except RuntimeError as error:
    print(error)
leave(7)
"""
    with one_node() as (address, head):
        command = [sys.executable, "-c", program, address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "joined\n"
            os.kill(head, signal.SIGKILL)
            told, _ = process.communicate(timeout=60)
    assert process.returncode == 7
    assert told.startswith(f"the cluster's head at {address} is lost (Connection refused)")


def test_a_job_whose_head_is_lost_does_not_wait_for_its_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    head = RayHead("10.0.0.1:6379")
    head.problem = "Connection refused"
    monkeypatch.setattr("latentloom.pipelines.cluster.head._heads", [head])
    machine = Returned()
    job = ClusterJob([MachinePart(machine, {}, b"")])
    with pytest.raises(RankFailed, match=r"head at 10\.0\.0\.1:6379 is lost \(Connection refused\)"):
        job.run(Progress())
    assert "cancel" in machine.asked


def test_what_ray_raises_when_it_is_left_ends_the_process_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def shutdown() -> None:
        raise RuntimeError("the raylet died")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True, shutdown=shutdown))
    monkeypatch.setattr("latentloom.pipelines.cluster.head._heads", [])
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        leave(7)
    assert ended.value.code == 7 and "could not be left (the raylet died)" in caplog.text


def test_a_head_that_is_late_keeps_no_other_job_from_giving_its_machines_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.pipelines.cluster.cluster.connect", lambda address: None)
    monkeypatch.setattr("latentloom.pipelines.cluster.cluster.machines_alive", lambda devices: [])
    cluster, is_asked, may_answer = Cluster("auto", ["cpu"]), threading.Event(), threading.Event()

    def late(devices: object) -> list[Any]:
        is_asked.set()
        assert may_answer.wait(LATER_S)
        return []

    monkeypatch.setattr("latentloom.pipelines.cluster.cluster.machines_alive", late)
    cluster._look_time = -1e9
    with ThreadPoolExecutor(2) as threads:
        looks = threads.submit(cluster._look)
        try:
            assert is_asked.wait(LATER_S)
            threads.submit(lambda: (cluster._release([], "main"), cluster._look())).result(LATER_S)
            assert not looks.done()
        finally:
            may_answer.set()
        looks.result(LATER_S)


def test_a_head_that_takes_no_connection_says_why() -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)):
        assert RayHead(address)._knock() == ""
    assert RayHead(address)._knock() == "Connection refused"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'latentloom\[ray\]'"):
        connect("auto")
    assert "--cluster" in MISSING


class Returned(RayMachine):
    """An agent that Ray has started again, without what it needs: it answers everything with one sentence."""

    def __init__(self) -> None:
        self.name, self.is_ready, self.done = "machine 10.0.0.7", True, {"a stage"}
        self.asked: list[str] = []

    def ask(self, method: str, *args: Any) -> Any:
        self.asked.append(method)
        return "latentloom is not installed there"


def test_a_job_on_an_agent_that_came_back_broken_loses_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.pipelines.cluster.machine.answer", lambda reference, **options: reference)
    part = MachinePart(Returned(), {}, b"")
    with pytest.raises(MachineLost, match=r"cannot work: latentloom is not installed there") as lost:
        part.hear(part.references)
    assert lost.value.machine is part.machine and not part.machine.is_ready


def test_an_agent_s_ranks_meet_by_the_interface_that_other_machines_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    started: list[str] = []
    pool = SimpleNamespace(call=lambda function, request, progress, *, world, **_: world)
    monkeypatch.setattr(agent, "Pool", lambda devices, *, interface, **_: started.append(interface) or pool)
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"eth7": [SimpleNamespace(address="10.1.2.3")]})
    joined = agent.Agent(["cpu"], 1, [], "10.1.2.3")
    alone = agent.Agent(["cpu"], 1, [], "10.9.9.9")
    assert started == ["eth7", "lo"]
    world = {"name": "w", "store": "10.1.2.3:5", "size": 2, "first": 0}
    order = {"world": world, "function": BODY, "num_ranks": 2, "lane": "main", "rank": 0}
    assert joined._work(order, {}, Progress()) == World(**world)
    with pytest.raises(ValueError, match=r"no network interface has the address 10\.9\.9\.9"):
        alone._work(order, {}, Progress())


def ending(name: str, told: list[Any], end: dict[str, Any]) -> Any:
    """A part of a job that tells this, and has ended so then."""
    part = SimpleNamespace(machine=Returned(), end=None, references=[], cancel=lambda: None)
    part.machine.name = name
    part.hear = lambda arrived: vars(part).update(end=end) or told
    return part


def test_parts_of_a_job_have_one_result_and_say_together_how_it_was_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.pipelines.cluster.job.ready", lambda references, **_: references)
    work = [["spread", "ring=2", [asdict(RankWork(rank=rank, device="cuda:0", seconds=1.0))]] for rank in (1, 0)]
    done, watcher = {"state": "done", "mark": "a", "answer": 7}, Watcher()
    told = [["phase", "denoising", False], ["step", 1, 4, None], ["step", 2, 4, "a picture"], work[0]]
    parts = [ending("one", told, done), ending("two", [["step", 3, 4, None], work[1]], done)]
    assert ClusterJob(parts).run(watcher) == 7
    assert (watcher.phases, watcher.steps, watcher.previews) == (["denoising"], [(1, 4), (2, 4)], ["a picture"])
    assert [(each.rank, each.machine) for each in watcher.work] == [(0, "two"), (1, "one")]
    parts[1].end = {**done, "mark": "b"}
    with pytest.raises(RankFailed, match="two has another result than one; run `latentloom doctor` on both"):
        ClusterJob(parts)._settle(watcher)
    parts[1].end = None
    with pytest.raises(MachineLost, match="lost its agent, or cannot be reached") as lost:
        ClusterJob(parts)._settle(watcher)
    assert lost.value.machine is parts[1].machine


def test_too_few_machines_are_counted_in_words() -> None:
    one = too_few(1, 0, num_gpus=2, address="10.0.0.1:6379")
    assert one.startswith("the job needs 1 machine with 2 GPUs, but cluster 10.0.0.1:6379 has none; add machines")
    assert "needs 3 machines with a CPU each, but cluster auto has 2;" in too_few(3, 2, num_gpus=0, address="auto")
