"""Weights of a MODEL that ranks have no room for: the same bits block by block, and less where memory ran out."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from latentloom.nodes.hosts.native import border
from latentloom.nodes.hosts.native.border import Border
from latentloom.nodes.hosts.native.on_rank import LACKING
from latentloom.nodes.hosts.native.placed import Placed
from latentloom.parallel.errors import EASED, BadInput, OutOfMemory
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.values import Place
from support.ranks import Ranks


@pytest.mark.parametrize(("share", "stay"), [(0.75, 2), (0.97, 3)])
def test_a_model_that_does_not_fit_gives_the_same_bits_block_by_block_with_loras_and_beside_another(
    ranks: Ranks, share: float, stay: int
) -> None:
    whole = ranks.run("bodies.native_placed:sampled", 0)
    found = ranks.run("bodies.native_placed:sampled", share)
    told = f"{stay} of 6 blocks stay on cpu, the others come from the host's memory"
    for one, other in zip(whole, found, strict=True):
        assert one["bits"] == other["bits"] and len(set(one["bits"])) == 3
        assert not any(one["brought"]) and not any("blocks stay" in each for each in one["told"])
        assert all(each >= 6 - stay for each in other["brought"]) and other["brought"][1] > other["brought"][0]
        assert [each for each in other["told"] if "blocks" in each] == [told] * 6  # but where nothing has changed
        assert other["left"] == [0]  # of the model that is not asked now


@pytest.mark.parametrize(
    ("share", "stayed"), [(0.97, ["3", "1", "0"]), (2.0, ["loading the diffusion model", "6", "3", "0"])]
)
def test_memory_that_runs_out_is_answered_by_fewer_blocks_on_the_device(
    ranks: Ranks, share: float, stayed: list[str]
) -> None:
    for found in ranks.run("bodies.native_placed:lacking", share):
        codes, words, told = zip(*found[: len(stayed)], strict=True)
        assert [each.partition(" of ")[0] for each in told] == stayed
        assert codes == (*[EASED] * (len(stayed) - 1), OutOfMemory.code)  # then nothing is left to give
        assert all("cpu ran out of memory while it sampled; sample a smaller picture" in each for each in words)
        assert found[-1][0] == "" and "blocks stay" in found[-1][2]


def test_formats_that_cannot_come_block_by_block_are_refused_by_name() -> None:
    module = nn.Linear(2, 2)
    vars(module.weight)["_layout_cls"] = "TensorCoreFP8Layout"
    with pytest.raises(ValueError, match="no room for all of Linear, and weights in TensorCoreFP8Layout cannot come"):
        Placed("a", None, "cpu")._refuse_packed(module)


class Pool:
    """Ranks that answer in turn."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.requests = list(answers), []

    def states(self) -> list[Any]:
        return []

    def call(self, function: str, request: Any, progress: Any, num_ranks: int) -> Any:
        self.requests.append(request)
        if isinstance(answer := self.answers.pop(0), Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answers", "firsts"),
    [
        ([OutOfMemory("a", code=EASED), {"out": 1}], [True, True]),
        ([OutOfMemory("a", code=EASED), BadInput("b", code=LACKING), {"out": 1}], [True] * 3),
        ([BadInput("b", code=LACKING), OutOfMemory("a", code=EASED), {"out": 1}], [True] * 3),
    ],
)
def test_a_step_that_memory_ran_out_of_is_asked_again(
    answers: list[Any], firsts: list[bool], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pool = Pool(*answers)
    monkeypatch.setattr(border, "POOLS", SimpleNamespace(using=lambda place, preload: contextlib.nullcontext(pool)))
    at = Border(Place(devices=("cpu", "cpu")), ParallelPlan(ulysses=2), {})
    assert at._asked(lambda *, is_first: {"first": is_first}) == {"out": 1}
    assert [
        each["first"] for each in pool.requests
    ] == firsts and "starting again with less on the device: a" in caplog.text
    pool.answers = [OutOfMemory("nothing is left")]
    with pytest.raises(OutOfMemory, match="nothing is left"):
        at._asked(lambda *, is_first: {"first": is_first})
    assert pool.requests[-1] == {"first": False}
