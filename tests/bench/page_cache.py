"""What loading a 256 MiB component costs in 1 and in 4 ranks of a pool: `python tests/bench/page_cache.py`.

PSS counts a page that n processes share as 1/n in each, so its sum is what the machine really spends. A new rank's
first load also makes pages of the interpreter its own, so ranks that have loaded something before are shown too.
Linux only.
"""

import argparse
import itertools
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from drills import machine

from latentloom.parallel.pool.pool import Pool
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.pools import preloads
from latentloom.pipelines.values import Model, to_plain
from support.large_models import write_large

MIB = 1 << 20
COLUMNS = ("Pss", "Pss_Anon", "Pss_File", "Private_Dirty")
SMALL = ["vae", "text_encoder"]  # one of each library


def raised(model: Model, name: str, num_ranks: int, *, is_new: bool) -> Mapping[str, float]:
    """By how much loading raises what all ranks together take, in bytes."""
    with Pool(["cpu"] * num_ranks, preload=[*preloads(model), "drill_bodies"]) as pool:

        def every(function: str, names: list[str]) -> list[dict[str, int]]:
            request = {"model": to_plain(model), "names": names, "columns": list(COLUMNS)}
            return pool.call_every(f"drill_bodies:{function}", request, num_ranks=num_ranks)

        every("load_and_read", [] if is_new else SMALL)
        before = every("memory", [])
        weights = every("load_and_read", [name])
        after = every("memory", [])
    total = {key: sum(each[key] for each in after) - sum(each[key] for each in before) for key in COLUMNS}
    return {**total, "weights": weights[0]["num_bytes"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    num_ranks = parser.parse_args().ranks
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    print(machine())
    print("component        ranks       weights MiB " + "".join(f"{name:>15}" for name in COLUMNS) + "   to 1 rank")
    with tempfile.TemporaryDirectory() as folder:
        write_large(Path(folder) / "model", width=960)
        model = describe_model(str(Path(folder) / "model"), device="cpu")
        for name, is_new in itertools.product(("transformer", "text_encoder_2"), (False, True)):
            one = raised(model, name, 1, is_new=is_new)
            for count, found in ((1, one), (num_ranks, raised(model, name, num_ranks, is_new=is_new))):
                kind = "new" if is_new else "warm"
                sizes = "".join(f"{found[key] / MIB:15.1f}" for key in COLUMNS)
                weights = found["weights"] / MIB
                print(f"{name:15}{count:7} {kind:4} {weights:12.1f} {sizes} {found['Pss'] / one['Pss']:11.3f}")


if __name__ == "__main__":
    main()
