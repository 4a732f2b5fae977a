"""The state of a run and of its nodes, and how an event of the executor changes a node's.

A run goes from waiting to running to done, failed or cancelled; a server that was killed in between finds it in its
records, and sets it back.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from ...nodes.execution.events import Event
from ...parallel.errors import LoomError
from ...parallel.wording import worded
from ..contract.answer import FROM_DISK
from ..contract.run import LiveRun, MadeFacts, NodeStage, NodeState, RunFacts, RunParts, RunRow, State
from ..store.paging import short_values

# A run that was under way when the server was killed so often is not started once more: it may be what ended it.
MAX_RESTARTS = 2

AGAIN = "its process ended while this ran, so it was started again"
GIVEN_UP = worded(
    "the server died {} times while this ran; perhaps it needs more memory than there is: "
    "look at its plan, make it smaller, and run it again",
    MAX_RESTARTS + 1,
)
OVER: tuple[State, ...] = ("done", "failed", "cancelled")
ENDED: tuple[NodeStage, ...] = ("done", "cached", "failed", "cancelled", "skipped")

NONE_LEFT: Mapping[str, Any] = {"left_s": None, "run_left_s": None, "left_at": 0.0}
STOPPING = "stopping at the next step"
WHY_CACHED = {
    "memory": "unchanged since an earlier run; taken from memory",
    "disk": "unchanged since an earlier run; read from the disk cache",
    "shared": "made before, here or by another program; read from the cache folder that they share",
    "unneeded": "not needed: all that it feeds is there already",
}


class MadeFile(MadeFacts):
    """One picture, video or sound that a run made, and where its file is below the output folder."""

    path: str
    words: str = ""  # what values it was made with, a line of "node.socket=value" each, for who searches


class RunRecord(RunParts, RunFacts):
    """One run: what was asked, and what became of it."""

    model_config = FROM_DISK  # older versions kept `num_runs`

    user: str
    params: dict[str, Any] = Field(default_factory=dict)  # all of the workflow's, with this run's values
    place: dict[str, Any] = Field(default_factory=dict)
    folder: str  # below the output folder
    restarts: int = 0  # how often the server died while it ran
    is_ending: bool = False  # whether its user has cancelled the run, and it goes on to its next step
    # Whether it was under way when a server ended, and has not begun again: it goes before all others.
    is_back: bool = False
    # What it was predicted to take when it was put into the queue; None where nobody could tell.
    predicted_s: float | None = None
    made: tuple[MadeFile, ...] = ()
    point: int = 0  # of its sweep, from 1 on; older versions kept none
    is_keyed: bool = False  # whether it was asked for with an Idempotency-Key, whose answer is kept beside its workflow
    asked_as: dict[str, str] = Field(default_factory=dict)  # what `/v1` says of it again

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def row(self) -> RunRow:
        """The run in a list: of what was asked only what varies in its batch, and of long texts the beginning."""
        facts = self._facts() | {"varied": short_values(self.varied)}
        return RunRow(**facts, **progress(self.nodes.values()))

    def told(self, nodes: Mapping[str, NodeState], *, changed: Collection[str] | None = None) -> LiveRun:
        """The run as pages are told it: its state by all of its nodes, and of these only those that changed."""
        parts = {"overrides": self.overrides, "targets": self.targets}
        kept = nodes if changed is None else {name: nodes[name] for name in changed}
        return LiveRun(**self._facts(), **parts, **progress(nodes.values()), nodes=dict(kept))

    def _facts(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in RunFacts.model_fields}
        facts |= {"num_results": len(self.made), "newest_result": self.made[-1].id if self.made else None}
        return facts | {"note": STOPPING} if self.is_ending and not self.is_over else facts


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended."""

    state: State
    seconds: float = 0.0
    error: str = ""
    code: str = ""
    plan: str = ""
    made: tuple[MadeFile, ...] = ()


def set_back(run: RunRecord) -> RunRecord:
    """The run as one that waits again, to be made from its beginning."""
    nodes = dict.fromkeys(run.nodes, NodeState())
    known = {"state": "waiting", "started": None, "note": AGAIN, "is_back": True}
    return run.model_copy(update={**known, "nodes": nodes, "made": ()})


def recovered(run: RunRecord, *, now: float) -> RunRecord:
    """What was under way when the server was killed: it waits again, or is given up after too many times."""
    if run.is_ending:
        return ended(run, Outcome(state="cancelled"), now=now)
    if run.restarts >= MAX_RESTARTS:
        return ended(run, Outcome(state="failed", error=GIVEN_UP, code=LoomError.code), now=now)
    return set_back(run).model_copy(update={"restarts": run.restarts + 1})


