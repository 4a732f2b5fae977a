"""What a server that starts again makes of the runs that it finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .run_state import NodeState, Outcome, Run, ended

MAX_RESTARTS = 2
"""A run that was under way when the server was killed so often is not started once more: it may be what ended it."""

AGAIN = "the server ended while this ran, so it was started again"
GIVEN_UP = (
    f"the server died {MAX_RESTARTS + 1} times while this ran; perhaps it needs more memory than there is: "
    "look at its plan, make it smaller, and run it again"
)


def set_back(run: Run) -> Run:
    """It waits again, to be made from its beginning."""
    nodes = dict.fromkeys(run.nodes, NodeState())
    return run.model_copy(update={"state": "waiting", "started": None, "note": AGAIN, "nodes": nodes})


def recovered(run: Run, *, now: float) -> Run:
    """What was under way when the server was killed: it waits again, or is given up after too many times."""
    if run.is_ending:
        return ended(run, Outcome(state="cancelled"), now=now)
    if run.restarts >= MAX_RESTARTS:
        return ended(run, Outcome(state="failed", error=GIVEN_UP), now=now)
    return set_back(run).model_copy(update={"restarts": run.restarts + 1})


def order_of(runs: Iterable[Run], remembered: Sequence[str]) -> list[str]:
    """The runs that are not over: what was under way first, then as remembered, then by the time of their making."""
    places = {id: place for place, id in enumerate(remembered)}
    left = [run for run in runs if not run.is_over]
    left.sort(
        key=lambda run: (run.state != "running", run.started or 0.0, places.get(run.id, len(places)), run.created)
    )
    return [run.id for run in left]
