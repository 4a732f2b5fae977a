"""What is refused at the first call or later, because silence would mean a wrong picture."""

from typing import Any

import pytest
from diffusers import FirstBlockCacheConfig

from latentloom.parallel.attention.choice import check_kernel
from latentloom.pipelines.spreading.transformer import shard
from support.cells import built


def test_groups_of_guidance_with_different_latents_are_told_on_every_rank(ranks: Any) -> None:
    assert (
        ranks.run("bodies.guided:guide_different_latents", "cfg=2,ulysses=2")
        == [
            "FluxTransformer2DModel: hidden_states differs between the ranks; "
            "give every rank the same tensors: the same seed on a CPU generator, the same prompt"
        ]
        * 4
    )


@pytest.mark.parametrize(("plan", "compiled"), [("cfg=2", False), ("cfg=2", True), ("cfg=2,ulysses=2", False)])
def test_a_plan_that_splits_guidance_is_refused_until_a_guider_asks(ranks: Any, plan: str, compiled: bool) -> None:
    for said in filter(None, ranks.run("bodies.guided:ask_without_guider", plan, compiled)):
        assert said[0] == said[1] and said[2:] == ["right"] * 3
        assert f"plan {plan}: no branch of guidance is split, because no guider of this handle asks the Flux" in said[0]
        assert "handle.guider(its guider), or leave cfg out of the plan" in said[0]


def test_a_table_that_is_too_short_is_named_with_the_remedy(ranks: Any) -> None:
    said = (
        "HunyuanDiT2DModel: its image stream has 16 tokens, but blocks.*'s image_rotary_emb has 5; "
        "give it one for each token, or one for all, or run it on one device"
    )
    assert ranks.run("bodies.rank:short_table") == [said, said, None, None]


def test_hooks_of_diffusers_guiders_that_need_all_tokens_in_one_place_are_refused_by_name(ranks: Any) -> None:
    words = {
        "blur": "blurs over the whole picture",
        "dropout": "drops values at random",
        "order": "the text as picture",
    }
    for said in filter(None, ranks.run("bodies.skipped:foreign_hooks", "ulysses=2")):
        assert all(part in said[name] and "share out guidance alone" in said[name] for name, part in words.items())
        assert "difference" in said["none"]


def test_a_processor_put_in_the_place_of_one_that_knows_other_ranks_is_refused_by_name(ranks: Any) -> None:
    for said in filter(None, ranks.run("bodies.rank:with_processors_of_others", "sana", "SanaLinearAttnProcessor2_0")):
        assert "its transformer_blocks.0.attn1 was given the attention processor SanaLinearAttnProcessor2_0" in said[0]
        assert "do without it" in said[0] and said[1:] == ["nothing was raised", "True"]


def test_a_processor_put_in_the_place_of_a_models_own_is_followed(ranks: Any) -> None:
    for said in filter(None, ranks.run("bodies.rank:with_processors_of_others", "pixart", "AttnProcessor2_0")):
        assert said[:2] == ["nothing was raised"] * 2


def test_a_cache_that_skips_blocks_is_refused_with_shared_weights() -> None:
    model, _, _ = built("flux", "even")
    model.enable_cache(FirstBlockCacheConfig())
    try:
        with pytest.raises(ValueError, match=r"has a step cache \(FirstBlockCacheConfig\).*call its disable_cache\(\)"):
            shard(model, "ulysses=2,weights=2")
    finally:
        model.disable_cache()


@pytest.mark.parametrize(
    ("kernel", "device", "words"),
    [
        ("fast", "cpu", "no attention kernel 'fast'; choose auto, cpu_flash, sdpa"),
        ("sdpa", "cpu", "kernel sdpa does not run on cpu; choose auto"),
        ("cpu_flash", "cuda", "kernel cpu_flash does not run on cuda; choose auto"),
        ("sage", "cuda", "needs the package sageattention; install it"),
    ],
)
def test_a_kernel_that_cannot_run_is_refused_before_anything_is_sharded(kernel: str, device: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_kernel(kernel, device)
