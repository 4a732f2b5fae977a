"""What is refused at the first call or later, because silence would mean a wrong picture."""

from typing import Any

import pytest

from latentloom.parallel.attention.local import check_kernel


def test_groups_of_guidance_with_different_latents_are_told_on_every_rank(ranks: Any) -> None:
    assert (
        ranks.run("guided:guide_different_latents", "cfg=2,ulysses=2")
        == [
            "FluxTransformer2DModel: hidden_states differs between the ranks; "
            "give every rank the same tensors: the same seed on a CPU generator, the same prompt"
        ]
        * 4
    )


def test_a_cache_that_decides_by_tokens_is_refused_even_if_turned_on_later(ranks: Any) -> None:
    for said in ranks.run("guided:cache_after_shard", "ulysses=2")[:2]:
        assert "has a step cache (FirstBlockCacheConfig)" in said
        assert "call its disable_cache() first" in said


@pytest.mark.parametrize(
    ("kernel", "device", "words"),
    [
        ("fast", "cpu", "there is no attention kernel 'fast'"),
        ("sdpa", "cpu", "kernel sdpa does not run on cpu; choose auto"),
        ("cpu_flash", "cuda", "kernel cpu_flash does not run on cuda; choose auto"),
        ("sage", "cuda", "needs the package sageattention; install it"),
    ],
)
def test_a_kernel_that_cannot_run_is_refused_before_anything_is_sharded(kernel: str, device: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_kernel(kernel, device)
