"""What ranks of a pool run in tests."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from latentloom.parallel import process_groups
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.process_groups import at_work
from latentloom.parallel.ranks import guard
from latentloom.parallel.ranks.channel import Channel
from latentloom.parallel.ranks.messages import TO_RANK, RunJob
from latentloom.parallel.ranks.rank_job import RankJob


def is_first(request: Mapping[str, Any]) -> bool:
    """Whether the file that a request names was not there; it is from now on."""
    is_there = Path(request["flag"]).exists()
    Path(request["flag"]).touch()
    return not is_there


calls = 0  # of `remember`, in this process: what a warm rank still knows
last_step = 0


def echo(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    return {"request": dict(request), "rank": seat.rank, "pid": os.getpid(), "device": seat.device}


def total(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    """Steps of an all-reduce, slowed down as asked; the sum is known."""
    global last_step
    last_step = 0
    value = request["tensor"].clone()
    for step in range(request["steps"]):
        time.sleep(request.get("pause_s", 0.0))
        if seat.num_ranks > 1:
            dist.all_reduce(value, group=at_work())
            value /= seat.num_ranks
        progress.step(step + 1, request["steps"], lambda: torch.zeros(2, 2, 3, dtype=torch.uint8))
        last_step = step + 1
    return {"tensor": value}


def reached(request: Mapping[str, Any], progress: Any, seat: Any) -> int:
    """The last step of the last `total`."""
    return last_step


def fail(request: Mapping[str, Any], progress: Any, seat: Any) -> None:
    """One rank, or every one, ends as asked while the others wait for it."""
    from latentloom.pipelines.failures import NotFinite

    if request["rank"] in (seat.rank, "every"):
        kinds = {"value": ValueError, "not_finite": NotFinite, "runtime": RuntimeError, "memory": MemoryError}
        raise kinds[request["kind"]](request["text"])
    if seat.num_ranks > 1:
        dist.barrier(at_work())


def gather_blocks(request: Mapping[str, Any], progress: Any, seat: Any) -> bool:
    """Whether blocks that come in shares of all ranks are as they were; one rank may fail alone at a block."""
    from latentloom.parallel.mesh import gatherers, mesh_for
    from latentloom.parallel.plan import ParallelPlan
    from latentloom.parallel.streaming.streamed import Streamed

    blocks = [torch.nn.Linear(64, 64, bias=False).requires_grad_(False) for _ in range(8)]
    for number, block in enumerate(blocks):
        block.weight.fill_(0.01 * number)
    x = torch.ones(1, 64)
    wanted = [block(x) for block in blocks]
    group = gatherers(mesh_for(ParallelPlan(ulysses=seat.num_ranks)))
    streamed, same = Streamed(blocks, device=torch.device("cpu"), group=group), True
    try:
        for turn in range(3):
            for number, block in enumerate(blocks):
                if turn and (seat.rank, number) == (request["rank"], 4):
                    raise ValueError("alone")
                same = same and torch.equal(block(x), wanted[number])
    finally:
        streamed.end()
    return same


def fail_first(request: Mapping[str, Any], progress: Any, seat: Any) -> None:
    """Rank 1 fails; the others come to their next exchange when the group is gone."""
    if seat.rank == 1:
        raise RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED")
    while dist.is_initialized():
        time.sleep(0.01)
    dist.new_group()  # a ValueError, as for what a user did wrong


def die(request: Mapping[str, Any], progress: Any, seat: Any) -> None:
    """One rank kills its own process, every time."""
    if seat.rank == request["rank"]:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier(at_work())


def add_up(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    """The sum of the ranks' numbers over a plan's group and over all ranks at work, and the groups that this rank is in
    then.
    """
    from torch.distributed.distributed_c10d import _world

    from latentloom.parallel.collectives import add
    from latentloom.parallel.group import Axis
    from latentloom.parallel.mesh import everyone, mesh_for
    from latentloom.parallel.plan import ParallelPlan

    mesh = mesh_for(ParallelPlan(ulysses=seat.num_ranks))
    own = torch.tensor([seat.rank + 1.0])
    sums = [float(add(own, group=group)) for group in (mesh[Axis.ULYSSES], everyone(mesh))]
    progress.step(1, 1)
    return {"sums": sums, "groups": {name: id(group) for group, name in _world.pg_names.items()}}


def make_group(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    """All ranks make a group; one dies before it comes, the first time."""
    from latentloom.parallel.mesh import mesh_for
    from latentloom.parallel.plan import ParallelPlan

    if seat.rank == request["rank"] and is_first(request):
        time.sleep(0.5)  # until the others wait
        os.kill(os.getpid(), signal.SIGKILL)
    return {"size": mesh_for(ParallelPlan(ulysses=seat.num_ranks)).plan.num_ranks}


def connect(request: Mapping[str, Any], progress: Any, seat: Any) -> list[float]:
    """A group is made as on GPUs, by gloo. Rank 1 works before it comes, and before the first exchange; or it hangs
    the first time, where NCCL would connect it or have it exchange.
    """
    is_here, hangs = seat.rank == 1, request.get("hangs")
    limit_s = 60 if hangs and not is_here else request["limit_s"]  # the others would end, too, and one as early
    helper, backend = process_groups._new_process_group_helper, dist.get_backend

    def hang_once(where: str) -> None:
        if is_here and hangs == where and is_first(request):
            time.sleep(10_000)

    def made(*given: Any, **options: Any) -> Any:
        hang_once("connecting")
        return helper(*given[:3], "gloo", *given[4:], **{**options, "device_id": None})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_groups._here(), "device", torch.device("cuda:0"))
        patch.setattr(process_groups, "CONNECT_S", limit_s)
        patch.setattr(process_groups, "_new_process_group_helper", made)
        patch.setattr(process_groups, "set_up", lambda groups: [hang_once("first") for _ in groups])
        patch.setattr(dist, "get_backend", lambda group: "nccl" if hangs == "first" else backend(group))
        time.sleep(is_here * request["busy_s"])
        group = process_groups.at_work()
        time.sleep(is_here * request["busy_s"])
        value = torch.tensor([seat.rank + 1.0])
        dist.all_reduce(value, group=group)
    return value.tolist()


def fits_without(request: Mapping[str, Any], progress: Any, seat: Any) -> str:
    """There is not enough memory, as long as another process is there; the first time that ends as this does."""
    is_there = Path(f"/proc/{request['spare']}/exe").exists()
    if is_first(request):
        raise MemoryError("too little")
    return "it does not fit" if is_there else "it fits"


def die_once(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    """One rank gets a signal after the first step, the first time; with `parent` it is the fork server that does."""
    value = request["tensor"].clone()
    for step in range(4):
        dist.all_reduce(value, group=at_work())
        value = torch.sin(value)
        progress.step(step + 1, 4)
        if step == 0 and seat.rank == request["rank"] and is_first(request):
            os.kill(os.getppid() if request.get("parent") else os.getpid(), request["signal"])
            time.sleep(60 if request.get("parent") else 0)  # ended by then, as a child
    return {"tensor": value}


def uneven(request: Mapping[str, Any], progress: Any, seat: Any) -> str:
    """Steps that need no other rank; one rank ends as asked when the others wait for the host to grant them more."""
    for step in range(6):
        if seat.rank == request["rank"] and is_first(request):
            time.sleep(0.2)
            if request["kind"] == "raises":
                raise RuntimeError("broken")
            os.kill(os.getpid(), signal.SIGKILL)
        progress.step(step + 1, 6)
    return "done"


def voted(rank: int) -> int:
    """How many steps a rank does whose job's other ranks are on other machines; rank 1 alone hears of a cancel."""
    order = RunJob(job=1, function="", lane="main", rank=rank, num_ranks=4, previews=False, answers=False)
    mine, theirs = Channel.pair(TO_RANK)
    job, done = RankJob(order, mine), 0
    with contextlib.suppress(Cancelled):
        for done in range(1, 9):
            job.is_cancelled = rank == 1 and done == 4
            job.step(done, 8)
    mine.close()
    theirs.close()
    return done


