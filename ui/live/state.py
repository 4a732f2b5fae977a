"""The state of a run and of its nodes, and how an event of the executor changes a node's.

A run goes from waiting to running to done, failed or cancelled; a server that was killed in between finds it in its
records, and sets it back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ...nodes.execution.events import Event
from ..store.paging import short_values

MAX_RESTARTS = 2
"""A run that was under way when the server was killed so often is not started once more: it may be what ended it."""

AGAIN = "the server ended while this ran, so it was started again"
GIVEN_UP = (
    f"the server died {MAX_RESTARTS + 1} times while this ran; perhaps it needs more memory than there is: "
    "look at its plan, make it smaller, and run it again"
)


def set_back(run: Run) -> Run:
    """The run as one that waits again, to be made from its beginning."""
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


State = Literal["waiting", "running", "done", "failed", "cancelled"]
NodeStage = Literal["waiting", "running", "done", "cached", "failed", "cancelled", "skipped"]

OVER: tuple[State, ...] = ("done", "failed", "cancelled")
ENDED: tuple[NodeStage, ...] = ("done", "cached", "failed", "cancelled", "skipped")

STOPPING = "stopping at the next step"
WHY_CACHED = {
    "memory": "unchanged since an earlier run; taken from memory",
    "disk": "unchanged since an earlier run; read from the disk cache",
    "shared": "made before, here or by another program; read from the cache folder that they share",
    "unneeded": "not needed: all that it feeds is there already",
}


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeState(_Value):
    """One node of a run, as the page shows it. Times are seconds, `started` is since the epoch."""

    state: NodeStage = "waiting"
    started: float = 0.0
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    left_s: float | None = None
    """Seconds until the node's last step; None until there is a number to trust."""
    phase: str = ""
    message: str = ""
    cached: Literal["", "memory", "disk", "shared", "unneeded"] = ""
    preview: int = 0
    """Counts the previews; 0 before the first."""
    plan: str = ""
    ranks: tuple[dict[str, Any], ...] = ()
    files: tuple[str, ...] = ()
    """Ids of results."""


class Made(_Value):
    """One picture or video that a run made: its facts, and where its file is below the output folder."""

    id: str
    node: str
    kind: Literal["image", "video"]
    name: str
    path: str
    width: int
    height: int
    frames: int = 1
    fps: float = 0.0
    bytes: int
    time: float
    prompt: str = ""
    seed: int | None = None


class Run(_Value):
    """One run: what was asked, and what became of it. Times are seconds since the epoch."""

    id: str
    batch: str
    user: str
    name: str
    workflow_id: str | None = None
    state: State = "waiting"
    created: float
    started: float | None = None
    ended: float | None = None
    seconds: float = 0.0
    error: str = ""
    note: str = ""
    overrides: dict[str, Any] = {}
    varied: dict[str, Any] = {}
    targets: tuple[str, ...] | None = None
    params: dict[str, Any] = {}
    """All of the workflow's, with this run's values."""
    plan: str = ""
    place: dict[str, Any] = {}
    folder: str
    """Below the output folder."""
    restarts: int = 0
    """How often the server died while it ran."""
    is_ending: bool = False
    """Whether its user has cancelled the run, and it goes on to its next step."""
    nodes: dict[str, NodeState] = {}
    made: tuple[Made, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def to_json(self) -> dict[str, Any]:
        """The run as the page gets it, without its nodes."""
        asked = {"overrides": self.overrides, "varied": self.varied, "targets": self.targets and list(self.targets)}
        return self.to_row() | asked

    def to_row(self) -> dict[str, Any]:
        """The run in a list: of what was asked only what varies in its batch, and of long texts the beginning."""
        names = ("id", "batch", "name", "workflow_id", "state", "created", "started", "ended", "seconds", "error")
        plain = {name: getattr(self, name) for name in (*names, "note", "plan")}
        if self.is_ending and not self.is_over:
            plain["note"] = STOPPING
        return plain | {"varied": short_values(self.varied)} | progress(self.nodes.values())


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended."""

    state: State
    seconds: float = 0.0
    error: str = ""
    plan: str = ""
    made: tuple[Made, ...] = ()


def progress(nodes: Iterable[NodeState]) -> dict[str, float | None]:
    """Steps done and in all, a node without steps being one, and the seconds left of the node that takes longest.

    These seconds are the least that the run takes: nodes that wait have not told how much they do.
    """
    done = total = 0
    left_s: float | None = None
    for node in nodes:
        size = max(1, node.total)
        total += size
        done += size if node.state in ENDED else node.done
        if node.state == "running" and node.left_s is not None:
            left_s = max(left_s or 0.0, node.left_s)
    return {"done": done, "total": total, "left_s": left_s}


def after(node: NodeState, event: Event, *, now: float) -> NodeState:
    """The node's state once this event has happened; a preview only counts up."""
    return node.model_copy(update=_changes(node, event, now))


def _changes(node: NodeState, event: Event, now: float) -> dict[str, Any]:
    match event.kind:
        case "started":
            return {"state": "running", "started": round(now, 3)}
        case "phase":
            return {"phase": event.message, "left_s": None}
        case "progress":
            left_s = event.left_s and round(event.left_s, 2)
            return {"phase": "", "done": event.done, "total": event.total, "left_s": left_s}
        case "preview":
            return {"preview": node.preview + 1}
        case "spread":
            return {"plan": event.message, "ranks": tuple(_rounded(asdict(rank)) for rank in event.ranks)}
        case "cached":
            return {"state": "cached", "cached": event.message, "message": WHY_CACHED.get(event.message, event.message)}
        case "finished":
            seconds = round(event.seconds, 4)
            return {"state": "done", "seconds": seconds, "done": node.total, "left_s": None, "phase": ""}
        case "failed" | "cancelled" | "skipped":
            seconds = round(event.seconds, 4)
            return {"state": event.kind, "seconds": seconds, "left_s": None, "phase": "", "message": event.message}
        case _:
            return {}


def ended(run: Run, outcome: Outcome, *, now: float) -> Run:
    """The run once it is over; nodes that had not ended are skipped, and each has the results that it made."""
    why = {"cancelled": "the run was cancelled", "failed": "the run failed"}.get(outcome.state, "it was not needed")
    files = {name: tuple(made.id for made in outcome.made if made.node == name) for name in run.nodes}
    nodes = {
        name: (node if node.state in ENDED else _skipped(node, why)).model_copy(update={"files": files[name]})
        for name, node in run.nodes.items()
    }
    known = {field.name: getattr(outcome, field.name) for field in dataclasses.fields(outcome)}
    known["plan"] = outcome.plan or run.plan
    return run.model_copy(update={**known, "nodes": nodes, "ended": now})


def _skipped(node: NodeState, why: str) -> NodeState:
    return node.model_copy(update={"state": "skipped", "left_s": None, "phase": "", "message": why})


def _rounded(rank: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in rank.items()}
