"""Compile a tiny FLUX by inductor for four plans on two ranks, and again in new processes that find it on the disk.

    python tests/bench/compiled.py                  # five minutes; needs a C++ compiler

Prints how far each plan is from one compiled process, the graphs, and what each rank found on the disk: in the second
round nothing is missing there, and nothing is compiled; what is started are inductor's questions to the C++ compiler
and trials of the processor's instructions, which it does in each process.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from support.ranks import Ranks

PLANS = ("ulysses=2", "cfg=2", "ring=2", "allgather=2")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # before the first rank, which inherits it
        os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
        model = described(Path(folder) / "flux")
        for title in ("first round", "second round, new processes"):
            with Ranks(2) as ranks:
                print(title)
                for rank, found in enumerate(
                    ranks.run("bodies.prepared:compile_for_good", model, PLANS, deadline_s=900)
                ):
                    tell(rank, found)


def described(folder: Path) -> dict[str, Any]:
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import to_plain
    from support.tiny_models import write_tiny

    return to_plain(describe_model(str(write_tiny("flux", folder)), device="cpu", engine="inductor"))


def tell(rank: int, found: dict[str, Any]) -> None:
    apart = ", ".join(f"{plan} {difference:.1e}" for plan, difference in found["differences"].items())
    cached = {
        name: count for part in found["found"].values() for name, count in sorted(part.items()) if "cache" in name
    }
    print(f"  rank {rank}: {found['seconds']:.0f} s, {found['graphs']} graphs; largest difference {apart}")
    print(f"    {cached}")
    compiled = [each for each in found["programs"] if ".cpp'" in each]
    print(f"    {len(compiled)} sources compiled; {len(found['programs']) - len(compiled)} other programs started")


if __name__ == "__main__":
    main()