def let_go(request: Mapping[str, Any], progress: Any, seat: Any) -> None:
    """One rank closes its connection, the first time, but does not end, as one whose device is slow to let go of it."""
    if seat.rank == request["rank"] and is_first(request):
        if not os.fork():
            time.sleep(0.5)  # until its parent has stopped, which would end when it sees what happens
            for fd in Path("/proc/self/fd").iterdir():
                with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(fd.name))) as found:
                    if found.type == socket.SOCK_SEQPACKET:
                        found.shutdown(socket.SHUT_RDWR)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGSTOP)
    if seat.num_ranks > 1:
        dist.barrier(at_work())


def no_picture(request: Mapping[str, Any], progress: Any, seat: Any) -> str:
    """A step whose preview cannot be made."""

    def preview() -> torch.Tensor:
        raise RuntimeError("no picture")

    progress.step(1, 1, preview)
    return "done"


def hang(request: Mapping[str, Any], progress: Any, seat: Any) -> None:
    """One rank sleeps for ever while the others wait for it."""
    if seat.rank == request["rank"]:
        time.sleep(10_000)
    dist.barrier(at_work())


class Slow(torch.nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wait(self.seconds)
        return x + 1


def wait(seconds: float) -> None:
    """In a loop, as code does that asks again and again whether others have come."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


def slow_model(request: Mapping[str, Any], progress: Any, seat: Any) -> float:
    """So many modules, one after another, that tell nothing."""
    model = torch.nn.Sequential(*(Slow(request["seconds"]) for _ in range(request["modules"])))
    return model(torch.zeros(())).item()


def remember(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, int]:
    global calls
    calls += 1
    return {"pid": os.getpid(), "calls": calls}


def meet(request: Mapping[str, Any], progress: Any, seat: Any) -> bool:
    """Whether another job comes to the same place, each with its own file."""
    Path(request["own"]).touch()
    end = time.monotonic() + 20
    while not Path(request["other"]).exists() and time.monotonic() < end:
        progress.check()
        time.sleep(0.01)
    return Path(request["other"]).exists()


def note(request: Mapping[str, Any], progress: Any, seat: Any) -> None:
    """Writes its name at the end of a file."""
    time.sleep(request["pause_s"])
    with Path(request["file"]).open("a") as file:
        file.write(request["name"] + " ")


def differ(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, int]:
    return {"rank": seat.rank}


def mapped(request: Mapping[str, Any], progress: Any, seat: Any) -> list[str]:
    """The inodes of the memory files that this process has mapped; `request` is one of them."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[4] for line in lines if "memfd:latentloom" in line})


def environment(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    return {name: os.environ.get(name) for name in request["names"]}


def listening(request: Mapping[str, Any], progress: Any, seat: Any) -> list[str]:
    """Addresses, in the kernel's hexadecimal, on which this process listens."""
    own = set()
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them
            own.add(str(fd.readlink()))
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
    ]
    return [row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]


def open_files(request: Mapping[str, Any], progress: Any, seat: Any) -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _die_or_stop(parent: int) -> None:
    die_with_parent(parent)
    if Path(os.environ[STOP_SPARES]).exists():
        os.kill(os.getpid(), signal.SIGSTOP)


# A variable that names a file: while that is there, what the fork server forks stops before it is ready.
STOP_SPARES = "STOP_SPARES"
if STOP_SPARES in os.environ:
    die_with_parent, guard.die_with_parent = guard.die_with_parent, _die_or_stop
