"""A transformer's blocks over sections of ranks (`layers`): the bits of one process, what travels, and who idles."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.sharding.sections.dealing import deal
from support.ranks import RankError, Ranks

# Two streams of tokens, one, skips past the border, sound beside a picture, a refiner before the blocks.
VARIANTS = ("flux", "wan", "hunyuan_dit", "ltx2", "minimax_h3")


def test_the_longest_section_is_as_short_as_can_be() -> None:
    assert deal((1, 1, 1, 1), 2, sizes=(1, 1, 1, 1)) == (0, 0, 1, 1)
    assert deal((3, 1, 1, 1), 2, sizes=(1, 1, 1, 1)) == (0, 1, 1, 1)
    assert deal((1, 1, 1, 3), 3, sizes=(9, 1, 1, 1)) == (0, 1, 1, 2)
    assert deal((1, 1, 1), 2, sizes=(2, 1, 1)) == (0, 1, 1)


def test_a_section_holds_no_more_than_its_device_has_room_for() -> None:
    times, sizes = (1, 1, 1, 1), (7, 7, 3, 3)
    assert deal(times, 2, sizes=sizes, rooms=(10, 20)) == (0, 1, 1, 1)
    assert deal(times, 2, sizes=sizes, rooms=(10, 10)) == ()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("plan", "blocks"), [("layers=2", 2), ("layers=4", 4)])
def test_sections_give_the_bits_of_one_process(ranks: Any, variant: str, plan: str, blocks: int) -> None:
    for case in ("both_odd", "masked_odd"):
        for found in filter(None, ranks.run("bodies.sections:cell", variant, case, plan, blocks)):
            assert found["difference"] == 0 and found["largest"] > 1
            assert found["is_restored"]


@pytest.mark.parametrize("variant", ["flux", "wan", "z_image"])
def test_sections_of_several_ranks_stay_as_near_as_their_sequence_does(ranks: Any, variant: str) -> None:
    for case in ("both_odd", "masked_odd"):
        found = ranks.run("bodies.sections:cell", variant, case, "layers=2,ulysses=2", 2)
        assert max(each["difference"] for each in found) <= 1e-5 * max(1.0, found[0]["largest"])


def test_one_activation_crosses_a_border_and_the_result_comes_back(ranks: Any) -> None:
    first, last = list(filter(None, ranks.run("bodies.sections:cell", "wan", "both_odd", "layers=2", 2)))
    hidden, result = 15 * 3 * 48 * 4, 15 * 3 * 16 * 4
    assert first["sent"][1:] == [hidden] * 2
    assert last["sent"][1:] == [result] * 2


@pytest.mark.parametrize(
    ("variant", "blocks", "count", "runs", "steps", "meet"),
    [
        ("flux", 4, 2, 2, 3, True),  # blocks of two kinds, which take equally long and are not equally large
        ("wan", 8, 2, 2, 3, True),
        ("wan", 8, 4, 4, 3, True),
        ("wan", 8, 2, 4, 4, False),
        ("wan", 8, 4, 2, 4, False),
    ],
)
def test_sections_idle_no_longer_than_a_pipeline_has_to(
    ranks: Any, variant: str, blocks: int, count: int, runs: int, steps: int, meet: bool
) -> None:
    for found in filter(None, ranks.run("bodies.sections:idle", variant, blocks, count, runs, steps, meet)):
        assert found["idle"] <= found["form"] + 0.02
        assert found["same"]


def test_a_rank_reads_its_section_alone(ranks: Any, tmp_path: Path) -> None:
    found = list(filter(None, ranks.run("bodies.sections:loaded", "flux", "layers=4", str(tmp_path))))
    assert all(each["difference"] == 0 for each in found)
    assert max(each["share"] for each in found) < 0.5 and sum(each["share"] for each in found) < 1.5
    absent = [set(each["elsewhere"]) for each in found]
    assert not set.intersection(*absent) and all(absent)
    assert all("this rank holds the weights of its section alone" in each["told"] for each in found)


def test_a_section_has_the_room_of_its_smallest_device(ranks: Any) -> None:
    assert ranks.run("bodies.sections:rooms", "layers=2,ulysses=2") == [[100, 102]] * 4


@pytest.mark.parametrize(
    ("family", "plan", "idle"),
    [
        ("flux", "layers=2,ulysses=2", 1 / 3),  # of three times one: the branch with the prompt is ahead of the other
        ("wan", "layers=2,ulysses=2", 1 / 3),
        ("flux", "cfg=2,layers=2", 1 / 2),  # a branch for each group
    ],
)
def test_a_guided_denoise_by_sections_is_that_of_one_device(
    ranks: Any, tiny: Callable[[str], Path], family: str, plan: str, idle: float
) -> None:
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import to_plain

    model = to_plain(describe_model(str(tiny(family)), device="cpu"))
    for found in ranks.run("bodies.sections:denoised", model, plan, 3):
        assert found["difference"] <= 1e-5 * max(1.0, found["largest"])
        assert found["same"] or "ulysses" in plan
        assert found["idle"] <= idle + 0.02


@pytest.mark.parametrize("where", ["block", "outside"])
@pytest.mark.parametrize("at", [0, 1])
def test_an_error_of_one_rank_in_a_first_call_is_told_on_all_and_calls_go_on(ranks: Any, where: str, at: int) -> None:
    for told in filter(None, ranks.run("bodies.sections:one_fails", "layers=2", where, at)):
        assert "this rank has no memory left" in told[0]
        assert told[1:] == ["nothing was raised"] * 2 + ["0.0"]


def test_a_rank_that_dies_ends_the_calls_of_the_others() -> None:
    with Ranks(2) as pair, pytest.raises(RankError, match=r"(?s)rank 0: .*rank 1: died"):
        pair.run("bodies.sections:one_dies", "layers=2", deadline_s=60)


@pytest.mark.parametrize(
    ("variant", "what", "plan", "words"),
    [
        ("kandinsky5", "load", "layers=4", "cannot be dealt out, its 1 blocks are fewer than 4 sections"),
        ("flux2_later_step", "call", "layers=2", "given kv_cache, which one section would fill and others miss"),
        (
            "qwen_image21_first_step",
            "call",
            "layers=2",
            "a block is given a QwenImage21KVLayerCache, which one section",
        ),
        ("flux", "step cache", "layers=2", r"has a step cache \(FirstBlockCacheConfig\)"),
        ("flux", "late step cache", "layers=2", r"has a step cache \(FirstBlockCacheConfig\)"),
        ("flux", "gradients", "layers=2", "call it under torch.no_grad"),
        ("flux", "other inputs", "layers=2", "hidden_states differs between the ranks"),
        ("flux", "other inputs", "layers=2,ulysses=2", "hidden_states differs between the ranks"),
        ("flux", "last's inputs", "layers=2,ulysses=2", "differ between the ranks|see their errors"),
    ],
)
def test_what_sections_cannot_do_is_refused_by_name_on_all_ranks(
    ranks: Any, variant: str, what: str, plan: str, words: str
) -> None:
    for told in filter(None, ranks.run("bodies.sections:refused", plan, variant, what)):
        with pytest.raises(ValueError, match=words):
            raise ValueError(told)


@pytest.mark.parametrize(
    ("variant", "cases"),
    [
        ("qwen_image", ["even", "masked", "masked_odd", "both_odd"]),
        ("hunyuan_video", ["even", "masked", "odd_text", "batch2"]),
    ],
)
def test_calls_of_other_sizes_and_masks_are_told_apart(ranks: Any, variant: str, cases: list[str]) -> None:
    for found in filter(None, ranks.run("bodies.sections:other_shapes", variant, "layers=2", cases)):
        assert found == [0.0] * 8


def test_a_result_that_waits_is_used_as_any_other(ranks: Any) -> None:
    for found in filter(None, ranks.run("bodies.sections:looked_at_late", "layers=2")):
        assert found == [True] * 6


@pytest.mark.parametrize("plan", ["layers=2", "layers=2,ulysses=2"])
def test_own_blocks_are_compiled(ranks: Any, plan: str) -> None:
    for found in filter(None, ranks.run("bodies.sections:compiled", "flux", plan)):
        assert max(found) <= 1e-5 * 4
