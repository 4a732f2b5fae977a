"""Print what one rank of P would compute in a step, measured on a single GPU: the shadow of a rank that is not there.

    python tests/bench/shadow_rank.py                    # FLUX.1-dev, Qwen-Image, Wan2.2-A14B, HunyuanVideo; bf16
    python tests/bench/shadow_rank.py --models flux-1024 --plans ulysses=8 ring=8
    python tests/bench/shadow_rank.py --tiny             # small models on a CPU: that all of this runs

The real transformer classes at their real widths, depths and lengths; the weights are random and the layers of a kind
share theirs, because time does not depend on them. The model is sharded as ever, over a mesh of which only rank 0
exists: it computes its own share of every block, its heads or its ring of key blocks, its merges and layout copies.
Whatever the others would send is replaced by a copy of the same size on the device. So all is measured but the wire,
and nothing runs beside anything else: a ring's hops are not hidden here. `share` is one device's time divided by the
time and the number of ranks; `sent` is what a rank would put on the wire; `peak` is memory above the weights.

Two more tables: what the hooks cost when there is one rank, which a plan of one rank does not even install; and the
error of bf16 to fp32 on one rank and on 2 and 4 real ranks that share this device through gloo.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from torch import Tensor, nn

import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel import collectives
from latentloom.parallel.group import Axis, Group
from latentloom.parallel.mesh import Mesh, planned_mesh
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding.hooks import install
from latentloom.parallel.sharding.session import Session
from latentloom.parallel.sharding.shard import shard
from latentloom.pipelines.spreading.transformer import split_plan_of
from support.ranks import Ranks

PLANS = (
    "ulysses=2",
    "ring=2",
    "allgather=2",
    "ulysses=4",
    "ring=4",
    "allgather=4",
    "ulysses=2,ring=2",
    "ulysses=2,allgather=2",
    "ulysses=8",
    "ring=8",
    "allgather=8",
    "ulysses=4,ring=2",
    "ulysses=4,allgather=2",
)
ERROR_PLANS = ("ulysses=2", "ring=2", "allgather=2", "ulysses=4", "ring=4", "allgather=4", "ulysses=2,ring=2")
GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A transformer and the grid of tokens (frames x rows x columns) and the text that it is given."""

    kind: str
    grid: tuple[int, int, int]
    text: int
    config: dict[str, Any]
    tiny: dict[str, Any]
    lists: tuple[str, ...]  # the module lists whose members are equal


