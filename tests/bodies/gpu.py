"""What ranks do in the tests that need a GPU; on a CPU each does the same there."""

import os
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist

from bodies.spatial import latents
from bodies.vae import decode, group_of, untiled, vae
from latentloom.parallel.attention.choice import chosen
from latentloom.parallel.collectives import highest
from latentloom.parallel.process_groups import at_work, ballot
from latentloom.parallel.ranks.membership import Membership
from latentloom.parallel.ranks.seat import World
from latentloom.pipelines import placement
from latentloom.pipelines.spreading.vae import split_vae


def product(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    x = request["x"].to(seat.device)
    kernel = chosen(torch.device(seat.device), torch.bfloat16).kernel
    order = torch._C._get_sdp_priority_order()
    is_cudnn_first = order[0] == int(torch.nn.attention.SDPBackend.CUDNN_ATTENTION)
    is_in_bad_fork = torch.cuda._is_in_bad_fork()
    facts = {"kernel": kernel.name, "is_cudnn_first": is_cudnn_first, "is_in_bad_fork": is_in_bad_fork}
    return {"xx": x @ x.T, "device": str(x.device), "pid": os.getpid(), **facts}


def fill(request: Mapping[str, Any], progress: Any, seat: Any) -> None:
    """Asks for more memory than any device has."""
    torch.empty(1 << 50, dtype=torch.uint8, device=seat.device)


def trap(request: Mapping[str, Any], progress: Any, seat: Any) -> None:
    """An index beyond the end, of which a GPU tells when it is waited for, and from then on at every call."""
    torch.zeros(1, device=seat.device)[torch.tensor([5], device=seat.device)].cpu()


def groups(request: Mapping[str, Any], progress: Any, seat: Any) -> list[float]:
    """The sums over process groups of this rank alone that come and go, the second after an abort from elsewhere."""
    member, sums = Membership(seat.device), list[float]()
    with TemporaryDirectory() as folder:
        for turn in range(3):
            member.join(World(name=f"w{turn}", store=str(Path(folder, str(turn))), size=1), 0)
            value = torch.full((4,), float(turn), device=seat.device)
            dist.all_reduce(value, group=at_work())
            sums.append(float(value.sum()) + highest(turn, ballot()))
            aborting = threading.Thread(target=member.abort)
            aborting.start()
            aborting.join()
    return sums


def with_little_memory(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    """A stage by a rank that may take 1 MiB more of its GPU than it has."""
    torch.cuda.empty_cache()
    allowed, total = torch.cuda.memory_reserved(seat.device) + 2**20, torch.cuda.mem_get_info(seat.device)[1]
    torch.cuda.set_per_process_memory_fraction(allowed / total, seat.device)
    try:
        return placement.on_rank(request, progress, seat)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, seat.device)


def may_use_a_gpu(rank: int) -> tuple[bool, str | None]:
    """Whether torch refuses this process a GPU, because the one that it was forked from has asked for it; and which
    GPUs it may see.
    """
    return torch.cuda._is_in_bad_fork(), os.environ.get("CUDA_VISIBLE_DEVICES")


def decoded_by_rows(rank: int, device: str, kind: str, shape: tuple[int, ...]) -> dict[str, Any] | None:
    """Two ranks that share a device decode by rows; how far that is from one rank's decode."""
    group = group_of(2)
    if group is None:
        return None
    model, z = vae(kind).to(device), latents(shape).to(device)
    whole = untiled(model, z)
    with split_vae(model, group):
        got = decode(model, z)
    bits = zlib.crc32(got.cpu().contiguous().numpy().tobytes())
    return {"difference": float((got - whole).abs().max()), "largest": float(whole.abs().max()), "bits": bits}
