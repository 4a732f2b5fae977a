"""Padding of a text is left out, and masks that hide nothing, on one device as on several."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from latentloom.pipelines import stages
from latentloom.pipelines.denoising import padding
from latentloom.pipelines.denoising.padding import unmasked, without_padding
from support.tiny_rows import TINY_ROWS, request_of

MASK = torch.tensor([[1, 0, 1, 0, 0], [1, 0, 0, 1, 0]])
TOKENS = torch.arange(10.0).view(2, 5, 1)


@pytest.mark.parametrize(
    ("where", "mask", "kept"),
    [
        ("anywhere", MASK, [0, 2, 3]),
        ("end", MASK, [0, 1, 2, 3]),
        ("kept", MASK, [0, 1, 2, 3, 4]),
        ("anywhere", torch.ones(2, 5), [0, 1, 2, 3, 4]),
        ("anywhere", MASK * torch.tensor([[1], [0]]), [0, 1, 2, 3, 4]),  # a row of which all is hidden
    ],
)
def test_tokens_that_every_row_hides_are_left_out_where_the_model_allows_it(
    where: Any, mask: torch.Tensor, kept: list[int]
) -> None:
    text = {"prompt_embeds": TOKENS, "prompt_embeds_mask": mask, "pooled": TOKENS}
    (found,) = without_padding([text], where)
    assert torch.equal(found["prompt_embeds"], TOKENS[:, kept])
    assert torch.equal(found["prompt_embeds_mask"], mask[:, kept]) and found["pooled"] is TOKENS


def test_two_texts_of_one_length_stay_so_and_others_are_left_as_they_are() -> None:
    one, two = ({"prompt_embeds": TOKENS[:1], "prompt_embeds_mask": MASK[row : row + 1]} for row in (0, 1))
    found = without_padding([one, two], "anywhere")
    assert [each["prompt_embeds_mask"].tolist() for each in found] == [[[1, 1, 0]], [[1, 0, 1]]]
    short = {"prompt_embeds": TOKENS[:1, :2], "prompt_embeds_mask": MASK[:1, :2]}
    for texts in ([one, short], [one, {"prompt_embeds": TOKENS}]):
        assert without_padding(texts, "anywhere") == texts


def test_a_mask_is_left_out_only_if_neither_text_hides_anything() -> None:
    class Asked(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> bool:
            return mask is not None

    asked, whole, some = Asked(), torch.ones(1, 5), MASK[:1]
    texts = {"prompt_embeds_mask": whole, "negative_prompt_embeds_mask": whole}
    with unmasked(asked, "mask", texts):
        assert not asked(TOKENS, mask=whole)
    for argument, given in (("", texts), ("mask", {**texts, "negative_prompt_embeds_mask": some})):
        with unmasked(asked, argument, given):
            assert asked(TOKENS, mask=whole)
    assert asked(TOKENS, mask=whole)


def test_what_is_painted_is_what_the_whole_text_and_its_mask_give_on_one_device_and_on_two(
    model: Any, pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 of 64 tokens, and 15 of the picture; test_rows.py has two texts, compared with the classic pipeline."""
    request = request_of(model("krea_2"), replace(TINY_ROWS["krea_2"], guidance=1.0))
    split = pair.run("bodies.rows:denoise_each_way", request, ("ulysses=2", "ring=2", "allgather=2"))[0][1:]
    assert max(each["difference"] for each in split) <= 1e-5
    short = stages.denoise(request).tensor
    monkeypatch.setattr(padding, "without_padding", lambda texts, _: list(texts))
    whole = stages.denoise(request).tensor
    assert short is not None and whole is not None
    assert 0 < float((short - whole).abs().max() / whole.abs().max()) <= 1e-5
