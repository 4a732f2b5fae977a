"""Counting what a GPU would be asked to launch, in one process: the other ranks of its group do not exist."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from latentloom.parallel.attention.kernels import KERNELS
from latentloom.parallel.mesh import Mesh, planned_mesh
from latentloom.parallel.plan import ParallelPlan

# Operators that launch nothing, beside those whose answer is a view.
FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "set_"}


def _rounded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, attn_mask=mask, scale=scale)


# A CPU's kernel that gives its answers in the model's format, as those of GPUs do.
ROUNDS = replace(KERNELS["cpu_flash"], with_lse=_rounded)


class Operators(TorchDispatchMode):
    """Counts operators, collectives among them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self.names.total()

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        if self._counts(func):
            self.names[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))

    def _counts(self, func: Any) -> bool:
        return True


class Launches(Operators):
    """Counts those that neither give a view nor an empty tensor."""

    def _counts(self, func: Any) -> bool:
        gives_view = any(given.alias_info and not given.alias_info.is_write for given in func._schema.returns)
        return func.overloadpacket.__name__ not in FREE and not gives_view


@contextlib.contextmanager
def lone_rank(plan: str, rank: int = 0) -> Iterator[Mesh]:
    """One rank's mesh over torch's fake process groups, whose collectives launch what others do, and send nothing."""
    mesh = planned_mesh(ParallelPlan.parse(plan), rank)
    dist.init_process_group("fake", rank=rank, world_size=mesh.plan.num_ranks, store=FakeStore())
    try:
        for group in mesh.groups.values():
            group.process_group = cast("Any", dist.new_group(list(group.ranks)))
        yield mesh
    finally:
        dist.destroy_process_group()
