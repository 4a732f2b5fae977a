"""A mask of the text that hides nothing is left out."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from latentloom.pipelines.denoising.text_mask import unmasked

TOKENS, SOME = torch.arange(5.0), torch.tensor([[1, 0, 1, 0, 0]])


class Asked(nn.Module):
    """Tells whether it was given a mask."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> bool:
        return mask is not None


def test_a_mask_is_left_out_only_if_neither_text_hides_anything() -> None:
    asked, whole = Asked(), torch.ones(1, 5)
    texts = {"prompt_embeds_mask": whole, "negative_prompt_embeds_mask": whole}
    with unmasked(asked, "mask", texts):
        assert not asked(TOKENS, mask=whole)
    for argument, given in (("", texts), ("mask", {**texts, "negative_prompt_embeds_mask": SOME})):
        with unmasked(asked, argument, given):
            assert asked(TOKENS, mask=whole)
    assert asked(TOKENS, mask=whole)


def test_another_thread_that_shares_the_transformer_keeps_its_mask() -> None:
    asked = Asked()
    with unmasked(asked, "mask", {"prompt_embeds_mask": torch.ones(1, 5)}), ThreadPoolExecutor(1) as other:
        assert other.submit(asked, TOKENS, mask=SOME).result()
