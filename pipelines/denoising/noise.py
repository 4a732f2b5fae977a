"""Where noise comes from: one generator per picture, on the CPU, whose noise is drawn in fp32 and then rounded, so that
it depends on the seed and on nothing else.

`torch.randn` draws other noise for bf16 and fp16 than for fp32 (torch 2.11 always, 2.13 where the length is no multiple
of 16), and diffusers asks for it in the model's number format, in each of its blocks by itself. A block that takes a
generator therefore runs within `DrawnInFp32`: one seed is then one picture on every device, in every format and
quantization. Who asks for `diffusers` noise has diffusers' own bits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..values import NUM_SEEDS, Noise

HALF = (torch.bfloat16, torch.float16)


class Seeded(torch.Generator):
    """A generator whose noise is the same in every number format."""


class DrawnInFp32(TorchFunctionMode):
    """Within it, what `Seeded` generators draw for half precision is drawn in fp32 and rounded."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        dtype = kwargs.get("dtype")
        if func is torch.randn and dtype in HALF and isinstance(kwargs.get("generator"), Seeded):
            return func(*args, **{**kwargs, "dtype": torch.float32}).to(dtype)
        return func(*args, **kwargs)


class Drawing:
    """To come before the class of a block of diffusers that takes generators."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        draw: Callable[..., Any] = super().__call__  # pyrefly: ignore[missing-attribute]
        with DrawnInFp32():
            return draw(*args, **kwargs)


def seeds_of(seed: int, batch: int) -> tuple[int, ...]:
    """One seed per picture: the next picture of a batch has the next seed, so it can be made alone again."""
    return tuple((seed + i) % NUM_SEEDS for i in range(batch))


def generators(seeds: Sequence[int], noise: Noise = "seed") -> list[torch.Generator]:
    kind = Seeded if noise == "seed" else torch.Generator
    return [kind(device="cpu").manual_seed(seed) for seed in seeds]
