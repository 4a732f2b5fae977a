"""Noise depends on a picture's seed and on nothing else."""

import torch
from diffusers.utils.torch_utils import randn_tensor

from latentloom.pipelines.denoising.noise import generators, seeds_of
from latentloom.pipelines.values import NUM_SEEDS


def test_picture_i_has_the_noise_of_seed_plus_i() -> None:
    batch = randn_tensor((3, 4, 8, 8), generator=generators(seeds_of(7, 3)))
    for i in range(3):
        alone = randn_tensor((1, 4, 8, 8), generator=generators(seeds_of(7 + i, 1)))
        assert torch.equal(batch[i : i + 1], alone)


def test_seeds_wrap_around_at_the_largest() -> None:
    assert seeds_of(NUM_SEEDS - 1, 2) == (NUM_SEEDS - 1, 0)
    assert len(generators(seeds_of(NUM_SEEDS - 1, 2))) == 2


def test_generators_are_on_the_cpu_and_leave_the_global_one_alone() -> None:
    state = torch.random.get_rng_state()
    torch.randn(4, generator=generators([1])[0])
    assert generators([1])[0].device.type == "cpu"
    assert torch.equal(state, torch.random.get_rng_state())
