"""What families check alike before they run: lengths of text, what of a prompt is not read, and sizes of latents.

They compare what a node was given with what the loaded parts can take, so that a mistake is one sentence and not an
error of shapes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...parallel.wording import worded

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger("latentloom")


def repeated(embeddings: Mapping[str, Tensor], batch: int) -> dict[str, Tensor]:
    """One prompt's embeddings, a row per picture: to diffusers' blocks each picture is its own prompt.

    The blocks could repeat the rows themselves, but not with a start picture each, nor the sizes given to RoPE.
    """
    return {name: tensor.repeat_interleave(batch, dim=0) for name, tensor in embeddings.items()}


def warn_if_cut(tokenizer: Any, prompt: str, *, text_length: int) -> int:
    """Log one sentence when `prompt` has more tokens than `text_length`; returns how many are cut."""
    num_tokens = len(tokenizer(prompt, truncation=False, verbose=False)["input_ids"])
    cut = max(0, num_tokens - text_length)
    if cut:
        beginning = " ".join(prompt.split())[:40]
        logger.warning(
            f"the prompt '{beginning}...' has {num_tokens} tokens; the last {cut} are cut at text length {text_length}"
        )
    return cut


def check_latents(tensor: Tensor, shape: tuple[int, ...], *, title: str) -> None:
    """Refuse latents of another model: `shape` is what this one has for each picture, without the batch."""
    if tuple(tensor.shape[1:]) != shape:
        got, right = (" x ".join(map(str, s)) for s in (tensor.shape[1:], shape))
        raise ValueError(
            f"the latents are {got}, but this {title} model needs {right} for that size; encode the picture with it"
        )


def check_channels(tensor: Tensor, channels: int, *, title: str) -> None:
    """Refuse to decode latents of another model of the same family."""
    if tensor.shape[1] != channels:
        raise ValueError(
            f"the latents have {tensor.shape[1]} channels, but this {title} model decodes {channels}; "
            "decode with the model that denoised"
        )


def check_text(embeddings: Tensor, width: int, *, title: str) -> None:
    """Refuse text that another model of the same family encoded."""
    if embeddings.shape[-1] != width:
        raise ValueError(
            worded(
                "the text was encoded {} wide, but this {} model reads {}; encode the text with the "
                "model that denoises",
                embeddings.shape[-1],
                title,
                width,
            )
        )
