"""Where noise comes from: one generator per picture, on the CPU, so that it depends on the seed and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..values import NUM_SEEDS


def seeds_of(seed: int, batch: int) -> tuple[int, ...]:
    """One seed per picture: the next picture of a batch has the next seed, so it can be made alone again."""
    return tuple((seed + i) % NUM_SEEDS for i in range(batch))


def generators(seeds: Sequence[int]) -> list[torch.Generator]:
    return [torch.Generator(device="cpu").manual_seed(seed) for seed in seeds]
