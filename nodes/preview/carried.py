"""What of the devices changes a result: a plan that rounds differently, and rows of a decode. It is part of the key of
what a node makes, and such a plan is carried by it: in its workflow's `meta`, by the names of the nodes.

Who runs a result's workflow again asks for the same by it, unless somebody names a plan. What `auto` chooses changes no
result, and is not carried; what older results carry of it is passed over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...parallel.errors import BadInput
from ...parallel.plan import ParallelPlan
from ...parallel.progress import SILENT, Progress
from ...pipelines.forecast.plans import AUTO, Wanted, is_guided, why_not
from ...pipelines.models.describe import compiles, why_not_compiled
from ...pipelines.place import named_plan, names_plan
from ...pipelines.values import COMPILING, MARK, Latents, Model, Place
from ..files.picture_files import WORKFLOW_KEY
from ..graph.graph import MAX_META_BYTES, Graph, graph_text, read_graph
from ..graph.sketch import Denoising

if TYPE_CHECKING:
    from .walk import Walk

PLANS_KEY = "latentloom_plans"

logger = logging.getLogger("latentloom")


def carried(meta: Mapping[str, Any], name: str, model: Model, run: Place) -> Model:
    """The model as the workflow's result was made, where that rounds differently, and nobody names another plan. It may
    be a stranger's. Raises `ValueError` where it cannot be had here."""
    plans = meta.get(PLANS_KEY)
    text = plans.get(name) if isinstance(plans, dict) else None
    if not (isinstance(text, str) and model.place.devices) or names_plan(model.place) or run.plan in (AUTO, COMPILING):
        return model
    try:
        plan = None if text == COMPILING else ParallelPlan.parse(text.removesuffix(MARK))
    except ValueError:
        logger.warning("the workflow carries %.50r as the plan of %s, which is none; another is chosen", text, name)
        return model
    if not text.endswith(MARK) and plan is not None and plan.ring == 1:
        return model
    asked = with_plan(model, text)
    try:
        named_plan(asked.place)
        reason = why_not(plan, asked) if plan is not None else ""
        if asked.place.compiles and not asked.is_compiled:
            reason = reason or why_not_compiled(asked, has_step_cache=False)
    except ValueError as error:
        reason = str(error)
    if reason:
        why = reason.partition("; ")[0]  # what to do about it is to take another
        raise BadInput(
            "the plan {} that the workflow's result was made by cannot be had here ({}), so another is chosen",
            text,
            why,
        )
    return asked


def with_plan(model: Model, plan: str) -> Model:
    return dataclasses.replace(model, place=dataclasses.replace(model.place, plan=plan))


def with_plans(metadata: Mapping[str, str], plans: Mapping[str, str]) -> Mapping[str, str]:
    """What a result carries, with the plans by which it was made that round differently."""
    if not plans or WORKFLOW_KEY not in metadata:
        return metadata
    graph = read_graph(metadata[WORKFLOW_KEY])
    meta = {**graph.meta, PLANS_KEY: dict(plans)}
    if len(json.dumps(meta, ensure_ascii=False).encode(errors="surrogatepass")) > MAX_META_BYTES:
        return metadata
    return {**metadata, WORKFLOW_KEY: graph_text(graph.model_copy(update={"meta": meta}))}


def without_plans(graph: Graph) -> Graph:
    """The workflow as it was before a result of it was made: the plans make no other result."""
    if PLANS_KEY not in graph.meta:
        return graph
    return graph.model_copy(update={"meta": {key: value for key, value in graph.meta.items() if key != PLANS_KEY}})


# ---- What of this run's devices changes a result.

DECODED = ("Image", "Video")


def plans_of(
    walk: Walk, names: Iterable[str], progress_of: Callable[[str], Progress] = lambda name: SILENT
) -> dict[str, str]:
    """Of these nodes those that denoise by a plan that rounds differently, and that the run asks for, or the result
    that the workflow is from: the plan. GPUs that nobody measured are measured, where a plan is to be chosen for them;
    the node's progress hears of it."""
    found: dict[str, str] = {}
    for name in names:
        with contextlib.suppress(ValueError):  # which the run tells
            asked, _ = walk.denoise(name)
            place = asked.model.place
            if not place.devices or asked.pipeline:
                continue
            if not (names_plan(place) or place.cluster):  # before ranks work here, which would be measured as well
                from ...pipelines.placement import measuring

                measuring(progress_of(name))(place.devices)
            plan = named_plan(place)
            rounds = (plan is not None and plan.ring > 1) or compiles(asked.model, has_step_cache=asked.has_step_cache)
            if rounds and place.plan in (walk.workspace.place.plan, walk.carried.get(name)):
                found[name] = place.plan
    return found


def rows_of(walk: Walk, names: Iterable[str]) -> dict[str, int]:
    """Of these nodes those that decode by rows, on how many ranks."""
    found: dict[str, int] = {}
    for name in names:
        sockets = {socket.type: socket for socket in reversed(walk.specs[name].inputs)}
        model, latents = (sockets.get(kind.__name__) for kind in (Model, Latents))
        if not (model and latents and any(each.type in DECODED for each in walk.specs[name].outputs)):
            continue
        with contextlib.suppress(ValueError):  # not known before the run
            decoder: Model = walk.value(name, model)[0]
            if decoder.place.group_size > 1:
                from ...pipelines.placement import row_decoders_of

                found[name] = row_decoders_of(decoder, walk.value(name, latents)[0])
    return {name: rows for name, rows in found.items() if rows > 1}


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
