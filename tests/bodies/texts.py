"""What a rank does to test where text encoders work."""

from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch

from bodies.resting import limited, resting
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import SILENT, Progress
from latentloom.parallel.streaming.pinned import Pinned
from latentloom.pipelines import stages
from latentloom.pipelines.components import store as stores
from latentloom.pipelines.components.loans import may_rest
from latentloom.pipelines.components.resting import Resting
from latentloom.pipelines.components.shelf import Shelf
from latentloom.pipelines.components.store import store

SETTLE = Resting._settle


def encoded(model: Mapping[str, Any], *, split: int = 1, progress: Progress = SILENT) -> list[torch.Tensor]:
    """All that a text and its negative become."""
    text = {
        "prompt": "a red circle",
        "negative_prompt": "blue",
        "text_length": 0 if model["family"] == "minimax_h3" else 33,
    }
    found = stages.encode_text({"model": model, "split": split, **text}, progress)
    return [*found.positive.values(), *(found.negative or {}).values()]


def compare(rank: int, model: Mapping[str, Any], other: Mapping[str, Any]) -> list[bool]:
    """Whether the other model's texts have this one's bits: as they are, with half of the blocks there, with none; and
    that what is there of the other is on the CPU."""
    store().clear()
    wanted, found = encoded(model), list[bool]()
    store().clear()
    found.append(all(map(torch.equal, encoded(other), wanted)))
    for share in (0.5, 0.0):
        with resting(share):
            found += [all(map(torch.equal, encoded(other), wanted)) for _ in range(2)]
            assert any(entry.resting for entry in store()._entries.values())
            assert {each.device for each in store().held()} == {"cpu"}
    store().clear()
    return found


class _Cancels(Progress):
    def phase(self, text: str, *, is_loading: bool = False) -> None:
        if text == "encoding text":
            raise Cancelled


def split(rank: int, model: Mapping[str, Any], *, is_shared: bool = True) -> list[bool]:
    """Whether texts have the bits of one rank where two hold the encoders between them: twice, after a cancel, where
    one rank holds none of them any more, and by one rank alone afterwards. Shares come from the host once, or where
    one has no room for them, each brings whole blocks."""
    store().clear()
    wanted, group = encoded(model), mesh_for(ParallelPlan(ulysses=2))[Axis.SEQUENCE]
    store().clear()
    every = lambda self, use, files, keep: {each.name: 1e12 for each in files if may_rest(each, use)}  # noqa: E731
    found = list[bool]()
    with (
        limited("900000GB"),
        patch.object(Shelf, "_rooms", every),
        patch.object(stores, "_gathers", lambda *_: True),
        patch.object(Resting, "_settle", _pinned),
    ):
        for turn in range(3):
            found.append(all(map(torch.equal, encoded(model, split=2), wanted)))
            there = [entry.resting for entry in store()._entries.values() if entry.resting]
            assert there and all((each._mesh is not None) == is_shared for each in there)
            for each in there if is_shared else ():
                assert each.num_bytes == each.shared_bytes(group) and each.num_resident == 0
                [kept] = [each._streamed._mover._kept]  # type: ignore[union-attr]
                assert len(kept) == len(each.blocks)
                for layout in kept:  # from here on nothing is read of it
                    layout.copies = _nothing  # type: ignore[method-assign]
            if turn == 1:
                with pytest.raises(Cancelled):
                    encoded(model, split=2, progress=_Cancels())
                if rank:
                    store().clear()
        found.append(all(map(torch.equal, encoded(model), wanted)))
        assert not any(entry.resting._mesh for entry in store()._entries.values() if entry.resting)
    return found


def _nothing(*_: Any, **__: Any) -> Any:
    raise AssertionError("a share that is kept is brought again")


def short_of_room(rank: int, model: Mapping[str, Any]) -> list[bool]:
    """As `split`, where the second rank has no room for a share."""
    with patch.object(Resting, "shared_bytes", lambda *_: 1e13) if rank else nullcontext():
        return split(rank, model, is_shared=False)


def _pinned(self: Resting) -> None:
    """In the same order on all ranks, as what is pinned for a GPU does."""
    SETTLE(self)
    nothing = SimpleNamespace(cudaHostRegister=lambda *_: 0, cudaHostUnregister=lambda *_: 0)
    Pinned(self.blocks, without=self._without, cudart=nothing)
    SETTLE(self)
