"""Does a plan give a pipeline of any class what one process gives? Each call of its transformers, both ways.

The inputs of the calls are those of a run by itself: a whole run under a plan would make differences larger, step by
step, that a change of the noise by its last bit makes as well. What guidance is shared out is seen in the first step of
a run under the plan, whose inputs are still the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...parallel.errors import LoomError, is_out_of_memory
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Progress
from ...parallel.ranks.rank_job import mark
from ...parallel.ranks.seat import Seat
from ..doors import follow
from ..spreading.pipeline import spread
from ..spreading.wire import to_wire
from ..values import from_plain
from ..verify import farthest
from .asked import CallRecorder, TransformerCall, apart, first_step
from .assembled import load_pipeline, pipeline_class, without_bars
from .sample import calls_of, run


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> list[dict[str, Any]]:
    """Collective: what `latentloom verify` runs on every rank for what is no family of ours; one dict per plan."""
    follow(request["doors"])
    kind = pipeline_class(request["pipeline"])
    calls = calls_of(kind, width=request["width"], height=request["height"])  # refused before anything is loaded
    progress.phase("loading the pipeline", is_loading=True)
    pipe = load_pipeline(request["source"], dtype=request["dtype"], device=seat.device)
    without_bars(pipe)
    asked = CallRecorder(pipe)
    call, alone = _alone(asked, pipe, calls)
    plans = [from_plain(ParallelPlan, plan) for plan in request["plans"]]
    return [_under(plan, asked, pipe, call, alone) for plan in plans]


def _alone(
    asked: CallRecorder, pipe: Any, calls: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], list[TransformerCall]]:
    """The first of these calls that the pipeline does not refuse, and what it asked its transformers then."""
    title, problems = type(pipe).__name__, dict[str, None]()
    for call in calls:
        with asked.recorded() as alone:
            try:
                run(pipe, call)
            except Exception as error:  # whatever a pipeline raises where an argument is missing
                if isinstance(error, LoomError) or is_out_of_memory(error):
                    raise
                problems[str(error)] = None
                continue
        if not alone:
            raise ValueError(f"{title} did not ask its transformer in a call of {', '.join(call)}")
        return call, alone
    raise ValueError(
        f"{title} refuses a call that is made of its signature alone ({', '.join(calls[-1])}): {'; '.join(problems)}; "
        "call it from Python with and without latentloom.spread, and compare"
    )


def _under(
    plan: ParallelPlan, asked: CallRecorder, pipe: Any, call: Mapping[str, Any], alone: list[TransformerCall]
) -> dict[str, Any]:
    """Collective: what comes out of one plan."""
    steps: list[int] = []
    with spread(pipe, plan, on_step=lambda done, total: steps.append(done)) as handle:
        if plan.cfg > 1:
            run(pipe, call)  # from which is learnt what a step asks
        steps.clear()
        before = handle.sent
        with asked.recorded() as free:
            made = run(pipe, call)
        after = handle.sent
        differences = [apart(asked.again(each), each.output) for each in alone]
        worst = farthest([*differences, first_step(free, alone, max(1, len(steps)))])
        return {
            "difference": worst.difference,
            "largest": worst.largest,
            "mark": mark(to_wire(made)),
            "sent_bytes": after.sent_bytes - before.sent_bytes,
            "calls": after.calls - before.calls,
            "note": f"guidance is not shared out, because {why}" if (why := handle.why_whole()) else "",
        }
