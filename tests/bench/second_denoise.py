"""Print what a denoise costs before its first block, the first time and then: FLUX's 57 blocks at tiny width, 2 ranks.

    python tests/bench/second_denoise.py            # a minute; --plan ring=2, --compiled, --profile for where it goes

From the stage's entry in the rank to the first block's forward, in processor time of its thread and on the clock.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from support.ranks import Ranks

TIMES = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", default="ulysses=2")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--profile", action="store_true", help="print where the time of all but the first goes")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Ranks(2) as ranks:
        model = {**described(Path(folder)), "engine": "inductor" if asked.compiled else "eager"}
        found = ranks.run("bodies.second_denoise:timed", model, asked.plan, TIMES, asked.profile, deadline_s=600)
        for rank, (clock, processor, told) in enumerate(found):
            first, *later = zip(clock, processor, strict=True)
            print(f"rank {rank}, {asked.plan}: first {first[0]:.1f} ms ({first[1]:.1f} of processor); then", end=" ")
            least, middle = ([f(each) for each in zip(*later, strict=True)] for f in (min, median))
            print(f"at least {least[0]:.2f} ({least[1]:.2f}), median {middle[0]:.2f} ({middle[1]:.2f})")
            print(told, end="")


def described(folder: Path) -> Mapping[str, Any]:
    """The tiny FLUX with as many blocks as the large one, as plain data."""
    import torch
    from diffusers import FluxTransformer2DModel

    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import to_plain
    from support.tiny_models import flux
    from support.tiny_parts import fill

    torch.manual_seed(0)
    pipeline = flux()
    deep = {**pipeline.transformer.config, "num_layers": 19, "num_single_layers": 38}
    pipeline.register_modules(transformer=FluxTransformer2DModel.from_config(deep))
    fill(pipeline)
    pipeline.save_pretrained(str(folder))
    return to_plain(describe_model(str(folder), device="cpu"))


if __name__ == "__main__":
    main()
