"""Compiled blocks of a sharded transformer: one graph for the first lengths, one for all others, the same output."""

from typing import Any

import pytest
import torch

from bodies.compiled import failing
from latentloom.parallel.sharding.cutting import plain
from latentloom.parallel.sharding.graphs import pieces

TOLERANCE = 1e-5  # of the largest output, fp32
SIZE = [(3, 5)]  # rows and columns, uneven on two ranks


def test_the_operator_passes_the_checks_of_torch_and_compiles_in_one_graph(ranks: Any) -> None:
    for found in ranks.run("bodies.compiled:check_operator", "ulysses=2")[:2]:
        assert set(found["passed"].values()) == {"SUCCESS"}
        assert found["difference"] == 0 and found["graphs"] == 1


@pytest.mark.by_hand
def test_blocks_that_diffusers_compiles_have_one_graph_for_their_forwards(ranks: Any) -> None:
    for rank, found in enumerate(
        ranks.run("bodies.compiled:through_sizes", "flux", "ulysses=2", "diffusers", SIZE)[:2]
    ):
        assert max(found["differences"]) <= TOLERANCE
        assert found["breaks"] == {}
        num_graphs = 0 if rank else 2  # of double and single blocks, whatever their number
        assert found["graphs"] == [num_graphs]
        assert found["bare"] == 0 and found["left"] == []
        assert found["again"] <= TOLERANCE and found["graphs_again"] == num_graphs, "graphs are found again"


def test_blocks_whose_weights_are_shared_out_compile_too(ranks: Any) -> None:
    found = ranks.run("bodies.compiled:through_sizes", "wan", "ulysses=2,weights=2", "handle", SIZE, deadline_s=280)[0]
    assert max(found["differences"]) <= TOLERANCE
    assert found["breaks"] == {} and found["graphs"] == [1]


def test_a_view_that_is_conjugated_or_negated_by_its_name_only_keeps_its_numbers() -> None:
    numbers = torch.tensor([1 + 2j, 3 - 4j]).conj()
    for view in (numbers, numbers.imag[:1]):
        assert torch.equal(plain(view), view)


SIZES = [(4, 4), (3, 5)]  # even on two ranks, and not
EAGER = {"backend": "eager"}
BROKEN = {"fullgraph": False, "backend": "eager"}
SINGLE = "num_single_layers"
# A plan, sizes, which ranks compile, with what, and blocks that are left out: to trace takes seconds, and the other
# rank only answers.
IN_GRAPH = [
    ("ulysses=2", SIZE, {0: {"backend": "aot_eager"}}, ""),
    pytest.param("ulysses=2", SIZES, {1: EAGER}, "", marks=pytest.mark.by_hand),
    ("allgather=2", SIZES, {1: EAGER}, SINGLE),
    ("ring=2", SIZE, {0: EAGER}, SINGLE),
    pytest.param("ring=2", SIZES, {0: EAGER}, "", marks=pytest.mark.by_hand),
    pytest.param("ulysses=2", SIZES, {0: {"backend": "aot_eager"}, 1: EAGER}, "", marks=pytest.mark.by_hand),
]


@pytest.mark.parametrize(("plan", "sizes", "by_rank", "without"), IN_GRAPH)
def test_an_exchange_in_the_graph_gives_what_the_operator_gives(
    ranks: Any, plan: str, sizes: list[tuple[int, int]], by_rank: dict[int, dict[str, Any]], without: str
) -> None:
    everyone = ranks.run("bodies.compiled:in_graph", "flux", plan, sizes, 4, {}, "", by_rank, without, deadline_s=280)
    for rank, found in enumerate(everyone[:2]):
        assert set(found["ways"]) == ({plan.partition("=")[0]} if rank in by_rank else set())
        assert max(found["eager"]) == 0 and max(found["alone"]) <= TOLERANCE
        assert found["is as much sent"]


def test_an_exchange_in_the_graph_that_mixes_up_what_arrives_is_found_wrong(ranks: Any) -> None:
    found = ranks.run("bodies.compiled:in_graph", "flux", "ulysses=2", SIZE, 4, {}, "mixed up", {0: EAGER}, SINGLE)[0]
    assert min(found["eager"]) > 1e-3


@pytest.mark.parametrize("plan", ["ulysses=2", pytest.param("ring=2", marks=pytest.mark.by_hand)])
def test_a_rank_where_torch_fails_works_on_with_one_where_it_does_not(ranks: Any, plan: str) -> None:
    options = {**BROKEN, "backend": failing}
    found = ranks.run("bodies.compiled:in_graph", "flux", plan, SIZE, 4, options, "", None, SINGLE)[:2]
    assert [each["left out"] for each in found] == [[], ["RuntimeError: planted"]]
    assert max(*found[0]["eager"], *found[1]["eager"]) == 0
    assert all(each["is as much sent"] for each in found)


def test_a_block_that_torch_cannot_trace_gives_what_it_gives_eager(ranks: Any) -> None:
    found, other = ranks.run(
        "bodies.compiled:in_graph", "flux", "ulysses=2", SIZE, 4, {}, "untraceable", {0: BROKEN}, SINGLE
    )[:2]
    assert found["are broken"] and found["left out"]
    assert found["graphs"], "of what it can trace"
    assert max(*found["eager"], *other["eager"]) == 0 and found["is as much sent"] and other["is as much sent"]


def test_what_torch_fails_at_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def fails(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        raise RuntimeError("planted")

    run = pieces.in_pieces(lambda x: x + 1, "Block of Model", {"backend": fails})
    assert [int(run(torch.ones(n).sum())) for n in (1, 2)] == [2, 3]
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(told) == 1
    assert "a part of it runs eager, because torch failed (RuntimeError: planted)" in told[0]


@pytest.mark.parametrize("plan", [pytest.param("ulysses=1", marks=pytest.mark.by_hand), "ulysses=2"])
def test_no_graph_answers_for_what_was_changed_since(ranks: Any, plan: str) -> None:
    for found in ranks.run("bodies.compiled:through_changes", plan, deadline_s=280):
        for what, (difference, is_found_again) in (found or {}).items():
            assert difference == 0, what
            assert is_found_again or what == "q, k and v fused", what


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("before", "shard it first"),
        ("whole_before", "shard it first"),
        ("whole_after", "call compile() of its handle"),
        ("twice", "compile them once"),
        ("captured", "cannot be compiled with mode 'reduce-overhead', which captures CUDA graphs"),
        ("captured_by_diffusers", "cannot be compiled with option 'triton.cudagraphs'"),
    ],
)
def test_what_would_take_hooks_into_a_graph_is_refused_by_name(ranks: Any, how: str, words: str) -> None:
    for told in ranks.run("bodies.compiled:refused", how, "ulysses=2")[:2]:
        assert words in told and "FluxTransformer2DModel" in told
