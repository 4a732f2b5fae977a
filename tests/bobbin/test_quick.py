"""What makes training quicker on a CPU changes no numbers."""

import copy

import pytest
import torch
from torch import nn

from bobbin.network.architecture import build_transformer, build_vae
from bobbin.network.quick import QuickAttention, QuickGroupNorm, hasten


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The gradients by name."""
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def assert_alike(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys() and expected
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-5 * max(1, value.abs().max().item()), rtol=1e-4)


def test_a_hastened_autoencoder_has_the_same_results_and_gradients() -> None:
    torch.manual_seed(0)
    plain = build_vae().train()
    quick = copy.deepcopy(plain).to(memory_format=torch.channels_last)
    hasten(quick)
    assert {type(m) for m in quick.modules() if isinstance(m, nn.GroupNorm)} == {QuickGroupNorm}
    x = torch.randn(2, 3, 32, 48)
    results = []
    for vae in (plain, quick):
        y = vae.decode(vae.encode(x).latent_dist.mode()).sample
        y.square().mean().backward()
        results.append(y.detach())
    torch.testing.assert_close(results[1], results[0], atol=1e-4, rtol=1e-4)
    assert_alike(weights(quick), weights(plain))


@pytest.mark.filterwarnings("ignore")
def test_quick_attention_has_the_results_and_gradients_of_diffusers_own() -> None:
    torch.manual_seed(0)
    plain = build_transformer(latent_channels=16).train()
    quick = copy.deepcopy(plain)
    quick.set_attn_processor(QuickAttention())
    y, x = torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")
    given = {
        "hidden_states": torch.randn(2, 12, 64),
        "encoder_hidden_states": torch.randn(2, 7, 128),
        "pooled_projections": torch.randn(2, 128),
        "timestep": torch.rand(2),
        "img_ids": torch.stack([torch.zeros_like(y), y, x], dim=-1).reshape(-1, 3).float(),
        "txt_ids": torch.zeros(7, 3),
    }
    results = []
    for transformer in (plain, quick):
        velocity = transformer(**given, return_dict=False)[0]
        velocity.square().mean().backward()
        results.append(velocity.detach())
    assert results[0].abs().max() > 0.1
    torch.testing.assert_close(results[1], results[0], atol=1e-5, rtol=1e-4)
    assert_alike(weights(quick), weights(plain))
