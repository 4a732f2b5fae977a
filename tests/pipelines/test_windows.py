"""Attention by windows, of the decoder of LTX-2.5 that denoises: what diffusers' mask of all tokens gives."""

import pytest
import torch
from diffusers.models.autoencoders.ltx2_diffusion_decoder import LTX2VideoVaeNeighborhoodAttention

from latentloom.pipelines.families.ltx_blocks import Windows


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    ("sizes", "kernel"),
    [((5, 11, 20), (3, 7, 7)), ((13, 12, 11), (11, 11, 11)), ((9, 17, 10), (3, 5, 5)), ((4, 8, 16), (3, 8, 1))],
)
def test_tiles_of_windows_give_what_a_mask_of_all_tokens_gives(
    sizes: tuple[int, int, int], kernel: tuple[int, int, int]
) -> None:
    torch.manual_seed(0)
    attention = LTX2VideoVaeNeighborhoodAttention(32, kernel, head_dim=16).eval()
    tokens = torch.randn(2, *sizes, 32)
    with torch.no_grad():
        whole = attention(tokens, attention.build_block_mask(tokens))
        attention.set_processor(Windows())
        assert attention.build_block_mask(tokens) is None  # it is what has no room
        assert float((attention(tokens) - whole).abs().max()) <= 1e-6
