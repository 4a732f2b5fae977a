"""What a rank does to test weights that ranks read together, each a share."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from latentloom.parallel import together
from latentloom.parallel.mesh import mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.components import store as stores
from latentloom.pipelines.values import Model, from_plain

PLAN = ParallelPlan(ulysses=2)
NAMES = ("transformer", "transformer_2?", "scheduler")


def read_by_turns(rank: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Whether a transformer that the ranks read together is as each reads it alone, and how much of it this rank
    brought to its device for all: at first, when all have it, and when rank 1 alone lost it."""
    model, own = from_plain(Model, {**given, "device": "cpu:0"}), stores.ComponentStore()  # as if it were another
    alone = _tensors(stores.ComponentStore().load(model, NAMES))
    found: dict[str, Any] = {"bytes": sum(each.nbytes for each in alone), "same": []}
    with _counted() as moved:
        for turn in ("first", "kept", "lost"):
            if turn == "lost" and rank == 1:
                own.clear()
            moved.clear()
            with own.lent(model, NAMES, plan=PLAN) as parts:
                both = zip(_tensors(parts), alone, strict=True)
                found["same"].append(all(torch.equal(one, other) for one, other in both))
            found[turn] = sum(moved)
    return found


def voted(rank: int, lacking: list[list[str]]) -> bool:
    """Whether the ranks read together, of which each lacks these."""
    return together.who_reads(lacking[rank], mesh_for(PLAN)) is not None


def agreed(rank: int, wishes: list[list[int]], same: list[str]) -> list[int] | None:
    return together.start_agreeing(wishes[rank], same[rank], mesh_for(PLAN))()


def spoilt(rank: int) -> str:
    """What the ranks are told when what rank 1 read arrives at rank 0 as something else."""
    readers = together.who_reads(["a"], mesh_for(PLAN))
    assert readers is not None
    readers.moving(torch.device("cpu"))(torch.ones(1 << 20))
    if rank == 0:
        assert readers._sums is not None
        readers._sums[1] += 1
    try:
        readers.check()
    except RuntimeError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def _counted() -> Iterator[list[int]]:
    """Ranks on a CPU read together, small tensors too; bytes of each tensor that this rank brings to its device."""
    moved: list[int] = []

    def moving(device: torch.device) -> Any:
        def move(tensor: Tensor) -> Tensor:
            moved.append(tensor.nbytes)
            return tensor.to(device)

        return move

    with (
        mock.patch.object(together, "moving", moving),
        mock.patch.object(together, "LEAST_BYTES", 64),
        mock.patch.object(stores, "_reads_together", lambda *_: True),
    ):
        yield moved


def _tensors(parts: Mapping[str, Any]) -> list[Tensor]:
    return [each for name in sorted(parts) if "transformer" in name for each in parts[name].state_dict().values()]
