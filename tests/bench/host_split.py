"""The host time of one compiled block as rank 0 of 8, nothing on a wire: this checkout, and another one beside it.

    python tests/bench/host_split.py                              # on a CPU; needs a C++ compiler
    python tests/bench/host_split.py --other PATH/latentloom      # beside another checkout, such as that of 8c3eb376
    python tests/bench/host_split.py --device cuda:0 --plan ulysses=8 --runs 250

FLUX with 1 + 9 blocks of small heads, so that products cost little. Each way has a process of its own, and they measure
in turns, a few forwards each, so that whatever else the machine does is the same for all. Processor time of the thread
that asks, the least of all forwards, for each block: `one device` is compiled and whole, `eager` is sharded and not
compiled, `operator` has each exchange in an operator that a graph does not look into, `graph` in the graph, and `other`
is the other checkout, sharded and compiled. On a GPU it is what the host takes to ask for the work.
"""

import argparse
import contextlib
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WAYS = ("one device", "eager", "operator", "graph")
BURST = 5  # forwards of a way before the next has its turn
NUM_SINGLE = 9
LASTING = contextlib.ExitStack()  # to the end of a process
SMALL = {
    "num_layers": 1,
    "num_single_layers": NUM_SINGLE,
    "attention_head_dim": 8,
    "axes_dims_rope": (2, 2, 4),
    "joint_attention_dim": 64,
    "pooled_projection_dim": 64,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default="ulysses=8")
    parser.add_argument("--runs", type=int, default=250)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--other", type=Path, help="another checkout, to be compared with in the same run")
    parser.add_argument("--ways", nargs="*", default=None)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args)
        return
    ways = args.ways or [*WAYS, *(["other"] if args.other else [])]
    sides = {way: started(way, args) for way in ways}
    for way, side in sides.items():
        print(f"{way:12} {answer(side)}", flush=True)  # what was compiled
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(0, args.runs, BURST):
        for way, side in sides.items():
            assert side.stdin is not None
            side.stdin.write("on\n")
            side.stdin.flush()
            found[way] += map(float, answer(side).split())
    base = min(found["other"]) if args.other else min(found["operator"]) if "operator" in found else None
    print(f"\nplan {args.plan}, {args.device}, backend {args.backend}, {args.runs} forwards each, in turns\n")
    print(
        f"| way | least us a block | median | to {'other' if args.other else 'operator'} |\n| --- | --- | --- | --- |"
    )
    for way, each in found.items():
        ratio = f"{min(each) / base:.2f}" if base else ""
        print(f"| {way} | {min(each):.0f} | {statistics.median(each):.0f} | {ratio} |")
    for side in sides.values():
        side.kill()


def started(way: str, args: argparse.Namespace) -> subprocess.Popen[str]:
    given = ["--plan", args.plan, "--device", args.device, "--backend", args.backend, "--measure", way]
    more = ["--other", str(args.other)] if args.other else []
    command = [sys.executable, __file__, *given, *more]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(side: subprocess.Popen[str]) -> str:
    assert side.stdout is not None
    line = side.stdout.readline().strip()
    if not line:
        raise SystemExit("a way ended; see above")
    return line


def measure(way: str, args: argparse.Namespace) -> None:
    """In a process of its own: say what was made, then the microseconds a block of some forwards whenever asked."""
    step, said = prepared(way, args)
    print(said, flush=True)
    for _ in sys.stdin:
        took = []
        for _ in range(BURST):
            start = time.thread_time_ns()
            step()
            took.append((time.thread_time_ns() - start) / (1 + NUM_SINGLE) / 1e3)
        print(" ".join(f"{each:.1f}" for each in took), flush=True)


def prepared(way: str, args: argparse.Namespace) -> tuple[Callable[[], Any], str]:
    """A forward, warm, and in words what was compiled for it."""
    load(args.other if way == "other" else ROOT)
    import torch

    from bench.shadow_rank import SUBJECTS, Subject, forward, inputs, made
    from latentloom.parallel.sharding.shard import shard
    from latentloom.pipelines.spreading.transformer import split_plan_of
    from support.launches import lone_rank

    torch.set_num_threads(1)
    device = torch.device(args.device)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    full = SUBJECTS["flux-1024"]
    subject = Subject(**{**vars(full), "tiny": {**full.tiny, **SMALL}})
    model: Any = made(subject, device=device, dtype=dtype, is_tiny=True)
    given = inputs(subject, model, device=device, dtype=dtype, is_tiny=True)
    if way == "one device":
        model.compile_repeated_blocks(fullgraph=True, backend=args.backend)
    else:
        mesh = LASTING.enter_context(lone_rank(args.plan))
        if way == "operator":
            from latentloom.parallel.sharding import session

            session.way_of = lambda *_: "opaque"
        handle = shard(model, split_plan_of(model), mesh)
        if way != "eager":
            handle.compile(backend=args.backend)
    start = time.monotonic()
    for _ in range(4):
        forward(model, given)
    if device.type == "cuda":
        torch.cuda.synchronize()
    graphs = torch._dynamo.utils.get_compilation_metrics()
    told = ", ".join(f"{graph.co_name} with {graph.guard_count} guards" for graph in graphs)
    return lambda: forward(model, given), f"ready after {time.monotonic() - start:.0f} s: {told or 'no graph'}"


def load(root: Path) -> None:
    """The package and the tests of this checkout, whatever is installed."""
    sys.path.insert(0, str(root / "tests"))
    spec = importlib.util.spec_from_file_location(
        "latentloom", root / "__init__.py", submodule_search_locations=[str(root)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules["latentloom"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "__main__":
    main()
