"""`latentloom.spread`: a diffusers pipeline gives on several ranks what it gives on one; bench/pipelines.py has all."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bench.pipelines import of_all, problems
from latentloom.pipelines.spreading import handed
from support.ranks import RankError, Ranks
from zoo.pipelines import tiny_of


def held(ranks: Ranks, name: str, plan: str) -> dict[str, Any]:
    """What one rank found, after it was seen to be right on all."""
    found = of_all(ranks.run("bodies.spreading:compare", name, plan, True))
    assert not problems(found)
    return found


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("FluxPipeline", [8, 5, 4]),  # one branch after the other
        ("SanaPipeline", [4, 5, 4]),  # a doubled batch
        ("ZImagePipeline", [4, 5, 4]),  # a doubled batch, as lists
        ("HunyuanVideo15Pipeline", [8, 4, 4]),  # a guider
        ("HunyuanDiTControlNetPipeline", [4, 5, 4]),  # a transformer that empties a list which it is given
        ("HiDreamImagePipeline", [4, 8, 4]),  # layers of a text encoder in front of the rows
        ("LTX2Pipeline", [12, 10, 8]),  # four branches: two rows and two calls; pictures and sound
        ("QwenImage21Pipeline", [8, 6, 5]),  # a cache that is filled in the first step
        ("WanPipeline:two experts", [8, 6, 4]),  # two transformers
    ],
)
def test_each_idiom_of_guidance_is_shared_out(pair: Ranks, name: str, calls: list[int]) -> None:
    found = held(pair, name, "cfg=2")
    assert found["calls"] == calls and tiny_of(name).branches > 1


def test_what_one_rank_hands_on_crosses_whatever_its_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [torch.tensor(0.5).expand(1), torch.tensor([1 + 2j]).conj(), torch.empty(0, 3), torch.randn(2, 3).T]
    plain, copies = handed._described(given)
    group: Any = SimpleNamespace(index=0)
    monkeypatch.setattr(handed, "_first", lambda block, *_, size: block[:size])
    told, body = handed._everywhere({"plain": plain}, copies, group, torch.device("cpu"))
    found = handed._rebuilt(told["plain"], body)
    assert all(map(torch.equal, found, given)) and [x.stride() for x in found] == [x.stride() for x in copies]


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("Flux2Pipeline:references", "ulysses=2"),
        ("ZImagePipeline", "ring=2"),
        pytest.param("LTX2Pipeline", "ring=2", marks=pytest.mark.by_hand),
        ("SanaSprintPipeline", "allgather=2"),
        pytest.param("HeliosPipeline", "ulysses=2", marks=pytest.mark.by_hand),
    ],
)
def test_tokens_are_shared_out_by_each_strategy(pair: Ranks, name: str, plan: str) -> None:
    assert held(pair, name, plan)["sent"]


def test_chunks_are_counted_as_steps_also_without_a_progress_bar(pair: Ranks) -> None:
    for steps in pair.run("bodies.spreading:stepped", "HeliosPipeline", "ulysses=2"):
        done, total = steps[-1]
        assert len(steps) == done == total > 4


def test_ranks_of_a_pool_do_not_vote_at_their_steps(pair: Ranks, saved: Callable[[str], Path]) -> None:
    for num_votes, steps in pair.run("bodies.spreading:voted", str(saved("FluxFillPipeline"))):
        assert not num_votes and steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_vae_that_was_told_to_decode_in_tiles_does_so(pair: Ranks) -> None:
    for found in pair.run("bodies.spreading:tiled"):
        assert found["tiled"] <= 1e-5 < found["untiled"]
        assert not found["told"] and found["is_restored"]


def test_guidance_and_tokens_are_shared_out_over_four(ranks: Ranks) -> None:
    alone, _, calls = held(ranks, "FluxPipeline", "cfg=2,ulysses=2")["calls"]
    assert calls < alone


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            "cfg=2,weights=2",
            "plan cfg=2,weights=2: spread keeps whole weights in each rank; leave weights and layers out",
        ),
        ("layers=2", "plan layers=2: spread keeps whole weights in each rank; leave weights and layers out"),
        ("ulysses=3", "plan ulysses=3 uses 3 ranks, but 2 were started"),
        (0, "0 ranks: give at least one, or a plan such as ulysses=2"),
    ],
)
def test_what_cannot_be_is_refused_on_all_ranks_and_changes_nothing(pair: Ranks, plan: Any, words: str) -> None:
    with pytest.raises(RankError, match=words):
        pair.run("bodies.spreading:refused", plan)


@pytest.mark.parametrize(
    ("name", "plan", "words"),
    [
        ("HunyuanDiTPAGPipeline", "cfg=2", r"plan cfg=2: cfg shares out nothing here, because .*; use allgather=2"),
        (
            "SanaPAGPipeline",
            "cfg=2",
            r"needs the rows of all branches in one call; use one device, or give pag_scale=0",
        ),
        (
            "SanaPAGPipeline",
            "ulysses=2",
            r"plan ulysses=2: perturbed attention \(pag_scale\) is none .*; use one device",
        ),
    ],
)
def test_what_a_plan_cannot_do_for_a_call_is_refused_before_its_first_step(
    pair: Ranks, name: str, plan: str, words: str
) -> None:
    first, second = pair.run("bodies.spreading:asked_once", name, plan)
    assert first == second and first[1] == 0 and re.search(words, first[0])


def test_a_number_of_ranks_is_a_plan(pair: Ranks) -> None:
    assert pair.run("bodies.spreading:planned", 2) == [("ulysses=2", "FluxPipeline")] * 2


def test_ranks_with_other_inputs_are_told(pair: Ranks) -> None:
    with pytest.raises(RankError, match="hidden_states differs between the ranks; give every rank the same tensors"):
        pair.run("bodies.spreading:other_seeds")


def test_random_numbers_without_a_generator_are_the_first_ranks(pair: Ranks) -> None:
    first, second = pair.run("bodies.spreading:without_generator")
    assert all(np.abs(each["spread"] - first["alone"]).max() <= 1e-5 for each in (first, second))
    assert np.abs(second["alone"] - first["alone"]).max() > 1e-2


def test_a_text_is_encoded_once(pair: Ranks) -> None:
    assert pair.run("bodies.spreading:encoded") == [1, 0]


def test_an_error_of_the_first_ranks_encoder_is_everyones(pair: Ranks) -> None:
    with pytest.raises(RankError, match=r"(?s)rank 0: ValueError.*`max_sequence_length` cannot be.*rank 1: ValueError"):
        pair.run("bodies.spreading:refused_text")
