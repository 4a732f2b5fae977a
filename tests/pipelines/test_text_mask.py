"""A mask of the text that hides nothing is left out."""

import functools
from typing import Any

import torch
from torch import nn

from latentloom.pipelines import stages
from latentloom.pipelines.denoising.text_mask import unmasked
from support.tiny_rows import TINY_ROWS, request_of

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


def test_an_edit_is_painted_without_a_mask(model: Any, monkeypatch: Any) -> None:
    """Qwen-Image-Edit Plus reads its texts unpadded; test_rows.py compares what is painted."""
    from diffusers import QwenImageTransformer2DModel

    seen: list[bool] = []
    forward = QwenImageTransformer2DModel.forward

    @functools.wraps(forward)  # guiders read its signature
    def looking(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["encoder_hidden_states_mask"] is not None)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(QwenImageTransformer2DModel, "forward", looking)
    stages.denoise(request_of(model("qwen_image_edit_plus"), TINY_ROWS["qwen_image_edit_plus"]))
    assert seen and not any(seen)
