"""What of the devices changes a result: a plan by a ring or compiled, which somebody asked for, and rows of a decode.

It is part of the key of what a node makes.
"""

from collections.abc import Callable, Iterable

from ...parallel.progress import SILENT, Progress
from ...pipelines.forecast.terms import Wanted, is_guided
from ...pipelines.models.describe import compiles
from ...pipelines.place import named_plan, names_plan
from ...pipelines.values import Latents, Model
from ..graph.sketch import Denoising
from ..graph.spec import InputSpec, NodeSpec
from .walk import Walk

DECODED = ("Image", "Video")


def plans_of(
    walk: Walk, names: Iterable[str], progress_of: Callable[[str], Progress] = lambda name: SILENT
) -> dict[str, str]:
    """Of these nodes those that denoise by a plan that rounds differently, and that the run asks for, or the result
    that the workflow is from: the plan. GPUs that nobody measured are measured, where a plan is to be chosen for them;
    the node's progress hears of it.
    """
    found: dict[str, str] = {}
    for name in names:
        try:
            asked, _ = walk.denoise(name)
            place = asked.model.place
            if not place.devices or asked.pipeline:
                continue
            if not (names_plan(place) or place.cluster):  # before ranks work here, which would be measured as well
                from ...pipelines.placement import measuring

                measuring(progress_of(name))(place.devices)
            if place.plan in (walk.workspace.place.plan, walk.carried.get(name)) and _rounds(asked):
                found[name] = place.plan
        except ValueError:  # which the run tells
            continue
    return found


def _rounds(asked: Denoising) -> bool:
    plan = named_plan(asked.model.place)
    if plan is not None and plan.ring > 1:
        return True
    return compiles(asked.model, has_step_cache=asked.has_step_cache)


def rows_of(walk: Walk, names: Iterable[str]) -> dict[str, int]:
    """Of these nodes those that decode by rows, on how many ranks."""
    found: dict[str, int] = {}
    for name in names:
        model, latents = (_input(walk.specs[name], kind) for kind in (Model, Latents))
        if not (model and latents and any(each.type in DECODED for each in walk.specs[name].outputs)):
            continue
        try:
            decoder: Model = walk.value(name, model)[0]
            if decoder.place.group_size > 1:
                from ...pipelines.placement import decoders_of

                found[name] = decoders_of(decoder, walk.value(name, latents)[0])
        except ValueError:  # not known before the run
            continue
    return {name: rows for name, rows in found.items() if rows > 1}


def _input(spec: NodeSpec, kind: type) -> InputSpec | None:
    return next((each for each in spec.inputs if each.type == kind.__name__), None)


def wanted_of(asked: Denoising) -> Wanted:
    """A pipeline that is run whole says itself whether it is guided."""
    by_guidance = {"guidance": asked.guidance, "guidance_2": asked.guidance_2}
    found = Wanted(
        steps=asked.steps,
        text_length=asked.num_tokens,
        num_references=asked.num_references,
        is_guided=asked.guidance > 1 if asked.pipeline else is_guided(asked.model, **by_guidance),
        has_step_cache=asked.has_step_cache,
    )
    return found if asked.latents is None else found.of_size(asked.latents)
