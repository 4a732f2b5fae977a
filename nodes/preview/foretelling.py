"""The plan of each denoise, foretold as its run will have it: the one that a result carries, else the best there is.

A result carries the plans that were chosen for it in its workflow's `meta`, by the names of the nodes; who runs it
again gets the same, where its devices are there and the plan is still left to be chosen.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...parallel.machine.now import DeviceNow
from ...parallel.progress import SILENT, Progress
from ...pipelines.place import AUTO, choice_for, named_plan, names_plan
from ...pipelines.planning.terms import EXACT, FREE, Chosen, Leeway, Wanted, Way, is_guided
from ...pipelines.values import COMPILING
from ..files.picture_files import WORKFLOW_KEY
from ..graph.graph import MAX_META_BYTES, Graph, graph_text, read_graph
from ..graph.sketch import Denoising
from .walk import Walk

PLANS_KEY = "latentloom_plans"

logger = logging.getLogger("latentloom")


def choice_of(walk: Walk, name: str, asked: Denoising, *, now: Sequence[DeviceNow]) -> Chosen:
    """What a run would choose for a denoise on ranks, where nobody names its plan; of latents that are not known, those
    of the model's own size. Raises `ValueError`.
    """
    from ...pipelines.planning.auto import choose

    is_known = asked.latents is not None
    return choose(
        asked.model,
        wanted_of(asked),
        now=now,
        may_round=is_known,
        wish=_wish(walk, name) if is_known else None,
        num_runs=walk.workspace.num_runs,
    )


def leeways(
    walk: Walk, names: Iterable[str], progress_of: Callable[[str], Progress] = lambda name: SILENT
) -> dict[str, Leeway]:
    """What is settled of the plans of these denoises; nothing of those that are on no ranks, or whose plan somebody
    names. Keeps what it chooses. GPUs that nobody measured are measured for it first, which the node's progress hears.
    """
    found = ((name, _leeway(walk, name, progress_of(name))) for name in names)
    return {name: leeway for name, leeway in found if leeway is not FREE}


def _leeway(walk: Walk, name: str, progress: Progress) -> Leeway:
    try:
        asked, _ = walk.denoise(name)
        place, wanted = asked.model.place, wanted_of(asked)
        if not place.devices or names_plan(place):
            return FREE
        if asked.latents is None:
            return EXACT
        from ...pipelines.placement import measuring

        wish, num_runs = _wish(walk, name), walk.workspace.num_runs
        choice = choice_for(asked.model, wanted, measures=measuring(progress), wish=wish, num_runs=num_runs)
        return Leeway(choice=choice, is_guided=wanted.is_guided)
    except ValueError:
        return EXACT


def decoders_of(walk: Walk, name: str, plans: Mapping[str, Leeway]) -> int:
    """How many ranks share the rows of what a node decodes; 0 where it is not the latents of a denoise whose size and
    plan are known.
    """
    from ...pipelines.planning.foreseen import decoders_for

    link = walk.link(name, "latents")
    try:
        if link is None or walk.specs[link.node].denoises is None:
            return 0
        asked, _ = walk.denoise(link.node)
        place, choice = asked.model.place, plans.get(link.node, FREE).choice
        if not place.devices or asked.latents is None:
            return 0
        if (named := named_plan(place)) is not None:
            return decoders_for(asked.model, wanted_of(asked), named)
        return decoders_for(choice.of(asked.model), wanted_of(asked), choice.plan) if choice else 0
    except ValueError:
        return 0


def wanted_of(asked: Denoising) -> Wanted:
    """A pipeline that is run whole says itself whether it is guided."""
    canvas = asked.latents
    guided = asked.guidance > 1 if asked.pipeline else _is_guided(asked)
    return Wanted(
        width=canvas.width if canvas else 0,
        height=canvas.height if canvas else 0,
        frames=canvas.frames if canvas else 0,
        batch=canvas.batch if canvas else 1,
        steps=asked.steps,
        text_length=asked.num_tokens,
        num_references=asked.num_references,
        is_guided=guided,
        has_step_cache=asked.has_step_cache,
    )


def _is_guided(asked: Denoising) -> bool:
    return is_guided(asked.model, guidance=asked.guidance, guidance_2=asked.guidance_2)


# ---- carried by results


def _wish(walk: Walk, name: str) -> Way | None:
    """How the workflow's result was made, unless the user asks for a choice. It may be a stranger's."""
    plans = walk.meta.get(PLANS_KEY)
    text = plans.get(name) if isinstance(plans, dict) else None
    if not isinstance(text, str) or walk.workspace.place.plan in (AUTO, COMPILING):
        return None
    try:
        return Way.parse(text)
    except ValueError:
        logger.warning("the workflow carries %.50r as the plan of %s, which is none; another is chosen", text, name)
        return None


def with_plans(metadata: Mapping[str, str], plans: Mapping[str, str]) -> Mapping[str, str]:
    """What a result carries, with the plans that were chosen for it: those of several ranks, or compiled."""
    ways = {name: Way.parse(plan) for name, plan in plans.items()}
    told = {name: str(way) for name, way in ways.items() if way.plan.num_ranks > 1 or way.is_compiled}
    if not told or WORKFLOW_KEY not in metadata:
        return metadata
    graph = read_graph(metadata[WORKFLOW_KEY])
    meta = {**graph.meta, PLANS_KEY: told}
    if len(json.dumps(meta, ensure_ascii=False).encode(errors="surrogatepass")) > MAX_META_BYTES:
        return metadata
    return {**metadata, WORKFLOW_KEY: graph_text(graph.model_copy(update={"meta": meta}))}


def without_plans(graph: Graph) -> Graph:
    """The workflow as it was before a result of it was made: the plans make no other result."""
    if PLANS_KEY not in graph.meta:
        return graph
    return graph.model_copy(update={"meta": {key: value for key, value in graph.meta.items() if key != PLANS_KEY}})
