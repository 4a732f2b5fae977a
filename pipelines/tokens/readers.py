"""How each family's text encoders are given a prompt, as data: which tokenizer, which words around it, cut where.

It says again what diffusers' blocks do in their code, so that a prompt can be counted without loading a model; tests
compare it with the ids that the encoders are given. What has no row here is not known, and said to be so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Cleaning = Literal["none", "strip", "ftfy"]
"""What is done to a prompt before: nothing, without spaces around it, or mended as Wan's blocks do."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One text encoder's way with a prompt."""

    tokenizer: str
    """The component's name in model_index.json; an encoder whose tokenizer a model lacks reads nothing."""
    length: Literal["text_length", "own"] = "text_length"
    """Cut at the text length that Encode Text was given, or at the tokenizer's own maximum."""
    more: int = 0
    """Tokens beyond that length which the template takes."""
    before: str = ""
    after: str = ""
    """The template around the prompt, which is cut with it."""
    tail: str = ""
    """What follows once the prompt is cut."""
    thinking: bool | None = None
    """With a value the prompt is one message of the tokenizer's own chat template, and this its `enable_thinking`."""
    cleaning: Cleaning = "none"


_DESCRIBE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, "
    "spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n"
)
_ANSWER = "<|im_end|>\n<|im_start|>assistant\n"
_NUM_DESCRIBE, _NUM_ANSWER = 34, 5
"""Tokens of these as the blocks have them in their code."""
_CLIP = Reader(tokenizer="tokenizer", length="own")
_FLUX = (_CLIP, Reader(tokenizer="tokenizer_2"))

READERS: Mapping[str, tuple[Reader, ...]] = {
    "flux": _FLUX,
    "flux_kontext": _FLUX,
    "sd3": (_CLIP, Reader(tokenizer="tokenizer_2", length="own"), Reader(tokenizer="tokenizer_3")),
    "qwen_image": (Reader(tokenizer="tokenizer", more=_NUM_DESCRIBE, before=_DESCRIBE, after=_ANSWER),),
    "krea_2": (Reader(tokenizer="tokenizer", more=_NUM_DESCRIBE - _NUM_ANSWER, before=_DESCRIBE, tail=_ANSWER),),
    "z_image": (Reader(tokenizer="tokenizer", thinking=True),),
    "flux_2": (Reader(tokenizer="tokenizer", thinking=False),),
    "wan": (Reader(tokenizer="tokenizer", cleaning="ftfy"),),
    "ltx": (Reader(tokenizer="tokenizer"),),
    "ltx_2": (Reader(tokenizer="tokenizer", cleaning="strip"),),
    "ernie_image": (Reader(tokenizer="tokenizer", length="own"),),
}
"""By the family's name."""
OTHERS = ("Flux2Pipeline", "Flux2ModularPipeline")
"""Pipelines of these families that read a prompt in another way: FLUX.2 dev has a system message."""
