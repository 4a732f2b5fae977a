"""The model card: what the nodes assume of a model when the user leaves a socket at zero.

Zero, or an empty text, means the model's own: this is the one place where it becomes a number. The stages ask here for
what they use, and so does whoever tells of a run before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..values import THRESHOLDS, StepCache


@dataclass(frozen=True, kw_only=True)
class CardText:
    """What `EncodeText` has of these names."""

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
    """What `Denoise` has of these names; what the model does not take is 0."""

    steps: int
    guidance: float
    guidance_2: float
    distilled_guidance: float
    cache_threshold: float


@dataclass(frozen=True, kw_only=True)
class Card:
    """Defaults of one model. A family fills it in; a file `latentloom.json` in the model's folder overrides it.

    Sizes are in pixels; `guidance` is the true, two-branch guidance scale (1 is off), `distilled_guidance` the number
    that guidance-distilled models such as FLUX.1-dev take as an input (0 where the model takes none).
    """

    name: str = ""
    about: str = ""
    licence: str = ""
    width: int = 1024
    height: int = 1024
    most_side: int = 0
    """Of the largest pictures that it is good for; 0 where nobody says."""
    frames: int = 1
    fps: float = 0.0
    steps: int = 28
    guidance: float = 1.0
    second_guidance: float = 0.0
    """That of a second expert, as a share of the first's; 0 of a model without one."""
    distilled_guidance: float = 0.0
    text_length: int = 512
    """Tokens that a prompt is padded or cut to."""
    negative_prompt: str = ""

    def for_text(self, *, negative_prompt: str, text_length: int) -> CardText:
        return CardText(
            negative_prompt=negative_prompt or self.negative_prompt, text_length=text_length or self.text_length
        )

    def for_canvas(self, *, width: int = 0, height: int = 0, frames: int, fps: float) -> Canvas:
        return Canvas(
            width=width or self.width, height=height or self.height, frames=frames or self.frames, fps=fps or self.fps
        )

    def for_steps(
        self,
        *,
        steps: int,
        guidance: float,
        guidance_2: float,
        distilled_guidance: float,
        step_cache: StepCache,
        cache_threshold: float,
        num_sigmas: int,
    ) -> Steps:
        """`num_sigmas` of the sampler options replace the number of steps, where there are some."""
        guidance = guidance or self.guidance
        return Steps(
            steps=num_sigmas or steps or self.steps,
            guidance=guidance,
            guidance_2=guidance_2 or guidance * self.second_guidance,
            distilled_guidance=distilled_guidance or self.distilled_guidance,
            cache_threshold=cache_threshold or THRESHOLDS.get(step_cache, 0.0),
        )