def order_of(runs: Iterable[RunRecord], remembered: Sequence[str]) -> list[str]:
    """The runs that are not over: what was under way first, then as remembered, then by the time of their making."""
    places = {id: place for place, id in enumerate(remembered)}
    left = [run for run in runs if not run.is_over]
    left.sort(
        key=lambda run: (run.state != "running", run.started or 0.0, places.get(run.id, len(places)), run.created)
    )
    return [run.id for run in left]


def progress(nodes: Iterable[NodeState]) -> dict[str, Any]:
    """Steps done and in all, a node without steps being one, and the seconds left: those of the run where they are
    known, else those of the running node that takes longest, which are the least."""
    done = total = 0
    newest = longest = NodeState()
    for node in nodes:
        size = max(1, node.total)
        total += size
        done += size if node.state in ENDED else node.done
        newest = max(newest, node, key=lambda each: each.left_at)
        if node.state == "running":
            longest = max(longest, node, key=lambda each: each.left_s or 0.0)
    is_known = newest.run_left_s is not None
    return {
        "done": done,
        "total": total,
        "left_s": newest.run_left_s if is_known else longest.left_s,
        "left_at": newest.left_at if is_known else longest.left_at,
        "is_left_least": not is_known,
    }


def after(node: NodeState, event: Event, *, now: float) -> NodeState:
    """The node's state once this event has happened."""
    rounded = [None if seconds is None else round(seconds, 2) for seconds in (event.left_s, event.run_left_s)]
    left = {"left_s": rounded[0], "run_left_s": rounded[1], "left_at": round(now, 3)}
    changes: dict[str, Any]
    match event.kind:
        case "started":
            changes = {"state": "running", "started": round(now, 3), "phase": "", **left}
        case "phase":
            changes = {"phase": event.message, **left}
        case "progress":
            changes = {"phase": "", "done": event.done, "total": event.total, **left}
        case "preview":
            changes = {"preview": node.preview + 1}
        case "spread":
            ranks = tuple(dataclasses.replace(rank, seconds=round(rank.seconds, 4)) for rank in event.ranks)
            changes = {"plan": event.message, "ranks": ranks}
        case "foreseen":
            told = event.foreseen if event.foreseen and not event.foreseen.is_assumed else None
            changes = {"foreseen": told, "outlook": event.message, **left}
        case "took":
            changes = {"took": event.took, "outlook": event.message}
        case "cached":
            why = WHY_CACHED.get(event.message, event.message)
            changes = {"state": "cached", "cached": event.message, "message": why, "phase": ""}
        case "finished":
            seconds = round(event.seconds, 4)
            changes = {"state": "done", "seconds": seconds, "done": node.total, "phase": "", **left}
        case "failed" | "cancelled" | "skipped":
            changes = {"state": event.kind, "seconds": round(event.seconds, 4), "phase": "", **left}
            changes |= {"message": event.message, "code": event.code}
        case _:
            return node
    return node.model_copy(update=changes)


def with_results(run: RunRecord, made: Iterable[MadeFile]) -> RunRecord:
    """The run with these results, and each of its nodes with those that it made."""
    made, own = tuple(made), {name: list[MadeFile]() for name in run.nodes}
    for each in made:
        own.setdefault(each.node, []).append(each)
    nodes: dict[str, NodeState] = {}
    for name, node in run.nodes.items():
        files = tuple(each.id for each in own[name])
        sounds = tuple(each.id for each in own[name] if each.kind == "audio")
        # most stay as they are: a run of thousands of nodes comes here for each file, under the lock of the book
        is_same = node.files == files and node.sounds == sounds
        nodes[name] = node if is_same else node.model_copy(update={"files": files, "sounds": sounds})
    return run.model_copy(update={"made": made, "nodes": nodes})


def with_marks(outcome: Outcome, known: Iterable[MadeFile]) -> Outcome:
    """What the user said of results while their run was under way holds."""
    marks = {made.id: made.model_dump(include={"is_starred", "tags", "boards", "poster"}) for made in known}
    made = tuple(each.model_copy(update=marks.get(each.id, {})) for each in outcome.made)
    return dataclasses.replace(outcome, made=made)


def ended(run: RunRecord, outcome: Outcome, *, now: float) -> RunRecord:
    """The run once it is over; nodes that had not ended are skipped, and each has the results that it made."""
    why = {"cancelled": "the run was cancelled", "failed": "the run failed"}.get(outcome.state, "it was not needed")
    skipped = {"state": "skipped", "phase": "", "message": why}
    nodes = {
        name: node.model_copy(update={**({} if node.state in ENDED else skipped), **NONE_LEFT})
        for name, node in with_results(run, outcome.made).nodes.items()
    }
    known = {**vars(outcome), "plan": outcome.plan or run.plan}
    return run.model_copy(update={**known, "nodes": nodes, "ended": now})
