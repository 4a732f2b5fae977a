"""What is loaded now, here and in ranks; a toy pool stands for processes."""

import dataclasses
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from latentloom.parallel.errors import RankFailed
from latentloom.parallel.progress import SILENT, Progress
from latentloom.parallel.ranks.seat import Seat
from latentloom.pipelines import pools as loaded_module
from latentloom.pipelines.components.memory import Held
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.pools import loaded, on_rank


class ToyPool:
    """Answers as two ranks would, with one component each."""

    def __init__(
        self, *, is_working: bool = False, is_ready: bool = True, replicas: int = 1, error: Exception | None = None
    ) -> None:
        self.size = 2 // replicas
        self.is_working, self.error = is_working, error
        self.ranks = [SimpleNamespace(is_ready=is_ready) for _ in range(2)]

    def states(self) -> list[SimpleNamespace]:
        return self.ranks

    def call_every(self, function: str, request: Mapping[str, Any], progress: Progress, *, num_ranks: int) -> list[Any]:
        assert function == ".pipelines.pools:on_rank"
        if self.error is not None:
            raise self.error
        return [[dataclasses.asdict(held(f"cuda:{rank}"))] for rank in range(num_ranks)]


def held(device: str) -> Held:
    return Held(folder="/a", component="vae", device=device, num_bytes=5)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> ComponentStore:
    store = ComponentStore()
    monkeypatch.setattr(loaded_module, "store", lambda: store)
    return store


def with_pool(monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    monkeypatch.setattr(loaded_module.POOLS, "without_work", lambda: [ToyPool(**options)])


def test_the_components_of_this_process_are_told(store: ComponentStore) -> None:
    assert loaded() == []
    model = describe_model("builtin:bobbin", device="cpu")
    vae = store.load(model, ("vae", "scheduler"))["vae"]
    num_bytes = 4 * sum(weight.numel() for weight in vae.parameters())
    assert loaded() == [Held(folder=model.folder, component="vae", device="cpu", num_bytes=num_bytes)]


def test_ranks_without_work_answer_for_themselves(store: ComponentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with_pool(monkeypatch)
    assert loaded() == [held("cuda:0"), held("cuda:1")]


@pytest.mark.parametrize(
    "options",
    [{"is_working": True}, {"is_ready": False}, {"replicas": 2}, {"error": RankFailed("other work")}],
    ids=lambda options: next(iter(options)),
)
def test_ranks_that_cannot_answer_at_once_are_left_out(
    options: dict[str, Any], store: ComponentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pool(monkeypatch, **options)
    assert loaded() == []


def test_a_rank_answers_in_plain_data(store: ComponentStore) -> None:
    store.load(describe_model("builtin:bobbin", device="cpu"), ("vae",))
    [answer] = on_rank({}, SILENT, Seat(rank=0, num_ranks=1, device="cpu"))
    assert Held(**answer) == store.held()[0]
