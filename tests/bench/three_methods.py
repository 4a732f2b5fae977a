"""Print how near the three methods are to each other and to one process: the tables of `parallel/README.md`.

    python tests/bench/three_methods.py models    # u, r, a: Ulysses, ring, AllGather-KV; 1: one process
    python tests/bench/three_methods.py calls     # half precision, one attention call, against fp64

A few minutes each. `models`: the largest difference of tiny random models, of the largest value, on 2 / 4 ranks of one
thread on gloo.
`calls`: the error of a plan's answers by that of one process's, root mean square and largest; once by the kernel of a
CPU, which answers in fp32, once by one that rounds each answer to the model's format, as those of GPUs do.
"""

# B batch, H heads, S tokens, D head width

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.nn.functional as F
from torch import Tensor

import support.checkout  # noqa: F401 (makes the checkout importable)
from bench.drills import machine
from bodies.meshes import group_mesh
from bodies.operator_cases import reference, session_of
from latentloom.parallel.attention.kernels import KERNELS
from latentloom.parallel.attention.rows import cut_along
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding import session as sessions
from latentloom.parallel.sharding.operator import Asked
from latentloom.pipelines.spreading.transformer import shard
from support.cells import apart, model_of, outputs
from support.cells import mesh_for as mesh_of_plan
from support.launches import ROUNDS
from support.ranks import Ranks
from zoo.cases import Case

# The zoo's variant, and its heads.
MODELS = {
    "FLUX": ("flux", 4),
    "Qwen-Image (3 heads)": ("qwen_image", 3),
    "Wan": ("wan", 4),
    "SD 3": ("sd3", 4),
    "Z-Image": ("z_image", 4),
    "HunyuanVideo": ("hunyuan_video", 4),
}
SIZES = 2, 4
SHAPES = (16, 16, 32), (15, 13, 33)  # rows and columns of tokens, and of text
METHODS = ("ulysses", "ring", "allgather")
PAIRS = ("u-a", "u-r", "a-r", "u-1", "r-1", "a-1")
# Title; tokens, heads, width; what else; formats; plans.
CALLS: Sequence[tuple[str, tuple[int, int, int], Mapping[str, Any], Sequence[str], Sequence[str]]] = (
    ("scores of variance 1", (1024, 32, 64), {}, ("bf16", "fp16"), ("ring=2", "ring=4", "ulysses=2,ring=2")),
    ("scores of variance 1600", (1024, 8, 64), {"deviation": 40.0}, ("bf16", "fp16"), ("ring=2", "ring=4")),
    ("512 + 1024 tokens", (1536, 24, 128), {"text": 512}, ("bf16", "fp16"), ("ring=2", "ulysses=2", "allgather=2")),
    ("causal", (3816, 5, 128), {"is_causal": True}, ("bf16",), ("ring=2", "ring=4")),
)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("models", "calls"))
    what = parser.parse_args().what
    print(f"{machine()}, torch {torch.__version__}\n")
    with Ranks(4) as ranks:
        (print_models if what == "models" else print_calls)(ranks)


# ---- models


def print_models(ranks: Ranks) -> None:
    print(f"| model | format | {' | '.join(PAIRS)} |\n| --- | --- |{' --- |' * len(PAIRS)}")
    for title, (variant, heads) in MODELS.items():
        for dtype in ("fp32", "bf16"):
            worst = [_worst(ranks, variant, heads, dtype, size) for size in SIZES]
            cells = (" / ".join(f"{each:.1e}" if each else "0" for each in of) for of in zip(*worst, strict=True))
            print(f"| {title} | {dtype} | {' | '.join(cells)} |", flush=True)


def _worst(ranks: Ranks, variant: str, heads: int, dtype: str, size: int) -> list[float]:
    """For each pair the largest difference on any rank, of shapes whose blocks are even and uneven."""
    rows = [
        row
        for rows, columns, text in SHAPES
        for row in ranks.run(
            "bench.three_methods:differences",
            Case("held", rows=rows, columns=columns, text=text, heads=heads),
            *(variant, dtype, size),
            deadline_s=300,
        )
        if row is not None
    ]
    return [max(row[pair] for row in rows) for pair in PAIRS]


