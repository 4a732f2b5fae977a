"""The terms of planning: what a denoise is asked for, of a request or of a workflow before it runs, and what is chosen.

Light, so that a workflow is checked on one device without a planner.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ...parallel.plan import ParallelPlan
from ..models.describe import card_of
from ..shape import empty_canvas
from ..values import Conditioning, Latents, Model

if TYPE_CHECKING:
    from ..requests import Denoise

MARK = ",compiled"
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


@dataclass(frozen=True)
class Way:
    """A plan, and whether `auto` compiles the transformer for it; written `ulysses=2,compiled`."""

    plan: ParallelPlan
    is_compiled: bool = False

    def __str__(self) -> str:
        return f"{self.plan}{MARK * self.is_compiled}"

    @property
    def rounds_differently(self) -> bool:
        return self.plan.ring > 1 or self.is_compiled

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `ValueError`."""
        return cls(ParallelPlan.parse(text.removesuffix(MARK)), text.endswith(MARK))


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What a plan is tried against before it is kept, since it may be as fast (duel.py)."""

    rival: ParallelPlan
    path: Path
    """Where the winner will be kept."""
    is_measured: bool
    """Whether the machine was measured when the two were found."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A plan, and one sentence why."""

    plan: ParallelPlan
    is_compiled: bool = False
    """Whether the transformer is compiled for it, whatever the model says."""
    why: str
    rejected: tuple[tuple[str, float, str], ...] = ()
    """Other plans, the seconds of one of their steps, and why not."""
    contest: Contest | None = None

    @property
    def way(self) -> Way:
        return Way(self.plan, self.is_compiled)

    @property
    def rounds_differently(self) -> bool:
        return self.way.rounds_differently

    def of(self, model: Model) -> Model:
        """The model as it works by it."""
        return dataclasses.replace(model, engine="inductor") if self.is_compiled else model


@dataclass(frozen=True, kw_only=True)
class Leeway:
    """What a denoise may choose of its plan: anything; nothing but what round alike, where nobody has foreseen the
    plan, so that it is no part of the result's key; or nothing at all, since its host has chosen, for a denoise with
    guidance or without.
    """

    choice: Chosen | None = None
    is_guided: bool = False
    may_round: bool = True


FREE, EXACT = Leeway(), Leeway(may_round=False)
