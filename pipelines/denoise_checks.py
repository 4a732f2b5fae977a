"""What a denoise is asked for, checked before anything is loaded: values that do not fit the model or each other.

Loading may take minutes, so that what can be known from config files is refused first, in the words of the node's
sockets.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from ..parallel.wording import worded
from .denoising import guidance as guiding
from .denoising import schedulers
from .families import FAMILIES, ROWS
from .models.facts import scheduler_of
from .requests import Denoise
from .shape import (
    check_fps,
    check_frames,
    check_mask,
    check_size,
    why_all_anew,
    why_no_distilled,
    why_no_frame,
    why_no_guidance_2,
    why_no_prompt,
    why_no_references,
    why_no_steps,
    why_no_text,
    why_not_made,
    why_one_frame,
    why_other_family,
)
from .values import Latents, Model

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger("latentloom")

LEAST_STRENGTH = 1e-6


def check_denoise(request: Denoise) -> None:
    """Raise `ValueError` for what the model cannot paint; the request's guidance is the one that will be used."""
    model, conditioning, latents, strength = request.model, request.conditioning, request.latents, request.strength
    guidance = max(request.guidance, request.guidance_2)
    check_family(model, conditioning.family, what="text was encoded")
    check_family(model, latents.family, what="latents were made")
    check_size(model, latents.width, latents.height)
    check_frames(model, latents.frames)
    check_fps(model, latents.fps)
    check_mask(model, latents, request.mask)
    if not conditioning.references and (why := why_no_references(model, 0)):
        raise ValueError(why)
    if why := why_one_frame(model, saw_frame=conditioning.saw_frame, has_frame=bool(latents.extras)):
        raise ValueError(why)
    if latents.tensor is not None and model.family in ROWS and ROWS[model.family].takes_image != "start":
        title = FAMILIES[model.family].title
        raise ValueError(worded("{} starts from noise, but got finished latents; give it an empty canvas", title))
    if not request.sampling.sigmas and (why := why_no_steps(model, request.steps)):
        raise ValueError(why)
    schedulers.check(request.sampling, scheduler=scheduler_of(Path(model.folder)))
    guiding.check(request.sampling)
    if guiding.is_guided(guidance) and conditioning.negative is None:
        raise ValueError(
            worded(
                "guidance is {:g}, but the text was encoded without a negative prompt to steer away "
                "from; encode it for this guidance, or set guidance to 1",
                guidance,
            )
        )
    if not LEAST_STRENGTH <= strength <= 1:
        raise ValueError(worded("strength is {:g}; give a number above 0, up to 1", strength))
    if latents.tensor is None:
        if why := why_all_anew(model, strength, is_empty=True):
            raise ValueError(why)
    elif len(latents.tensor) not in (1, latents.batch):
        raise ValueError(
            worded(
                "the latents hold {} pictures and a batch of {}; make them equal", len(latents.tensor), latents.batch
            )
        )


def check_text(model: Model, prompt: str, length: int, *, saw_frame: bool) -> None:
    """Raise `ValueError` for a text, or a number of tokens, that the model cannot read."""
    if why := why_no_text(model, length) or why_no_prompt(model, prompt, saw_frame=saw_frame):
        raise ValueError(why)


def check_guidance(request: Denoise) -> None:
    """Refuse a number that the model would ignore, and tell of one that does nothing."""
    model, guidance_2, distilled_guidance = request.model, request.guidance_2, request.distilled_guidance
    if why := why_no_guidance_2(model, guidance_2) or why_no_distilled(model, distilled_guidance):
        raise ValueError(why)
    for name, value in (("guidance", request.guidance), ("guidance_2", guidance_2)):
        if 0 < value < 1:
            logger.warning("%s is %g: below 1 there is no guidance, as at 1; set it above 1 to guide", name, value)


def check_seen(model: Model, first_frame: Latents | None) -> bool:
    """Whether the text is encoded with a first frame. Raises `ValueError` for one that the model does not look at."""
    if first_frame is None:
        return False
    check_family(model, first_frame.family, what="first frame was encoded")
    if why := why_no_frame(model):
        raise ValueError(why)
    return bool(first_frame.extras)


def check_sound(model: Model, latents: Latents) -> Tensor:
    """The sound of the latents. Raises `ValueError` where there is none."""
    if why := why_not_made(model, "audio"):
        raise ValueError(why)
    if latents.sound is None:
        raise ValueError(
            "the latents are an empty canvas, which sounds like nothing; put a Denoise before Decode Audio"
        )
    return latents.sound


def check_family(model: Model, family: str, *, what: str) -> None:
    if why := why_other_family(model, family, what=what):
        raise ValueError(why)
