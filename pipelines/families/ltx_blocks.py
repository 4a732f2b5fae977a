"""What LTX-2's blocks want that no other row's do: a first frame like a film's, noise for a decoder that denoises."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..values import as_bytes
from .row import picture

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from ..values import Latents
    from .family import Parts

# B videos, H W height and width in pixels, C channels


def filmed(parts: Parts, pixels: Tensor) -> tuple[Parts, list[Any]]:
    """First frames B H W C for a block that compresses each as a film's, and parts that have of the text encoder, whose
    kind tells how much, the config alone."""
    text_encoder = SimpleNamespace(config=SimpleNamespace(**parts["config"]("text_encoder")))
    return {**parts, "text_encoder": text_encoder}, [picture(each) for each in as_bytes(pixels)]


def drawn(latents: Latents) -> list[Generator]:
    """What a decoder that denoises draws from: for each video anew of its seed."""
    from ..denoising.noise import generators

    return generators(latents.seeds)
