"""What a rank does to test transformers that do not fit its device, and so are streamed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch

from bodies.requests import request_of
from bodies.streamed_cells import shares_are_sooner
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import stages
from latentloom.pipelines.components import store as stores
from latentloom.pipelines.components.loans import may_rest
from latentloom.pipelines.components.memory import MEMORY
from latentloom.pipelines.components.resting import Resting
from latentloom.pipelines.components.shelf import Shelf
from latentloom.pipelines.components.store import store

# What is asked of a denoise beside its plan: changes of the model, and of the request.
KINDS: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "guided": ({}, {"guidance": 4.0}),
    "int8": ({"quantization": "int8"}, {}),
    "compiled": ({"engine": "inductor"}, {}),
    "first_block": ({}, {"step_cache": "first_block", "steps": 4}),
    "taylorseer": ({}, {"step_cache": "taylorseer", "steps": 6}),
    "odd": ({}, {}),
}


@contextmanager
def limited(told: str) -> Iterator[None]:
    """So much of each device may be taken."""
    with patch.dict(os.environ, {MEMORY: told}):
        store().clear()
        yield
    store().clear()


@contextmanager
def resting(share: float) -> Iterator[None]:
    """All components rest, and that share of their blocks stays: tiny models would have room for all or for none."""
    every = lambda self, use, files, keep: {each.name: 1e12 for each in files if may_rest(each, use)}  # noqa: E731
    stays = lambda self, room: int(share * len(self.blocks))  # noqa: E731
    with patch.object(Shelf, "_rooms", every), patch.object(Resting, "_most_resident", stays), limited("900000GB"):
        yield


def transformers() -> dict[str, Any]:
    return {key[2]: entry for key, entry in store()._entries.items() if key[2].startswith("transformer")}


def denoised(request: Mapping[str, Any], plan: str, kind: str, lora: Mapping[str, Any] | None = None) -> torch.Tensor:
    of_model, of_request = KINDS[kind]
    model = {**request["model"], **of_model, **({"loras": [lora]} if lora else {})}
    latents = {**request["latents"], **({"width": 80, "height": 48} if kind == "odd" else {})}
    asked = {**request, **of_request, "model": model, "latents": latents, "plan": ParallelPlan.parse(plan)}
    found = stages.denoise(asked).tensor
    assert found is not None
    return found


def compare(
    rank: int,
    model: Mapping[str, Any],
    plans: Sequence[str],
    kinds: Sequence[str],
    lora: Mapping[str, Any] | None = None,
    gathers: bool = False,
    **asked: Any,
) -> list[tuple[str, str, bool, int, int]]:
    """Of each plan and kind, with half of the blocks there and with none, twice each: whether all bits are those of the
    same plan with all weights there; and how many blocks stayed, of how many."""
    request, found = request_of(model, **asked), []
    for plan in plans:
        for kind in kinds:
            store().clear()
            whole = [denoised(request, plan, kind, lora) for _ in range(2)][1]  # graphs are made in the first one
            for share in (0.5, 0.0):
                with resting(share), patch.object(stores, "_gathers", lambda *_: gathers), shares_are_sooner(True):
                    for _ in range(2):
                        same = torch.equal(denoised(request, plan, kind, lora), whole)
                        there = [entry.resting for entry in transformers().values() if entry.resting]
                        assert there and all(each.num_bytes > each.outside_bytes for each in there)
                        assert all((each._mesh is not None) == gathers for each in there)
                        stayed = sum(each.num_resident for each in there)
                        found.append((plan, kind, same, stayed, sum(len(each.blocks) for each in there)))
    store().clear()
    return found


def one_rests(rank: int, model: Mapping[str, Any], plan: str) -> list[bool]:
    """Whether bits are the same where ranks would gather, but rank 1 alone has room for all, where none has, and where
    rank 0 alone has."""
    request, found = request_of(model), []
    store().clear()
    whole = denoised(request, plan, "plain")
    with patch.object(stores, "_gathers", lambda *_: True), shares_are_sooner(True):
        for ranks in ((0,), (0, 1), (1,)):
            with resting(0.5) if rank in ranks else nullcontext():
                for _ in range(2):
                    found.append(torch.equal(denoised(request, plan, "plain"), whole))
                    gathers = [each.resting._mesh is not None for each in transformers().values() if each.resting]
                    assert gathers == [len(ranks) > 1] * (rank in ranks)
    store().clear()
    return found


def change_loras(rank: int, model: Mapping[str, Any], loras: Sequence[Mapping[str, Any]], plan: str) -> list[bool]:
    """Whether a streamed transformer that has carried others is, with each of these, the same as a whole one."""
    request, kinds = request_of(model), [None, *loras, None, loras[0]]
    store().clear()
    wanted = [denoised(request, plan, "plain", each) for each in kinds]
    with resting(0.5):
        found = [denoised(request, plan, "plain", each) for each in kinds]
        assert all(entry.resting for entry in transformers().values())
    return [torch.equal(got, want) for got, want in zip(found, wanted, strict=True)]
