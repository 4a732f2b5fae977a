"""Print what each attention strategy costs, side by side in one run with other projects' sequence parallelism.

    python tests/bench/attention.py [--sizes 1024+128 4096+256] [--runs 7] [--contenders "ours ulysses" ...]

A Flux-like model of 53 million parameters, 2 ranks of one thread each on gloo, fp32. Contenders take turns (A B C, B C
A, ...), so that a busy machine is busy for all of them. Processor seconds count what a rank's threads used, those of
gloo included; the median run counts, and stands beside that of diffusers' ulysses. Peak memory is how far a rank's
resident memory grows in one forward.

Others run only through shims, which are in `contenders.py` and touch nothing outside this benchmark: diffusers and
cache-dit are told that there is one accelerator, because they divide by the number of them; diffusers' ring is given
torch's CPU kernel, because on its own it has none. cache-dit and xfuser are run if they are installed; their ranks are
other processes, because importing cache-dit changes diffusers' attention.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.ranks import RankError, Ranks

CONTENDERS = {
    "one process": "one",
    "ours ulysses": "main",
    "ours ring": "main",
    "ours allgather": "main",
    "diffusers ulysses": "main",
    "diffusers ring": "main",
    "cache-dit ulysses": "cache-dit",
    "cache-dit ring": "cache-dit",
    "xfuser ulysses": "xfuser",
}
"""Name to the ranks that run it: a pool of processes for each project that patches another."""

PATCHED = {"diffusers ring": " (patched)"}
MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=["1024+128", "4096+256"], help="image+text tokens")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--contenders", nargs="*", default=list(CONTENDERS), choices=list(CONTENDERS))
    args = parser.parse_args()
    pools: dict[str, Ranks] = {}
    names = [name for name in args.contenders if _is_here(name)]
    for name in names:
        pools.setdefault(CONTENDERS[name].replace("one", "main"), Ranks(2))
    print(_machine(next(iter(pools.values()))), flush=True)
    for size in args.sizes:
        image, text = map(int, size.split("+"))
        print(f"\n{image} + {text} tokens\n\n{HEAD}", flush=True)
        _compare(names, pools, image=image, text=text, runs=args.runs)
    for pool in pools.values():
        pool.close()


HEAD = (
    "| | CPU s per rank | lowest, highest | to diffusers | collectives | MiB sent | MiB peak | off by at most |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def _compare(names: list[str], pools: dict[str, Ranks], *, image: int, text: int, runs: int) -> None:
    facts: dict[str, list[dict[str, Any]]] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            facts[name] = _pool(pools, name).run("bench.contenders:examine", name, image, text, deadline_s=600)
        except RankError as error:
            refused[name] = str(error).splitlines()[0].split(". ")[0]
    seconds: dict[str, list[float]] = {name: [] for name in facts}
    for turn in range(runs):
        order = list(facts)
        for name in order[turn % len(order) :] + order[: turn % len(order)]:  # nobody always follows the same one
            took = _pool(pools, name).run("bench.contenders:timed", name, image, text, deadline_s=600)
            seconds[name].append(max(took))
    base = statistics.median(seconds.get("diffusers ulysses", [float("nan")]))
    for name in names:
        if name in facts:
            print(_row(name, facts[name], seconds[name], base))
        else:
            print(f"| {name} | {refused[name]} |" + 6 * " |")
    sys.stdout.flush()


def _row(name: str, facts: list[dict[str, Any]], seconds: list[float], base: float) -> str:
    median = statistics.median(seconds)
    worst = {key: max(fact[key] for fact in facts) for key in facts[0]}
    return (
        f"| {name}{PATCHED.get(name, '')} | {median:.3f} | {min(seconds):.3f}, {max(seconds):.3f} | "
        f"{median / base:.3f} | {worst['calls']} | {worst['sent_bytes'] / MIB:.1f} | {worst['peak_bytes'] / MIB:.0f} | "
        f"{worst['difference']:.1e} of {worst['largest']:.1f} |"
    )


def _pool(pools: dict[str, Ranks], name: str) -> Ranks:
    return pools[CONTENDERS[name].replace("one", "main")]


def _is_here(name: str) -> bool:
    package = {"cache-dit": "cache_dit", "xfuser": "xfuser"}.get(CONTENDERS[name], "torch")
    if importlib.util.find_spec(package) is None:
        print(f"{name}: {package} is not installed here")
        return False
    return True


def _machine(pool: Ranks) -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    about = ", ".join(f"{name} {value}" for name, value in pool.run("bench.contenders:about")[0].items())
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}, {about}"


if __name__ == "__main__":
    main()
