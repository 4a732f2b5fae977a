"""What moving costs: weights between a file, the host and the device, and a rank into and out of process groups."""

import itertools
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

from bench.gpu.measuring import Bench, head, row, took
from latentloom.parallel.collectives import highest
from latentloom.parallel.process_groups import Use, ballot, connected, make
from latentloom.parallel.ranks.membership import Membership
from latentloom.parallel.ranks.seat import World

T5_GB = 9.5  # T5-XXL in bf16, the largest text encoder that leaves a card and comes back
NUM_TENSORS = 16


def moves(bench: Bench) -> bool:
    """Bytes off the device and onto it, pageable, pinned, and from a file that is mapped."""
    num_bytes = 64 << 20 if bench.is_tiny else 4 << 30
    host = torch.ones(num_bytes, dtype=torch.uint8)
    head("from", "to", "GB/s", "seconds for T5-XXL")

    def tell(source: str, target: str, ms: float) -> None:
        speed = num_bytes / ms / 1e6
        row(source, target, f"{speed:.1f}", f"{T5_GB / speed:.1f}")

    if bench.is_gpu:
        there = torch.empty_like(host, device=bench.device)
        for kind, here in (("pageable", host), ("pinned", host.pin_memory())):
            tell("device", f"{kind} memory", took(lambda here=here: here.copy_(there), bench, runs=3, warm=1).ms)
            up = took(lambda here=here: there.copy_(here, non_blocking=True), bench, runs=3, warm=1)
            tell(f"{kind} memory", "device", up.ms)
        del there
    tell("file in the page cache, mapped", bench.device.type, 1000 * _from_file(host, bench))
    return True


def _from_file(host: torch.Tensor, bench: Bench) -> float:
    """Seconds to read tensors one after the other."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "weights.safetensors")
        save_file({str(index): part.clone() for index, part in enumerate(host.chunk(NUM_TENSORS))}, path)
        start = time.perf_counter()
        with safe_open(path, framework="pt") as file:
            parts = [file.get_tensor(name).to(bench.device) for name in file.keys()]  # noqa: SIM118 (no mapping)
            bench.wait()
            del parts
        return time.perf_counter() - start


def join(bench: Bench) -> bool:
    """A process group of one rank, three times: to join it, to make another group within it, to vote, to stop it (by
    revoking its groups or by aborting them) and to leave it.
    """
    head("", "join s", "a group s", "first sums s", "vote ms", "stop s", "leave s", "MiB taken", "MiB kept")
    if bench.is_gpu:
        torch.cuda.set_device(bench.device)
    member = Membership(str(bench.device))
    with tempfile.TemporaryDirectory() as folder:
        for turn in ("first", "second", "third"):
            free = _free(bench)
            times = [time.perf_counter()]
            member.join(World(name=turn, store=f"{folder}/{turn}", size=1), 0)
            voters = ballot()
            times.append(time.perf_counter())
            make([(Use.WEIGHTS, (0,))])  # beside the one for work that joining has made
            times.append(time.perf_counter())
            for group in connected():
                dist.all_reduce(torch.zeros(1, device=bench.device), group=group)
            bench.wait()
            times.append(time.perf_counter())
            highest(0, voters)
            times.append(time.perf_counter())
            taken = free - _free(bench)
            times.append(time.perf_counter())
            aborting = threading.Thread(target=member.abort)
            aborting.start()
            aborting.join()
            how = "revoked" if member._revoked else "aborted"
            times.append(time.perf_counter())
            member.leave()
            times.append(time.perf_counter())
            joined, made, summed, voted, _, stopped, left = (b - a for a, b in itertools.pairwise(times))
            kept = round(free - _free(bench))
            row(f"{turn}, {how}", joined, made, summed, 1000 * voted, stopped, left, round(taken), kept)
    return True


def _free(bench: Bench) -> float:
    """MiB of the device's memory."""
    return torch.cuda.mem_get_info(bench.device)[0] / 2**20 if bench.is_gpu else 0.0
