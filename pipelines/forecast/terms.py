"""What a denoise is asked for, of a request or of a workflow before it runs.

Light, so that a workflow is checked on one device without a planner.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...parallel.plan import ParallelPlan
from ..models.describe import card_of, compiles
from ..shape import empty_canvas
from ..values import COMPILING, MARK, Conditioning, Latents, Model

if TYPE_CHECKING:
    from ..requests import Denoise

AUTO = "auto"
LEFT_OPEN = ("", AUTO, COMPILING)
BY_HAND = "it was written by hand"
ALONE = "one process, because neither the workflow nor the run names devices"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Zeros are the model's own."""

    width: int = 0
    height: int = 0
    frames: int = 0
    batch: int = 1
    steps: int = 0
    text_length: int = 0  # tokens of the prompt, padded
    num_references: int = 0
    is_guided: bool = False
    has_step_cache: bool = False

    def canvas(self, model: Model) -> Latents:
        """Raises `ValueError` for a size that the model cannot paint."""
        return empty_canvas(model, width=self.width, height=self.height, frames=self.frames, fps=0.0, batch=self.batch)

    def of_size(self, size: Latents) -> Wanted:
        shape = {name: getattr(size, name) for name in ("width", "height", "frames", "batch")}
        return dataclasses.replace(self, **shape)

    def settled(self, model: Model) -> Wanted:
        """With the model's own numbers where zeros are. Raises as `canvas` does."""
        canvas, card = self.canvas(model), card_of(model)
        size = {"width": canvas.width, "height": canvas.height, "frames": canvas.frames}
        steps, text_length = self.steps or card.steps, self.text_length or card.text_length
        return dataclasses.replace(self, **size, steps=steps, text_length=text_length)


def wanted_by(request: Denoise, *, is_guided: bool) -> Wanted:
    found = Wanted(
        steps=request.steps,
        text_length=text_length_of(request.conditioning),
        num_references=len(request.conditioning.references),
        is_guided=is_guided,
        has_step_cache=request.step_cache != "none",
    )
    return found.of_size(request.latents)


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


def at_work(model: Model, *, has_step_cache: bool = False) -> Model:
    """The model as it works by the plan of its place, which may have its transformer compiled whatever it says."""
    compiled = compiles(model, has_step_cache=has_step_cache)
    return dataclasses.replace(model, engine="inductor") if compiled else model


def spelt_at_work(plan: ParallelPlan, model: Model, *, has_step_cache: bool) -> str:
    """`ulysses=2,compiled` where the plan has the transformer compiled."""
    return f"{plan}{MARK * compiles(model, has_step_cache=has_step_cache)}"
