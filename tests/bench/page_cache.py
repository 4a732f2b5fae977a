"""What loading a 256 MiB component costs in 1 and in 4 ranks: `python tests/bench/page_cache.py`.

Ranks are forked from a process that has imported the libraries, as the pool forks them; each loads the component
through its component store and reads every weight. PSS counts a page that n processes share as 1/n in each, so its sum
is what the machine really spends. A new rank's first load also makes about 12 MiB of the interpreter its own, so ranks
that have loaded something before are shown too. Linux only.
"""

# N values of one weight

import argparse
import gc
import itertools
import multiprocessing
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from large_models import write_large

from latentloom.pipelines.components import ComponentStore
from latentloom.pipelines.describe import describe_model
from latentloom.pipelines.values import Model

MIB = 1 << 20
PAGE = 4096
COLUMNS = ("Pss", "Pss_Anon", "Pss_File", "Private_Dirty")
SMALL = ("vae", "text_encoder")
"""One of each library."""


def memory() -> dict[str, int]:
    lines = [line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()]
    return {line[0][:-1]: int(line[1]) * 1024 for line in lines if line[0][:-1] in COLUMNS}


def load(model: Model, name: str, is_new: bool, barrier: Any, answers: Any) -> None:
    """In a rank: what it takes more once every rank has loaded and read the component."""
    components = ComponentStore()
    if not is_new:
        components.load(model, SMALL)
    barrier.wait()
    before = memory()
    barrier.wait()
    component = components.load(model, (name,))[name]
    num_bytes, total = 0, 0.0
    for value in component.parameters():
        num_bytes += value.nbytes
        total += float(value.view(-1)[:: PAGE // value.element_size()].sum())  # N, one of each page
    barrier.wait()
    after = memory()
    answers.put({**{key: after[key] - before[key] for key in COLUMNS}, "weights": num_bytes, "total": total})
    barrier.wait()


def raised(model: Model, name: str, num_ranks: int, *, is_new: bool) -> Mapping[str, float]:
    """By how much loading raises what all ranks together take, in bytes."""
    gc.freeze()  # collecting would write to pages that ranks share
    context: Any = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(num_ranks), context.SimpleQueue()
    ranks = [context.Process(target=load, args=(model, name, is_new, barrier, answers)) for _ in range(num_ranks)]
    for rank in ranks:
        rank.start()
    found = [answers.get() for _ in ranks]
    for rank in ranks:
        rank.join()
    return {key: sum(each[key] for each in found) for key in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    num_ranks = parser.parse_args().ranks
    torch.set_num_threads(1)
    print("component      ranks      weights MiB " + "".join(f"{name:>15}" for name in COLUMNS) + "   to 1 rank")
    with tempfile.TemporaryDirectory() as folder:
        write_large(Path(folder) / "model", width=960)
        model = describe_model(str(Path(folder) / "model"), device="cpu")
        for name, is_new in itertools.product(("transformer", "text_encoder_2"), (False, True)):
            one = raised(model, name, 1, is_new=is_new)
            for count, found in ((1, one), (num_ranks, raised(model, name, num_ranks, is_new=is_new))):
                kind = "new" if is_new else "warm"
                sizes = "".join(f"{found[key] / MIB:15.1f}" for key in COLUMNS)
                weights = found["weights"] / count / MIB
                print(f"{name:15}{count:5} {kind:4} {weights:11.1f} {sizes} {found['Pss'] / one['Pss']:11.3f}")


if __name__ == "__main__":
    main()
