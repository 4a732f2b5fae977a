"""What one rank does in the attention benchmark: one Flux-like model, sharded by us or by somebody else, run once."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import importlib.metadata
import logging
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from latentloom.parallel.spatial.part import tensors_in
from support.cells import fill

HANDLES: dict[str, Any] = {}
"""Of our contenders, whose exchanges are counted as one each, however many messages gloo makes of them."""


@functools.cache
def model(layers: int = 3) -> nn.Module:
    """53 million parameters, every one of them of a size that matters."""
    from diffusers import FluxTransformer2DModel

    torch.manual_seed(0)
    made = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=layers,
        num_single_layers=2 * layers,
        attention_head_dim=64,
        num_attention_heads=8,
        joint_attention_dim=512,
        pooled_projection_dim=256,
        axes_dims_rope=(16, 24, 24),
    ).eval()
    fill(made)
    return made


@functools.lru_cache(maxsize=1)
def inputs(image: int, text: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    side = math.isqrt(image)
    ids = torch.zeros(side, image // side, 3)
    ids[..., 1] = torch.arange(side)[:, None]
    ids[..., 2] = torch.arange(image // side)
    return {
        "hidden_states": torch.randn(1, image, 16, generator=generator),
        "encoder_hidden_states": torch.randn(1, text, 512, generator=generator),
        "pooled_projections": torch.randn(1, 256, generator=generator),
        "timestep": torch.tensor([0.7]),
        "img_ids": ids.reshape(-1, 3),
        "txt_ids": torch.zeros(text, 3),
    }


@functools.lru_cache(maxsize=1)
def whole(image: int, text: int) -> Tensor:
    """The output of one process."""
    with torch.no_grad():
        return model()(**inputs(image, text), return_dict=False)[0]


@functools.cache
def contender(name: str) -> nn.Module:
    """Collective: a copy of the model with the same weights in the same place, sharded over all ranks by `name`."""
    memo = {id(tensor): tensor for tensor in (*model().parameters(), *model().buffers())}
    made = copy.deepcopy(model(), memo)
    who, _, strategy = name.partition(" ")
    {"one": lambda *_: None, "ours": _ours, "diffusers": _diffusers, "cache-dit": _cache_dit, "xfuser": _xfuser}[who](
        made, strategy
    )
    return made


def _ours(made: nn.Module, strategy: str) -> None:
    from latentloom.pipelines.spreading.transformer import shard

    HANDLES[f"ours {strategy}"] = shard(made, f"{strategy}={dist.get_world_size()}")


def _diffusers(made: Any, strategy: str) -> None:
    from diffusers import ContextParallelConfig

    quiet()
    one_accelerator()
    if strategy == "ring":
        ring_on_cpu()
    degree: dict[str, Any] = {f"{strategy}_degree": dist.get_world_size()}
    made.enable_parallelism(config=ContextParallelConfig(**degree))


def _cache_dit(made: Any, strategy: str) -> None:
    quiet()
    import cache_dit

    one_accelerator()
    size: dict[str, Any] = {f"{strategy}_size": dist.get_world_size()}
    cache_dit.enable_cache(made, parallelism_config=cache_dit.ParallelismConfig(**size))


def _xfuser(made: nn.Module, strategy: str) -> None:
    import xfuser  # noqa: F401 (without a GPU it says why it cannot be imported, which is what the table then shows)

    raise RuntimeError("xfuser imports where there is a GPU, but these ranks are on the CPU: nothing to compare")


def quiet() -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore", FutureWarning)


def one_accelerator() -> None:
    """diffusers and cache-dit divide by the number of accelerators, which is 0 on a machine without one."""
    torch.accelerator.device_count = lambda: 1


def ring_on_cpu() -> None:
    """Give diffusers' ring the CPU kernel that it lacks: torch's own, which returns log-sum-exp.

    Its `native` backend knows no log-sum-exp, and those that do run on CUDA only. Its ulysses is not touched.
    """
    from diffusers.models import attention_dispatch

    name, registry = attention_dispatch.AttentionBackendName.NATIVE, attention_dispatch._AttentionBackendRegistry
    stock = registry._backends[name]

    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, lse = flash(*(x.transpose(1, 2) for x in (query, key, value)))
        return out.transpose(1, 2), lse.transpose(1, 2)

    def native(query: Tensor, key: Tensor, value: Tensor, *args: Any, _parallel_config: Any = None, **rest: Any) -> Any:
        if _parallel_config is None or _parallel_config.context_parallel_config.ring_degree == 1:
            return stock(query, key, value, *args, _parallel_config=_parallel_config, **rest)
        return attention_dispatch.TemplatedRingAttention.apply(
            query, key, value, None, 0.0, False, None, False, False, forward, None, _parallel_config
        )

    registry._backends[name] = native


# ---- what the driver asks of a rank


def about(rank: int) -> dict[str, str]:
    found = {"torch": torch.__version__, "parameters": f"{sum(p.numel() for p in model().parameters()) / 1e6:.1f} M"}
    for package in ("diffusers", "cache-dit", "xfuser"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def examine(rank: int, name: str, image: int, text: int) -> dict[str, Any]:
    """Collective: difference to one process, what is sent, and how far memory grows; not timed."""
    want, made = whole(image, text), contender(name)
    _run(made, image, text)
    before = _exchanges(name)
    with Sent() as sent, peak() as memory:
        got = _run(made, image, text)
    return {
        "difference": float((got - want).abs().max()),
        "largest": float(want.abs().max()),
        "calls": _exchanges(name) - before or sent.calls,
        "sent_bytes": sent.num_bytes,
        "peak_bytes": memory[0],
    }


def _exchanges(name: str) -> int:
    return sum(group.count.calls for group in HANDLES[name].mesh.groups.values()) if name in HANDLES else 0


def timed(rank: int, name: str, image: int, text: int) -> float:
    """Collective: processor seconds of this rank in one forward, all of its threads, user and system."""
    made = contender(name)
    dist.barrier()
    start = time.process_time()
    _run(made, image, text)
    return time.process_time() - start


def _run(made: nn.Module, image: int, text: int) -> Tensor:
    with torch.no_grad():
        return made(**inputs(image, text), return_dict=False)[0]


class Sent(TorchDispatchMode):
    """Counts what torch is asked to put on the wire, whoever asks, and by whichever of its two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.num_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        space, _, name = func._schema.name.partition("::")
        if space in ("c10d", "_c10d_functional") and name.startswith(tuple(SENT_PARTS)):
            part = next(part for start, part in SENT_PARTS.items() if name.startswith(start))
            tensor = next(tensors_in([args[1]] if name == "alltoall_base_" else args, {}))
            size = dist.get_world_size()
            self.calls += 1
            self.num_bytes += int(tensor.numel() * tensor.element_size() * part(size))
        return func(*args, **(kwargs or {}))


# How much of its first tensor a rank sends. All exchanges in this benchmark are even.
SENT_PARTS = {
    "all_to_all": lambda size: (size - 1) / size,
    "alltoall_base_": lambda size: (size - 1) / size,
    "all_gather": lambda size: size - 1,
    "_allgather_base_": lambda size: size - 1,
    "allgather_": lambda size: size - 1,
    "send": lambda size: 1,
    "all_reduce": lambda size: 2 * (size - 1) / size,
    "allreduce_": lambda size: 2 * (size - 1) / size,
}


@contextlib.contextmanager
def peak() -> Iterator[list[int]]:
    """How far resident memory grows inside, in bytes; what is free is given back to the system first (Linux)."""
    grown = [0]
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    yield grown
    grown[0] = _status("VmHWM") - before


def _status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])