def differences(rank: int, case: Case, variant: str, dtype: str, size: int) -> dict[str, float] | None:
    """Collective: between the three methods over so many ranks and one process, of the largest value."""
    plans = [ParallelPlan.parse(f"{method}={size}") for method in METHODS]
    meshes = [mesh_of_plan(plan) for plan in plans]
    model, inputs = model_of(variant, case)
    if dtype != "fp32":
        model.to(DTYPES[dtype])
    given = {name: x if name.endswith("ids") else _made(x, DTYPES[dtype]) for name, x in inputs.items()}
    found = {"1": outputs(model, given)}
    for method, plan, mesh in zip(METHODS, plans, meshes, strict=True):
        if mesh is None:
            return None
        handle = shard(model, plan, mesh)
        found[method[0]] = outputs(model, given)
        handle.remove()
    largest = max(float(x.abs().max()) for x in found["1"])
    return {pair: apart(found[pair[0]], found[pair[2]]) / largest for pair in PAIRS}


def _made(value: Any, dtype: torch.dtype) -> Any:
    """With its floats in that format."""
    if isinstance(value, (list, tuple)):
        return type(value)(_made(each, dtype) for each in value)
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


# ---- calls


def print_calls(ranks: Ranks) -> None:
    print("| tokens x heads x width | format | plan | in fp32: rms | most | rounded: rms | most |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for title, sizes, more, dtypes, plans in CALLS:
        for dtype in dtypes:
            for plan in plans:
                given = {"sizes": sizes, "dtype": dtype, "plan": plan, **more}
                ratios: list[str] = []
                for is_rounded in (False, True):
                    found = ranks.run("bench.three_methods:errors", {**given, "is_rounded": is_rounded}, deadline_s=500)
                    ratios += _ratios([each for each in found if each is not None])
                print(
                    f"| {' x '.join(map(str, sizes))}, {title} | {dtype} | {plan} | {' | '.join(ratios)} |", flush=True
                )


def _ratios(found: list[tuple[tuple[float, float], tuple[float, float]]]) -> list[str]:
    """Of all ranks together: by how much the plan's error is larger, root mean square and largest."""
    squares = sum(plan[0] for plan, _ in found) / sum(one[0] for _, one in found)
    most = max(plan[1] for plan, _ in found) / max(one[1] for _, one in found)
    return [f"{math.sqrt(squares):.2f}", f"{most:.2f}"]


def errors(rank: int, given: Mapping[str, Any]) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Collective: squares and largest of the error to fp64, of this rank's rows and of as many of one process."""
    return _errors(**given)


def _errors(
    sizes: tuple[int, int, int],
    dtype: str,
    plan: str,
    is_rounded: bool,
    deviation: float = 1.0,
    text: int = 0,
    is_causal: bool = False,
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    mesh = group_mesh(plan)
    if mesh is None:
        return None
    tokens, heads, width = sizes
    streams = (*((("text", text, True),) if text else ()), ("image", tokens - text, True))
    session = session_of(streams, mesh)
    layout = session.layout(session.split.order)
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, tokens, heads, width, generator=draw).transpose(1, 2) for _ in range(3))
    q, k, v = (x.to(DTYPES[dtype]) for x in (q * deviation, k, v))
    here = [cut_along(x, 2, layout=layout, rank=session.rank) for x in (q, k, v)]
    kernel = ROUNDS if is_rounded else KERNELS["cpu_flash"]
    with mock.patch.object(sessions, "choose", lambda *_: kernel):
        shared = session.attend(Asked(*here, is_causal=is_causal), 0)
    one = cut_along(F.scaled_dot_product_attention(q, k, v, is_causal=is_causal), 2, layout=layout, rank=session.rank)
    mask = cut_along(torch.ones(1, 1, tokens, tokens, dtype=torch.bool).tril(), 2, layout=layout, rank=session.rank)
    wanted = reference(here[0], k, v, mask if is_causal else None, None)
    off = [(x.double() - wanted) for x in (shared, one)]
    return tuple((float(x.square().sum()), float(x.abs().max())) for x in off)


if __name__ == "__main__":
    main()
