"""What zero and empty stand for: the model's own numbers, as its files say them, found without torch.

The stages ask here for what they use, and whoever tells of a run before it asks here, too: the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .families import FAMILIES
from .models.describe import card_of
from .models.folder import components_of, read_config, read_index
from .values import Model, Sampling, StepCache

THRESHOLDS: Mapping[StepCache, float] = {"first_block": 0.05, "mag": 0.06, "sea": 0.25}
"""How much change each step cache of diffusers overlooks that has such a number."""
SHIFTS = {"FlowMatchEulerDiscreteScheduler": "shift", "UniPCMultistepScheduler": "flow_shift"}
"""What configs of schedulers call a shift that is the same for every size."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """The two as `EncodeText` has them."""

    negative_prompt: str
    text_length: int


@dataclass(frozen=True, kw_only=True)
class Canvas:
    """Pixels, frames and frames a second; a model of pictures has one frame, and no rate."""

    width: int
    height: int
    frames: int
    fps: float


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The numbers as `Denoise` has them; what the model does not take is 0."""

    steps: int
    guidance: float
    guidance_2: float
    distilled_guidance: float
    cache_threshold: float


def text(model: Model, *, negative_prompt: str = "", text_length: int = 0) -> Text:
    card = card_of(model)
    return Text(negative_prompt=negative_prompt or card.negative_prompt, text_length=text_length or card.text_length)


def canvas(model: Model, *, width: int = 0, height: int = 0, frames: int = 0, fps: float = 0.0) -> Canvas:
    card = card_of(model)
    return Canvas(
        width=width or card.width, height=height or card.height, frames=frames or card.frames, fps=fps or card.fps
    )


def steps(
    model: Model,
    *,
    steps: int = 0,
    guidance: float = 0.0,
    guidance_2: float = 0.0,
    distilled_guidance: float = 0.0,
    step_cache: StepCache = "none",
    cache_threshold: float = 0.0,
    sampling: Sampling,
) -> Steps:
    card, share = card_of(model), FAMILIES[model.family].second_guidance(read_index(Path(model.folder)))
    guidance = guidance or card.guidance
    return Steps(
        steps=len(sampling.sigmas) or steps or card.steps,
        guidance=guidance,
        guidance_2=guidance_2 or guidance * share,
        distilled_guidance=distilled_guidance or card.distilled_guidance,
        cache_threshold=cache_threshold or THRESHOLDS.get(step_cache, 0.0),
    )


def scheduler_of(model: Model) -> str:
    """The class of the scheduler in the model's folder; "" where it has none."""
    return components_of(read_index(Path(model.folder))).get("scheduler", ("", ""))[1]


def shift_of(model: Model) -> float:
    """The flow shift in the scheduler's config; 0 where it goes by the size, or stands nowhere."""
    name = SHIFTS.get(scheduler_of(model))
    config = read_config(Path(model.folder), "scheduler") if name else {}
    shift = config.get(name) if name and not config.get("use_dynamic_shifting") else None
    return float(shift) if isinstance(shift, int | float) else 0.0
