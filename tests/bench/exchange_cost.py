"""Print what one attention call of FLUX costs the host under each plan, and how many kernels it launches.

    python tests/bench/exchange_cost.py                     # a minute
    python tests/bench/exchange_cost.py ulysses=4 ring=8

One rank works in this process, over torch's fake process group: nothing is sent, and tensors are so small (8 tokens of
each stream a rank, 24 heads of 16 numbers) that to compute is next to nothing. What is left is what the host does
before a GPU has its work. `pieces` is the way of gloo. Microseconds are processor time, the least of 200 calls.
"""

import math
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import Tensor

import support.checkout  # noqa: F401 (makes the checkout importable)
from bench.drills import machine
from latentloom.parallel.attention import compose
from latentloom.parallel.attention.choice import choose
from latentloom.parallel.attention.strategy import Terms
from latentloom.parallel.group import Axis
from latentloom.parallel.layout import Layout, Stream, shares_of
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.plan import ParallelPlan
from support.launches import Launches, lone_rank

PLANS = [f"{method}={count}" for method in ("ulysses", "allgather", "ring") for count in (2, 4, 8)]
TOKENS, HEADS, WIDTH, CALLS = 8, 24, 16, 200
KERNEL = choose(torch.device("cpu"), torch.float32)


def main() -> None:
    torch.set_num_threads(1)
    print(f"{machine()}, Python {platform.python_version()}, torch {torch.__version__}\n")
    print("| plan | text | us | pieces, us | kernels | kernels, pieces |\n| --- | --- | --- | --- | --- | --- |")
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
        return attend(q, k, v, scale=None, terms=Terms(layout, mesh, KERNEL))

    cells: list[str] = []
    for packs in (True, False):
        for group in mesh.groups.values():
            group.packs = packs
        ours()  # what is made once for a layout
        with Launches() as launches:
            ours()
        cells += [f"{_least(ours):.0f}", str(launches.count)]
    print(f"| {plan} | {text} | {cells[0]} | {cells[2]} | {cells[1]} | {cells[3]} |", flush=True)


def _least(call: Callable[[], Tensor]) -> float:
    """Microseconds."""
    least = math.inf
    for _ in range(CALLS):
        start = time.process_time()
        call()
        least = min(least, time.process_time() - start)
    return 1e6 * least


if __name__ == "__main__":
    main()
