"""Torch-TensorRT as an engine: what it makes of a block's graph, where that is kept, and whether it can be had here.

Attention and what ranks send each other stay torch's, so that no engine knows a rank or a plan: of each kind of block
there is one before the attention and one behind it, for the lengths that they were made for. Weights are their inputs,
and so all blocks of a kind share them. Not run on a GPU yet.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...parallel.machine.folders import write_bytes
from ...parallel.staging import in_host_memory
from ..models.regular_file import parse_object, read_bytes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Operators that no engine may hold, by Torch-TensorRT's names: which kernel attends is ours to choose, and what is
# sent must not wait for an engine.
BY_TORCH = frozenset(
    {
        "torch.ops.latentloom.attend.default",
        "torch.ops.aten.scaled_dot_product_attention.default",
        *(f"torch.ops.aten._scaled_dot_product_{kind}_attention.default" for kind in ("flash", "efficient", "cudnn")),
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",
        *(
            f"torch.ops._c10d_functional.{name}.default"
            for name in ("all_to_all_single", "all_gather_into_tensor", "all_reduce", "wait_tensor")
        ),
        # what its own lowering makes of these where ranks are connected
        *(f"torch.ops.tensorrt.fused_nccl_{name}.default" for name in ("all_to_all", "all_gather", "all_reduce")),
    }
)
MOST_BYTES = 1 << 30  # of an engine's file. It holds code and plans; weights come from outside.
NEAR = 1e-3  # how far the tiny block may be off, of its largest number: TensorRT sums in another order


def backend(graph: torch.fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
    """A backend of `torch.compile`. Raises what keeps an engine from being built, rather than run without one."""
    from torch._dynamo.backends.registry import lookup_backend

    importlib.import_module("torch_tensorrt")  # which starts CUDA: never in a fork server
    kept = engines()
    options = {
        "torch_executed_ops": BY_TORCH,
        "pass_through_build_failures": True,
        "disable_tf32": True,
        "immutable_weights": False,  # else nothing is kept
        "cache_built_engines": True,
        "reuse_cached_engines": True,
        "custom_engine_cache": kept,
        "timing_cache_path": str(kept.folder / "timing.bin"),
    }
    build: Callable[..., Callable[..., Any]] = lookup_backend("torch_tensorrt")
    return build(graph, list(inputs), options=options)


def check_built(device: str) -> None:
    """Raises `ValueError` where no engine can be had on this device, which is tried once with a tiny block."""
    if why := _why_none(device):
        raise ValueError(f"engine tensorrt cannot work on {device}: {why}; choose engine inductor")


@functools.cache
def _why_none(device: str) -> str:
    import torch

    block, before = _block().to(device), engines().num_given
    x = torch.linspace(-1, 1, 2 * 48 * 64, device=device).reshape(2, 48, 64)  # B S C
    try:
        with torch.no_grad():
            wanted, made = block(x), torch.compile(block.forward, backend=backend, dynamic=False)(x)
            off = float((made - wanted).abs().max() / wanted.abs().max())
    except Exception as error:  # whatever a library of somebody else's raises that does not fit this machine
        why = getattr(error, "inner_exception", error)  # torch.compile wraps a backend's
        return f"a tiny block could not be built ({type(why).__name__}: {str(why).strip()[:200].partition(chr(10))[0]})"
    if not off <= NEAR:
        return f"a tiny block was off by {off:.1e}, and {NEAR:g} is allowed"
    return "" if engines().num_given > before else "it left a tiny block to torch whole"


def _block() -> torch.nn.Module:
    """What each block has: a norm, products, attention, an activation."""
    import torch.nn.functional as F
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)  # B H S D
            x = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)  # B S C
            return F.gelu(self.out(x), approximate="tanh")

    return Block()


@functools.cache
def engines() -> Engines:
    """This user's, for this machine and these versions."""
    from ...parallel.sharding.graphs.turns import cache_folder

    versions = "-".join(importlib.metadata.version(name) for name in ("torch-tensorrt", "tensorrt"))
    folder = cache_folder() / f"tensorrt-{versions}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return Engines(folder)


class Engines:
    """Engines on the disk, by what they are made of, as Torch-TensorRT asks for them (`BaseEngineCache`): a line of
    JSON and the engine's bytes, checked by their hash. Its own cache reads pickles, and tells graphs apart by the names
    of their operators alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.num_given = 0  # graphs that were given to it to become engines
        self._asked: dict[str, tuple[Any, Any]] = {}

    def get_hash(self, gm: torch.fx.GraphModule, input_specs: Sequence[Any], settings: Any) -> str:
        """What the graph reads, does and holds; settings are ours, and the same for all."""
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        found = hashlib.sha256(gm.print_readable(print_output=False, include_stride=True).encode())
        found.update(repr([str(each) for each in input_specs]).encode())
        with unset_fake_temporarily():  # constants are no fakes, as all else is while a graph is made
            for node in gm.graph.find_nodes(op="get_attr"):
                constant: Any = functools.reduce(getattr, str(node.target).split("."), gm)
                for piece in in_host_memory(constant):
                    found.update(piece)
        self.num_given += 1
        self._asked[found.hexdigest()] = input_specs, settings
        return found.hexdigest()

    def check(self, hash: str) -> tuple[Any, ...] | None:
        """What `insert` was given; None where there is none, or it is damaged."""
        try:
            head, _, engine = read_bytes(self._file(hash), what="engine", max_bytes=MOST_BYTES).partition(b"\n")
            told = parse_object(head, what="engine")
            inputs, outputs = (list(map(str, told[name])) for name in ("inputs", "outputs"))
            allocates, sends = told["allocates"] is True, told["sends"] is True
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if told.get("sha256") != hashlib.sha256(engine).hexdigest() or sends:
            return None
        return engine, inputs, outputs, *self._asked[hash], allocates, sends

    def insert(self, hash: str, entry: tuple[Any, ...]) -> None:
        """Whole or not at all; without room on the disk it is built again next time."""
        made, inputs, outputs, _, _, allocates, sends = entry
        engine = bytes(made)  # of TensorRT's own memory
        digest = hashlib.sha256(engine).hexdigest()
        head = {"inputs": inputs, "outputs": outputs, "allocates": allocates, "sends": sends, "sha256": digest}
        with contextlib.suppress(OSError):
            write_bytes(self._file(hash), json.dumps(head).encode() + b"\n" + engine)

    def _file(self, hash: str) -> Path:
        return self.folder / f"{hash}.engine"