FLUX = Subject(
    kind="FluxTransformer2DModel",
    grid=(1, 64, 64),
    text=512,
    config={"num_layers": 19, "num_single_layers": 38, "guidance_embeds": True},
    tiny={"num_layers": 2, "num_single_layers": 2, "attention_head_dim": 16, "axes_dims_rope": (4, 6, 6)},
    lists=("transformer_blocks", "single_transformer_blocks"),
)
SUBJECTS = {
    "flux-1024": FLUX,
    "flux-2048": Subject(**{**vars(FLUX), "grid": (1, 128, 128)}),
    "qwen-1328": Subject(
        kind="QwenImageTransformer2DModel",
        grid=(1, 83, 83),
        text=256,
        config={"num_layers": 60},
        tiny={"num_layers": 2, "attention_head_dim": 16, "axes_dims_rope": (4, 6, 6)},
        lists=("transformer_blocks",),
    ),
    "wan-720p-81f": Subject(
        kind="WanTransformer3DModel",
        grid=(21, 45, 80),
        text=512,
        config={"num_layers": 40},
        tiny={"num_layers": 2, "num_attention_heads": 24, "attention_head_dim": 16, "ffn_dim": 512},
        lists=("blocks",),
    ),
    "hunyuan-720p-129f": Subject(
        kind="HunyuanVideoTransformer3DModel",
        grid=(33, 45, 80),
        text=256,
        config={"num_layers": 20, "num_single_layers": 40},
        tiny={"num_layers": 2, "num_single_layers": 2, "attention_head_dim": 16, "rope_axes_dim": (4, 6, 6)},
        lists=("transformer_blocks", "single_transformer_blocks"),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(SUBJECTS), choices=list(SUBJECTS))
    parser.add_argument("--plans", nargs="*", default=list(PLANS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="small models, on a CPU if there is no GPU")
    parser.add_argument("--skip-errors", action="store_true", help="leave out the table that starts real ranks")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not args.tiny:
        print("there is no GPU here; --tiny runs small models on the CPU", file=sys.stderr)
        return 2
    torch.set_num_threads(1 if device.type == "cpu" else torch.get_num_threads())
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU, processor time"
    print(f"{name}, torch {torch.__version__}, median of {args.runs} runs, {'tiny models' if args.tiny else 'bf16'}")
    good = True
    for model in args.models:
        good = measure(model, args.plans, device=device, runs=args.runs, is_tiny=args.tiny) and good
    if not args.skip_errors:
        good = errors(device) and good
    return int(not good)


def measure(name: str, plans: Sequence[str], *, device: torch.device, runs: int, is_tiny: bool) -> bool:
    """Print the table of one model; False if an output is not finite or hooks cost more than 1 % of a step on a GPU."""
    subject = SUBJECTS[name]
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    model = made(subject, device=device, dtype=dtype, is_tiny=is_tiny)
    given = inputs(subject, model, device=device, dtype=dtype, is_tiny=is_tiny)
    hooks = with_hooks(model)
    bare, hooked = medians([lambda: forward(model, given), lambda: forward(hooks, given)], runs=runs, device=device)
    grid = (2, 8, 8) if is_tiny else subject.grid
    print(f"\n{name}: {math.prod(grid)} + {16 if is_tiny else subject.text} tokens\n")
    print("| plan | ms | share | MiB sent | GiB peak |\n| --- | --- | --- | --- | --- |")
    print(f"| one device | {1000 * bare:.1f} | 1.00 | 0 | {peak(lambda: forward(model, given), device):.2f} |")
    print(f"| one device, hooks on | {1000 * hooked:.1f} | {bare / hooked:.3f} | 0 | |", flush=True)
    finite = True
    for plan in plans:
        parsed = ParallelPlan.parse(plan)
        if parsed.ulysses > model.config.num_attention_heads:
            continue
        with Shadow() as shadow:
            mesh = shadow.mesh(plan)
            handle = shard(model, split_plan_of(model), mesh)
            high = peak(lambda: forward(model, given), device)
            for group in mesh.groups.values():
                group.count.sent_bytes = 0
            out = forward(model, given)
            sent = sum(group.count.sent_bytes for group in mesh.groups.values())
            (took,) = medians([lambda: forward(model, given)], runs=runs, device=device)
            handle.remove()
        finite = finite and bool(torch.isfinite(out).all())
        share = bare / took / parsed.num_ranks
        print(f"| {plan} | {1000 * took:.1f} | {share:.2f} | {sent / 2**20:.1f} | {high:.2f} |", flush=True)
    if not finite:
        print(f"{name}: an output is not finite")
    return finite and (device.type == "cpu" or hooked <= 1.01 * bare)


class Shadow:
    """In place of `torch.distributed` in `parallel.collectives`: what the others would send is copied on the device."""

    isend, irecv = "send", "receive"

    def mesh(self, plan: str) -> Mesh:
        """Of rank 0 of a plan, whose groups are there for graphs too, which ask no `torch.distributed`."""
        mesh = planned_mesh(ParallelPlan.parse(plan), 0)
        for group in mesh.groups.values():
            if group.size > 1:
                assert group.packs, "as one of GPUs does, which is kept from here on"
                group.process_group = _Shadows(self, group)
        return mesh

    def __enter__(self) -> Shadow:
        self.real: Any = collectives.dist
        self.noise: dict[torch.dtype, Tensor] = {}
        collectives.dist = self
        return self

    def __exit__(self, *_: object) -> None:
        collectives.dist = self.real

    def get_backend(self, group: object) -> str:
        return "nccl"

    def P2POp(self, kind: str, tensor: Tensor, *_: Any, **__: Any) -> tuple[str, Tensor]:
        return kind, tensor

    def batch_isend_irecv(self, operations: Sequence[tuple[str, Tensor]]) -> list[Any]:
        for kind, tensor in operations:
            if kind == self.irecv:
                self._arrive(tensor)
        return []

    def all_gather_single(self, out: Tensor, block: Tensor, **_: Any) -> None:
        out.view(-1, block.numel()).copy_(block.clone())  # which may be a part of it

    def all_to_all_single(self, out: Tensor, sent: Tensor, *_: Any, **__: Any) -> None:
        self._arrive(out)

    def all_reduce(self, tensor: Tensor, **_: Any) -> None:
        self._arrive(torch.empty_like(tensor))

    def broadcast(self, tensor: Tensor, **_: Any) -> None:
        self._arrive(torch.empty_like(tensor))

    def _arrive(self, tensor: Tensor) -> None:
        have = self.noise.get(tensor.dtype)
        if have is None or have.numel() < tensor.numel():
            have = torch.randn(tensor.numel(), device=tensor.device).to(tensor.dtype)
            self.noise[tensor.dtype] = have
        tensor.view(-1).copy_(have[: tensor.numel()])


class _Shadows(dist.ProcessGroup):
    """The other ranks of a group, as a compiled exchange meets them."""

    def __init__(self, shadow: Shadow, group: Group) -> None:
        super().__init__(group.index, group.size)
        self.shadow = shadow

    def alltoall_base(self, out: Tensor, *_: object) -> dist.Work:
        self.shadow._arrive(out)
        return _Arrived()

    def _allgather_base(self, out: Tensor, block: Tensor, *_: object) -> dist.Work:
        self.shadow.all_gather_single(out, block)
        return _Arrived()

    all_to_all_single, all_gather_single = alltoall_base, _allgather_base  # their names from torch 2.13 on


class _Arrived(dist.Work):
    def wait(self, timeout: object = None) -> bool:
        return True


# ---- models


def made(subject: Subject, *, device: torch.device, dtype: torch.dtype, is_tiny: bool) -> nn.Module:
    """The transformer on the device, random, the layers of each kind sharing their weights."""
    import diffusers

    diffusers.logging.set_verbosity_error()
    config = {**subject.config, **(subject.tiny if is_tiny else {})}
    depths = {name: "num_single_layers" if name.startswith("single") else "num_layers" for name in subject.lists}
    depth = {name: config[depths[name]] for name in subject.lists}
    torch.manual_seed(0)
    with torch.device(device):
        model = getattr(diffusers, subject.kind)(**{**config, **{depths[name]: 1 for name in subject.lists}})
    model = model.to(dtype).eval()
    kept = set(getattr(model, "_keep_in_fp32_modules", None) or ())  # as from_pretrained would
    for parameter_name, parameter in model.named_parameters():
        if kept & set(parameter_name.split(".")):
            parameter.data = parameter.data.float()
    for name, count in depth.items():
        blocks = getattr(model, name)
        blocks.extend(twin_of(blocks[0]) for _ in range(count - 1))
    return model


def inputs(subject: Subject, model: Any, *, device: torch.device, dtype: torch.dtype, is_tiny: bool) -> dict[str, Any]:
    """What a pipeline would give it for one branch of one step."""
    config = model.config
    frames, rows, columns = (2, 8, 8) if is_tiny else subject.grid
    text = 16 if is_tiny else subject.text

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device, dtype=dtype)

    time_of_step = torch.full((1,), 500.0, device=device)
    if subject.kind == "FluxTransformer2DModel":
        ids = torch.zeros(frames, rows, columns, 3, device=device)
        ids[..., 1] = torch.arange(rows, device=device)[:, None]
        ids[..., 2] = torch.arange(columns, device=device)
        return {
            "hidden_states": noise(1, frames * rows * columns, config.in_channels),
            "encoder_hidden_states": noise(1, text, config.joint_attention_dim),
            "pooled_projections": noise(1, config.pooled_projection_dim),
            "timestep": time_of_step / 1000,
            "guidance": torch.full((1,), 3.5, device=device),
            "img_ids": ids.reshape(-1, 3),
            "txt_ids": torch.zeros(text, 3, device=device),
        }
    if subject.kind == "QwenImageTransformer2DModel":
        return {
            "hidden_states": noise(1, frames * rows * columns, config.in_channels),
            "encoder_hidden_states": noise(1, text, config.joint_attention_dim),
            "timestep": time_of_step / 1000,
            "img_shapes": [[(frames, rows, columns)]],
        }
    patch = 2
    latents = noise(1, config.in_channels, frames, patch * rows, patch * columns)
    if subject.kind == "WanTransformer3DModel":
        return {
            "hidden_states": latents,
            "timestep": time_of_step,
            "encoder_hidden_states": noise(1, text, config.text_dim),
        }
    return {
        "hidden_states": latents,
        "timestep": time_of_step,
        "encoder_hidden_states": noise(1, text, config.text_embed_dim),
        "encoder_attention_mask": torch.ones(1, text, device=device),
        "pooled_projections": noise(1, config.pooled_projection_dim),
        "guidance": torch.full((1,), 6000.0, device=device),
    }


def forward(model: nn.Module, given: dict[str, Any]) -> Tensor:
    with torch.no_grad():
        return model(**given, return_dict=False)[0]


def with_hooks(model: nn.Module) -> nn.Module:
    """A copy, on the same weights, with all hooks of a sharded model but for one rank: `shard` would install none."""
    twin = twin_of(model)
    mesh, title = planned_mesh(ParallelPlan(), 0), type(model).__name__
    install(twin, Session(split_plan_of(twin), mesh, title=title, shards_text=True, kernel="auto"))
    return twin


def twin_of(module: nn.Module) -> nn.Module:
    """A copy on the same weights."""
    return copy.deepcopy(module, {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())})


