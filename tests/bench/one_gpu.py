"""Print what one GPU can prove of a machine with several: `python tests/bench/one_gpu.py SECTION...`

kernels    every attention kernel against fp64: head widths, masks, odd lengths, the strides that exchanges leave
attention  milliseconds of each kernel at the shapes of a rank; a masked call against one whose masked keys are left out
linear     bf16 against fp8 weights against fp8, in the shapes of one FLUX block
moves      weights off the device and back, pageable and pinned, and from a mapped file
noise      one seed in bf16 and int8 against fp32
quant      what torchao takes beside a weight, packed by rows and as a whole; whether the bits are the same
step       a step as rank 0 of several sees it: host ms, ms, kernels, syncs; eager, compiled, captured; nothing is sent
streamed   a step whose blocks come from the host's memory, none, half and as many of them resident as fit 8 GB
breakdown  a step's device time by kernel, compiled and as a CUDA graph, as rank 0 of each plan sees it
lanes      the steps of one picture beside the decode of another: on one stream, and on two
join       a process group of one: to join it, split groups off, vote, abort, join again; the memory it takes

Each section prints a table; a claim that does not hold, or a way that fails, makes the exit status 1. `--tiny` runs
small shapes, also on a CPU, where what needs a GPU is left out. `one_gpu.sh` has the order that pays.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

import support.checkout  # noqa: F401 (makes the checkout importable)
from bench.gpu.breakdown import breakdown
from bench.gpu.kernels import attention, kernels, linear
from bench.gpu.measuring import Bench, machine
from bench.gpu.moving import join, moves
from bench.gpu.pictures import noise
from bench.gpu.quantized import quant
from bench.gpu.steps import lanes, step
from bench.gpu.streamed import streamed
from bench.shadow_rank import SUBJECTS
from latentloom.parallel.ranks.fork_server import ENVIRONMENT

SECTIONS: dict[str, Callable[..., bool]] = {
    section.__name__: section
    for section in (kernels, attention, linear, noise, quant, moves, step, streamed, breakdown, lanes, join)
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="+", choices=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--tiny", action="store_true", help="small shapes, on a CPU if there is no GPU")
    parser.add_argument(
        "--models", nargs="+", default=["flux-1024"], choices=list(SUBJECTS), help="of step and breakdown"
    )
    parser.add_argument("--plans", nargs="+", default=["ulysses=8", "allgather=8"], help="of these")
    asked = parser.parse_args()
    bench = Bench(device=torch.device("cuda:0" if torch.cuda.is_available() else "cpu"), is_tiny=asked.tiny)
    if not bench.is_gpu and not bench.is_tiny:
        print("there is no GPU here; --tiny runs small shapes on the CPU", file=sys.stderr)
        return 2
    os.environ.update({**ENVIRONMENT, **os.environ})  # as in a pool's ranks
    torch.set_num_threads(torch.get_num_threads() if bench.is_gpu else 1)
    print(machine(bench, ["small shapes"] if bench.is_tiny else []), flush=True)
    failed = []
    for name in asked.sections:
        print(f"\n## {name}\n", flush=True)
        start = time.perf_counter()
        more = {"models": asked.models, "plans": asked.plans} if name in ("step", "breakdown") else {}
        if not SECTIONS[name](bench, **more):
            failed.append(name)
        print(f"\n({time.perf_counter() - start:.0f} s)", flush=True)
    if failed:
        print(f"\nnot as it should be: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
