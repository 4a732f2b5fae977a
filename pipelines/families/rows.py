"""One row of a batch for each picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def repeated(embeddings: Mapping[str, Tensor], batch: int) -> dict[str, Tensor]:
    """One prompt's embeddings, a row per picture: to diffusers' blocks each picture is its own prompt.

    The blocks could repeat the rows themselves, but not with a start picture each, nor the sizes given to RoPE.
    """
    return {name: tensor.repeat_interleave(batch, dim=0) for name, tensor in embeddings.items()}
