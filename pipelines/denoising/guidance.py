"""How the transformer is asked: twice for true guidance, with the prompt and against the negative prompt.

*Branch* is one of these questions. A *guider*, as diffusers calls it, asks them and combines the answers; with a plan
of `cfg=2` each branch has ranks of its own. A mask of its text that hides nothing is left out.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from diffusers.configuration_utils import FrozenDict
from diffusers.guiders.classifier_free_guidance import ClassifierFreeGuidance
from diffusers.modular_pipelines.modular_pipeline_utils import ComponentSpec

from ..values import Sampling
from .step_cache import tell_step

if TYPE_CHECKING:
    from torch import nn

TEXT_MASKS = ("prompt_embeds_mask", "negative_prompt_embeds_mask")


def is_guided(guidance: float) -> bool:
    """Guidance of 1 or less is off: the transformer is asked once a step, and no negative prompt is needed."""
    return guidance > 1


class StepGuidance(ClassifierFreeGuidance):
    """Counts steps where diffusers counts turns: with a solver of order 2, guidance would stop half way."""

    order = 1  # how often the solver asks in a step

    def set_state(self, step: int, num_inference_steps: int, timestep: Any) -> None:
        super().set_state(step // self.order, num_inference_steps, timestep)

    def prepare_models(self, denoiser: Any) -> None:
        super().prepare_models(denoiser)
        branch, num_steps = "cond" if self.is_conditional else "uncond", self._num_inference_steps
        tell_step(denoiser, branch=branch, step=self._step, num_steps=num_steps, timestep=self._timestep)


# How a block of ours declares a guider, by its name: one that is off, where it is given none.
guider_spec = functools.partial(
    ComponentSpec,
    type_hint=ClassifierFreeGuidance,
    config=FrozenDict({"enabled": False}),
    default_creation_method="from_config",
)


def guider(guidance: float, sampling: Sampling, *, order: int = 1, adds: bool = False) -> StepGuidance:
    """The guider of one denoise; `order` is the scheduler's.

    With `adds` the branches' difference, times the guidance, is added to the prompt's own prediction: a guidance of g
    then is what others call g + 1.
    """
    rescale = sampling.guidance_rescale if is_guided(guidance) else 0.0
    return copy.copy(_unused(guidance, rescale, sampling.guidance_start, sampling.guidance_stop, order, adds))


@functools.lru_cache(maxsize=64)
def _unused(guidance: float, rescale: float, start: float, stop: float, order: int, adds: bool) -> StepGuidance:
    # Made once and copied: to make one, diffusers reads signatures. What a guider keeps of its steps are single values.
    made = StepGuidance(
        guidance_scale=guidance,
        guidance_rescale=rescale,
        start=start,
        stop=stop,
        enabled=is_guided(guidance),
        use_original_formulation=adds,
    )
    made.order = order
    return made


def own_guiders(made: Mapping[str, Any], guidance: float, sampling: Sampling) -> dict[str, Any]:
    """The guiders that blocks have in their code, for a model of several: the first guides by this number, the others
    by their own, and all are off where guidance is off."""
    found = {}
    for place, (name, own) in enumerate(made.items()):
        asked = {"start": sampling.guidance_start, "stop": sampling.guidance_stop, "enabled": is_guided(guidance)}
        if place == 0:
            asked["guidance_scale"] = guidance
        if sampling.guidance_rescale:
            asked["guidance_rescale"] = sampling.guidance_rescale
        config = {key: value for key, value in own.config.items() if not key.startswith("_")}
        found[name] = type(own)(**{**config, **asked})
    return found


def check(sampling: Sampling) -> None:
    """Refuse fractions that no guider can follow."""
    start, stop, rescale = sampling.guidance_start, sampling.guidance_stop, sampling.guidance_rescale
    if not (math.isfinite(start) and math.isfinite(stop) and 0 <= start <= stop <= 1 and start < 1):
        raise ValueError(
            f"guidance from {start:g} to {stop:g}: both are fractions of the steps, "
            "with 0 <= start <= stop <= 1 and start below 1"
        )
    if not 0 <= rescale <= 1:
        raise ValueError(f"guidance rescale {rescale:g}: give a number from 0 (off) to 1")


@contextlib.contextmanager
def unmasked(transformer: nn.Module, argument: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Within, the transformer is asked without `argument`, the mask of its text, if none of the texts given hides
    anything.

    By this thread only: another may share the transformer meanwhile, and have a text that is hidden in part.
    """
    # With any mask, one that hides nothing too, torch attends by a slower kernel. Decided once for a denoise, from the
    # texts alone: on one device as on several, and on all ranks alike.
    masks = [given[name] for name in TEXT_MASKS if given.get(name) is not None]
    if not argument or not all(bool(mask.bool().all()) for mask in masks):
        yield
        return

    own = threading.get_ident()

    def leave_out(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, argument: None} if threading.get_ident() == own else kwargs

    hook = transformer.register_forward_pre_hook(leave_out, with_kwargs=True, prepend=True)
    try:
        yield
    finally:
        hook.remove()
