"""Pools of rendered pictures that training batches are drawn from, each of one size and renewed in turn."""

import random
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Content = TypeVar("Content")
Size = tuple[int, int]


class Pools(Generic[Content]):
    """One pool per entry of `sizes` (width, height), each thrown away after `life` steps, never all at once.

    `make(size, rng, step)` fills one that is first drawn from at about that step.
    What a step is given depends on seed and step alone, so a resumed run sees what an uninterrupted one would.
    """

    def __init__(
        self, make: Callable[[Size, random.Random, int], Content], *, sizes: Sequence[Size], life: int, seed: int
    ) -> None:
        self.make, self.sizes, self.life, self.seed = make, tuple(sizes), life, seed
        self.kept: dict[int, tuple[int, Content]] = {}

    def at(self, step: int) -> Content:
        """The pool that this step draws from."""
        slot = random.Random(f"slot {self.seed} {step}").randrange(len(self.sizes))
        shift = slot * self.life // len(self.sizes)
        age = (step + shift) // self.life
        if slot not in self.kept or self.kept[slot][0] != age:
            rng = random.Random(f"pool {self.seed} {slot} {age}")
            self.kept[slot] = age, self.make(self.sizes[slot], rng, max(age * self.life - shift, 0))
        return self.kept[slot][1]
