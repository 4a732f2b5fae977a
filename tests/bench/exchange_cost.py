"""Print what one attention call of FLUX costs the host under each plan, and how many kernels it launches.

    python tests/bench/exchange_cost.py                     # a minute
    python tests/bench/exchange_cost.py ulysses=4 ring=8

One rank works in this process, over torch's fake process group: nothing is sent, and tensors are so small (8 tokens of
each stream a rank, 24 heads of 16 numbers) that to compute is next to nothing. What is left is what the host does
before a GPU has its work. `bare` does the same packing with the same operators, all else written down beforehand;
`pieces` is the way of gloo. Microseconds are processor time, the least of 200 calls in turns.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.attention import compose
from latentloom.parallel.attention.choice import choose
from latentloom.parallel.attention.exchange import answers_of, authored
from latentloom.parallel.attention.packed import Gathering, PackedExchange, gathering, trade
from latentloom.parallel.attention.ring import AT_ONCE, merge, weighed
from latentloom.parallel.group import Axis
from latentloom.parallel.layout import Layout, Stream, shares_of
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.plan import ParallelPlan
from support.launches import Launches, lone_rank

PLANS = (
    "ulysses=2",
    "ulysses=4",
    "ulysses=8",
    "allgather=2",
    "allgather=4",
    "allgather=8",
    "ring=2",
    "ring=4",
    "ring=8",
)
TOKENS, HEADS, WIDTH, CALLS = 8, 24, 16, 200
KERNEL = choose(torch.device("cpu"), torch.float32)
FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
Call = Callable[[], Tensor]


def main() -> None:
    torch.set_num_threads(1)
    print(f"{_processor()}, Python {platform.python_version()}, torch {torch.__version__}\n")
    print("| plan | text | ours, us | bare, us | ours to bare | pieces, us | kernels | kernels, pieces |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for plan in sys.argv[1:] or PLANS:
        for text in ("sharded", "replicated"):
            with lone_rank(plan) as mesh, torch.no_grad():
                _row(plan, text, mesh)


def _row(plan: str, text: str, mesh: Mesh) -> None:
    count = ParallelPlan.parse(plan).num_ranks
    tokens = TOKENS * count
    words = Stream("text", tokens, shares_of(tokens, count) if text == "sharded" else None)
    layout = Layout((words, Stream("image", tokens - 1, shares_of(tokens - 1, count))), count)  # uneven
    held = layout.num_held(mesh[Axis.SEQUENCE].index)
    q, k, v = (torch.randn(1, held, HEADS, WIDTH).transpose(1, 2) for _ in range(3))
    attend = compose(mesh.plan)

    def ours() -> Tensor:
        return attend(q, k, v, layout=layout, mesh=mesh, mask=None, scale=None, kernel=KERNEL)

    bare = BARE[plan.partition("=")[0]](q, k, v, layout, mesh)
    with Launches() as packed:
        ours()
    took = _least([ours, bare])
    for group in mesh.groups.values():
        group.packs = False
    with Launches() as pieces:
        ours()
    (took_pieces,) = _least([ours])
    print(
        f"| {plan} | {text} | {took[0]:.0f} | {took[1]:.0f} | {took[0] / took[1]:.2f} | {took_pieces:.0f} | "
        f"{packed.count} | {pieces.count} |",
        flush=True,
    )


def _bare_ulysses(q: Tensor, k: Tensor, v: Tensor, layout: Layout, mesh: Mesh) -> Call:
    found = trade(layout, range(layout.num_ranks), 0, (1, HEADS, HEADS, WIDTH), q.device)
    ins, outs, group = found.way_in, found.way_out, mesh[Axis.ULYSSES].process_group

    def exchanged(x: Tensor, way: PackedExchange) -> Tensor:
        x = _chosen(x, way.pick, way.width)
        got = x.new_empty(sum(way.sizes_in))
        dist.all_to_all_single(got, x.view(-1), way.sizes_in, way.sizes_out, group=group)
        return _chosen(got, way.order, way.width_in)

    def call() -> Tensor:
        x = exchanged(torch.cat((q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)), 2), ins)
        x = F.scaled_dot_product_attention(*x.view(found.joint).permute(1, 2, 0, 3).split(found.split, 1))
        return exchanged(x.transpose(1, 2).contiguous(), outs).view(found.here).transpose(1, 2)

    return call


def _bare_allgather(q: Tensor, k: Tensor, v: Tensor, layout: Layout, mesh: Mesh) -> Call:
    group, answers = mesh[Axis.EXCHANGE].process_group, answers_of(layout, 0)
    keys = gathering(layout, 0, q.device)
    rows = gathering(answers, 0, q.device) if layout.num_replicated else None
    parts = authored(layout, 0).local

    def gathered(tokens: Sequence[Tensor], way: Gathering) -> Tensor:
        buffer = q.new_empty(way.num_rows, 1, HEADS * len(tokens), WIDTH)
        return _filled(buffer, tokens, way, group)

    def call() -> Tensor:
        joint = gathered((k.permute(2, 0, 1, 3), v.permute(2, 0, 1, 3)), keys).permute(1, 2, 0, 3)
        asked = q if rows is None else torch.cat([q[:, :, start:end] for start, end in parts], 2)
        out = F.scaled_dot_product_attention(asked, *joint.split((HEADS, HEADS), 1))
        return out if rows is None else gathered((out.permute(2, 0, 1, 3),), rows).permute(1, 2, 0, 3)

    return call


def _bare_ring(q: Tensor, k: Tensor, v: Tensor, layout: Layout, mesh: Mesh) -> Call:
    group, count, answers = mesh[Axis.EXCHANGE].process_group, layout.num_ranks, answers_of(layout, 0)
    rows = gathering(answers, 0, q.device) if layout.num_replicated else None
    parts, first = authored(layout, 0).local, layout.num_replicated
    held = [layout.num_sharded((0 - step) % count) for step in range(count)]
    sizes_out = [[0, size, *[0] * (count - 2)] for size in held]
    sizes_in = [[*[0] * (count - 1), size] for size in held]

    def call() -> Tensor:
        asked = q if rows is None else torch.cat([q[:, :, start:end] for start, end in parts], 2)
        block = torch.cat((k.permute(2, 0, 1, 3), v.permute(2, 0, 1, 3)), 2)[first:]
        keys, values, found = k, v, []
        for step in range(count):
            coming = work = None
            if step < count - 1:
                coming = block.new_empty(held[step + 1], *block.shape[1:])
                work = dist.all_to_all_single(
                    coming, block, sizes_in[step + 1], sizes_out[step], group=group, async_op=True
                )
            found.append(FLASH(asked, keys, values, 0.0, False))
            if len(found) == AT_ONCE:
                found = [merge(found)]
            if coming is not None:
                work.wait()
                block = coming
                keys, values = block.permute(1, 2, 0, 3).split((HEADS, HEADS), 1)
        out = weighed(found)
        if rows is None:
            return out
        buffer = q.new_empty(rows.num_rows, 1, HEADS, WIDTH)
        return _filled(buffer, (out.permute(2, 0, 1, 3),), rows, group).permute(1, 2, 0, 3)

    return call


def _filled(buffer: Tensor, tokens: Sequence[Tensor], way: Gathering, group: Any) -> Tensor:
    torch.cat(tokens, 2, out=buffer.narrow(0, way.start, way.num_own))
    sent = buffer.narrow(0, way.start + way.first, way.num_sent)
    dist.all_gather_single(buffer.narrow(0, 0, way.num_arrived).view(-1), sent.view(-1), group=group)
    return buffer if way.order is None else buffer.index_select(0, way.order)


def _chosen(x: Tensor, index: Tensor | None, width: int) -> Tensor:
    return x if index is None else x.view(-1, width).index_select(0, index)


BARE = {"ulysses": _bare_ulysses, "allgather": _bare_allgather, "ring": _bare_ring}


def _least(calls: list[Call]) -> list[float]:
    """Microseconds of each call, taken in turns."""
    least = [float("inf")] * len(calls)
    for _ in range(CALLS):
        for index, call in enumerate(calls):
            start = time.process_time()
            call()
            least[index] = min(least[index], 1e6 * (time.process_time() - start))
    return least


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


if __name__ == "__main__":
    main()
