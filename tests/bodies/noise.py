"""What was drawn from generators, here or on each rank: the noise before it is rounded to a number format."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import stages


class Draws(TorchFunctionMode):
    """Within it, each tensor that `torch.randn` makes of a generator is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is torch.randn and (kwargs or {}).get("generator") is not None:
            self.found.append(made.clone())  # some blocks write into it
        return made


def denoise(rank: int, requests: Sequence[Mapping[str, Any]], plan: str) -> list[list[tuple[str, Any]]]:
    """The format and the numbers of each draw, for each request."""
    found = []
    for request in requests:
        with Draws() as draws:
            stages.denoise({**request, "plan": ParallelPlan.parse(plan)})
        found.append([(str(each.dtype), each.double().flatten().tolist()) for each in draws.found])
    return found
