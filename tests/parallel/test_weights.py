"""Weight sharding: the same output from a share of the weights, loaded whole or in parts."""

from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.components.loading import load_sharded
from support.by_hand import cells

TOLERANCE = 1e-5  # of the largest output, fp32


PLANS = ("ulysses=2,weights=2", "ulysses=2,cfg=2,weights=4", "ulysses=2,ring=2,weights=2")
VARIANTS = ("flux", "pixart", "dit")


@pytest.mark.parametrize(("plan", "variant"), cells(PLANS, VARIANTS, here=[*zip(PLANS, VARIANTS, strict=True)]))
def test_shared_weights_give_what_one_process_gives(ranks: Any, variant: str, plan: str) -> None:
    found = [each for each in ranks.run("bodies.shares:shared_out", variant, plan) if each is not None]
    assert max(each["difference"] for each in found) <= TOLERANCE * max(1.0, found[0]["largest"])


@pytest.mark.parametrize("plan", ["cfg=2,weights=2", "allgather=2,cfg=2,weights=4"])
def test_a_rank_holds_its_share_of_the_weights_between_forwards(ranks: Any, plan: str) -> None:
    found = [each for each in ranks.run("bodies.shares:shared_out", "flux", plan) if each is not None]
    count = ParallelPlan.parse(plan).weights
    assert len(found) == ParallelPlan.parse(plan).num_ranks
    assert all(abs(each["share"] * count - 1) <= 0.01 for each in found), "but for padding"
    assert all(each["sent"] > 0 for each in found), "gathers of weights are counted"


@pytest.mark.parametrize("plan", ["ulysses=2,ring=2,weights=4", "ulysses=2,weights=2", "ring=2"])
def test_streamed_weights_are_those_of_the_whole_model(ranks: Any, plan: str, tmp_path: Path) -> None:
    found = [
        each for each in ranks.run("bodies.shares:streamed", "flux", plan, "fp32", str(tmp_path)) if each is not None
    ]
    assert found[0]["files"] > 1
    assert all(each["same"] for each in found), "bit for bit"
    assert all(each["difference"] <= TOLERANCE for each in found)


def test_streamed_weights_are_cast_as_diffusers_casts_them(ranks: Any, tmp_path: Path) -> None:
    found = ranks.run("bodies.shares:streamed", "wan", "ulysses=4,weights=4", "bf16", str(tmp_path))
    assert all(each["same"] for each in found)
    assert found[0]["dtypes"] == ["torch.bfloat16", "torch.float32"], "Wan keeps some modules in fp32"


def test_streaming_never_holds_more_than_the_share_and_a_few_tensors(ranks: Any, tmp_path: Path) -> None:
    found = ranks.run("bodies.shares:streamed", "flux", "ulysses=4,weights=4", "bf16", str(tmp_path), True)
    assert found[0]["whole_peak"] >= found[0]["whole"], "the count sees a model that is loaded whole"
    for each in found:
        assert each["peak"] <= each["whole"] / 4 + 4 * each["largest"] < each["whole"] / 2


def test_a_lora_loaded_before_sharing_out_is_kept(ranks: Any) -> None:
    for each in ranks.run("bodies.shares:with_lora", "ulysses=4,weights=4"):
        assert each["difference"] <= TOLERANCE < each["lora"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("twice", ("sharded already", "FluxTransformer2DModel")),
        ("quantized", ("without quantization", "FluxTransformer2DModel")),
        ("offloaded", ("use one of the two", "FluxTransformer2DModel")),
        ("late_lora", ("lora", "load LoRAs and the like before shard")),
        ("remove", ("plan ulysses=4,weights=4", "load it anew, or use weights=1")),  # for none can make it whole again
    ],
)
def test_what_shared_weights_do_not_allow_is_refused_by_name(ranks: Any, what: str, words: tuple[str, str]) -> None:
    for told in ranks.run("bodies.shares:refused", what, "ulysses=4,weights=4"):
        assert all(each in told for each in words)


def test_different_inputs_are_refused_in_the_other_branch_of_guidance_too(ranks: Any) -> None:
    told = ranks.run("bodies.shares:refused", "other_inputs", "cfg=2,ulysses=2,weights=4")
    assert all("hidden_states differs" in each for each in told[:2])
    assert all("ranks that work with this one were given different inputs" in each for each in told[2:])


def test_a_failed_forward_leaves_nothing_gathered_and_the_next_one_is_right(ranks: Any) -> None:
    for each in ranks.run("bodies.shares:after_failure", "ulysses=4,weights=4"):
        assert each["told"] == "out of memory, say"
        assert each["left"] == 1
        assert each["difference"] <= TOLERANCE


def test_weights_that_would_straddle_two_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="a number that divides 3, or a multiple of it"):
        ParallelPlan(cfg=2, ulysses=3, weights=2)


def test_a_folder_that_names_no_class_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="does not name its class"):
        load_sharded(tmp_path, "ulysses=2", dtype="fp32")