# ---- measuring


def medians(actions: Sequence[Callable[[], Any]], *, runs: int, device: torch.device) -> list[float]:
    """Seconds of each action, taken in turns, after one run of each that does not count."""
    taken: list[list[float]] = [[] for _ in actions]
    for turn in range(runs + 1):
        for action, seconds in zip(actions, taken, strict=True):
            took = _seconds(action, device)
            if turn:
                seconds.append(took)
    return [statistics.median(seconds) for seconds in taken]


def _seconds(action: Callable[[], Any], device: torch.device) -> float:
    if device.type == "cpu":
        start = time.process_time()
        action()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    action()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def peak(action: Callable[[], Any], device: torch.device) -> float:
    """GiB of device memory above what was there before; 0 on a CPU."""
    if device.type == "cpu":
        action()
        return 0.0
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    action()
    return (torch.cuda.max_memory_allocated() - before) / GIB


# ---- the error of bf16


def errors(device: torch.device) -> bool:
    """Print the error of bf16 to fp32 on one rank and on several; False if one is more than 1.1 times one rank's."""
    ranks, good = Ranks(4), True
    print("\n| bf16, 53 M parameters, 1024 + 128 tokens | error to fp32 | to one rank's |\n| --- | --- | --- |")
    for plan in ERROR_PLANS:
        found = [x for x in ranks.run("bench.shadow_rank:error", str(device), plan, deadline_s=600) if x is not None]
        one, many = found[0][0], max(x[1] for x in found)
        good = good and many <= 1.1 * one
        print(f"| {plan} | {many:.3e} | {many / one:.3f} |", flush=True)
    print(f"| one rank | {one:.3e} | |")
    ranks.close()
    return good


def error(rank: int, device: str, plan: str) -> tuple[float, float] | None:
    """Collective: relative error (root mean square) of one rank's bf16 output to fp32, and of the sharded one's."""
    from bench.contenders import inputs as flux_inputs
    from bench.contenders import model
    from support.cells import mesh_for

    mesh = mesh_for(ParallelPlan.parse(plan))
    if mesh is None:
        return None
    made, given = copy.deepcopy(model()).to(device), {n: x.to(device) for n, x in flux_inputs(1024, 128).items()}
    want = forward(made, given).float()
    made.to(torch.bfloat16)
    given = {name: x if name.endswith("ids") else x.to(torch.bfloat16) for name, x in given.items()}
    alone = forward(made, given).float()
    handle = shard(made, split_plan_of(made), mesh)
    assert mesh[Axis.SEQUENCE].size > 1, f"plan {plan} has one rank"
    shared = forward(made, given).float()
    handle.remove()
    return float((alone - want).norm() / want.norm()), float((shared - want).norm() / want.norm())


if __name__ == "__main__":
    sys.exit(main())
