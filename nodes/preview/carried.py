"""Plans that round differently, carried by what a run makes: in its workflow's `meta`, by the names of the nodes.

Who runs a result's workflow again asks for the same by it, unless somebody names a plan. What `auto` chooses changes no
result, and is not carried; what older results carry of it is passed over.
"""

import dataclasses
import json
import logging
from collections.abc import Mapping
from typing import Any

from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ...pipelines.forecast.plans import why_not
from ...pipelines.forecast.terms import AUTO
from ...pipelines.models.describe import why_not_compiled
from ...pipelines.place import named_plan, names_plan
from ...pipelines.values import COMPILING, MARK, Model, Place
from ..files.picture_files import WORKFLOW_KEY
from ..graph.graph import MAX_META_BYTES, Graph, graph_text, read_graph

PLANS_KEY = "latentloom_plans"

logger = logging.getLogger("latentloom")


def carried(meta: Mapping[str, Any], name: str, model: Model, run: Place) -> Model:
    """The model as the workflow's result was made, where that rounds differently, and nobody names another plan. It may
    be a stranger's. Raises `ValueError` where it cannot be had here.
    """
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
        raise ValueError(
            worded(
                "the plan {} that the workflow's result was made by cannot be had here ({}), so another is chosen",
                text,
                why,
            )
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
