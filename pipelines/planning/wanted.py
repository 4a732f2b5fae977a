"""What a denoise is asked for, in the numbers by which it is planned: of a request, or of a workflow before it runs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..models.describe import card_of
from ..shape import empty_canvas
from ..values import Conditioning, Latents, Model

if TYPE_CHECKING:
    from ..requests import Denoise


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Zeros are the model's own."""

    width: int = 0
    height: int = 0
    frames: int = 0
    batch: int = 1
    steps: int = 0
    text_length: int = 0
    """Tokens of the prompt, padded."""
    num_references: int = 0
    is_guided: bool = False
    has_step_cache: bool = False

    def canvas(self, model: Model) -> Latents:
        """Raises `ValueError` for a size that the model cannot paint."""
        return empty_canvas(model, width=self.width, height=self.height, frames=self.frames, fps=0.0, batch=self.batch)


def wanted_by(request: Denoise, *, is_guided: bool) -> Wanted:
    latents, conditioning = request.latents, request.conditioning
    return Wanted(
        width=latents.width,
        height=latents.height,
        frames=latents.frames,
        batch=latents.batch,
        steps=request.steps,
        text_length=text_length_of(conditioning),
        num_references=len(conditioning.references),
        is_guided=is_guided,
        has_step_cache=request.step_cache != "none",
    )


def is_guided(model: Model, *, guidance: float = 0.0, guidance_2: float = 0.0) -> bool:
    """Whether every step of a denoise asks the transformer twice."""
    return max(guidance or card_of(model).guidance, guidance_2) > 1


def text_length_of(conditioning: Conditioning) -> int:
    """Tokens of the longest text; 0 where there is none."""
    return max((tensor.shape[1] for tensor in conditioning.positive.values() if tensor.ndim == 3), default=0)


def num_steps_of(request: Denoise) -> int:
    """How many steps it will do: fewer than it is asked for where a start picture is painted over in part."""
    from ..requests import first_step

    steps = len(request.sampling.sigmas) or request.steps or card_of(request.model).steps
    return steps - first_step(steps, request.strength)


def by_bucket(wanted: Wanted, model: Model) -> Wanted:
    """By what a plan is chosen: a text up to the model's own length counts as that, and a longer one as the next power
    of two. So a prompt chooses no plan, and whoever only knows what it may be padded to foretells the right one.
    """
    own, length = max(1, card_of(model).text_length), wanted.text_length
    return dataclasses.replace(
        wanted,
        text_length=own if length <= own else 1 << (length - 1).bit_length(),
        steps=wanted.steps or card_of(model).steps,
    )
