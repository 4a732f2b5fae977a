"""A run as the server keeps it and as pages are told of it, over HTTP and by the WebSocket."""

from typing import Any, Literal

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from ...nodes.execution.models_used import ModelFacts
from ...nodes.graph.problems import Problem
from ...parallel.machine.now import DeviceNow
from ...parallel.progress import Foreseen, RankWork
from ...pipelines.costs.ran import Took
from .answer import FROM_DISK, Answer, Exact, WorkflowFile

State = Literal["waiting", "running", "done", "failed", "cancelled"]
Kind = Literal["image", "video", "audio"]
Priority = Literal["next", "normal", "idle"]  # of a run among its user's own; "idle" gives way to everybody's
NodeStage = Literal["waiting", "running", "done", "cached", "failed", "cancelled", "skipped"]


class NodeState(Answer):
    """One node of a run. Times are seconds."""

    state: NodeStage = "waiting"
    started: float = 0.0
    """Seconds since the epoch on the server's clock; 0 before it starts."""
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    left_s: float | None = None
    """Seconds that the node takes yet, as they were at `left_at`; null where no prediction and no steps tell."""
    run_left_s: float | None = None
    """The same of all that the run has yet to do on the device."""
    left_at: float = 0.0
    """When both were told, in seconds since the epoch on the server's clock; 0 before."""
    phase: str = ""
    message: str = ""
    """The failure's sentence, or why the node was skipped or cached."""
    code: str = ""
    """The failure's, for programs (parallel/errors.py)."""
    cached: Literal["", "memory", "disk", "shared", "unneeded"] = ""
    preview: int = 0
    """Counts the previews; 0 before the first."""
    plan: str = ""
    ranks: tuple[RankWork, ...] = ()
    foreseen: Foreseen | None = None
    """Of a denoise that has begun: what it and the run around it are predicted to take; null where nobody can tell."""
    took: Took | None = None
    """What was predicted, as it was measured; once the run is over."""
    outlook: str = ""
    """The plan and the prediction in plain words; once the run is over, how well it did."""
    files: tuple[str, ...] = ()
    """The ids of the results that the node made."""
    sounds: tuple[str, ...] = ()
    """Those of them that are heard, not seen."""


class RunFacts(Answer):
    """What is kept of a run and told of it everywhere. Times are seconds since the epoch."""

    id: str
    batch: str
    name: str
    workflow_id: str | None = None
    state: State = "waiting"
    priority: Priority = "normal"
    created: float
    started: float | None = None
    ended: float | None = None
    seconds: float = 0.0
    error: str = ""
    code: str = ""
    """The error's, for programs (parallel/errors.py)."""
    note: str = ""
    plan: str = ""
    varied: dict[str, Any] = Field(default_factory=dict)
    """The values that differ in the run's batch; in a list of long texts the beginning."""


class RunParts(Answer):
    """What is kept of a run and told of one at a time."""

    overrides: dict[str, Any] = Field(default_factory=dict)
    targets: tuple[str, ...] | None = None
    """The nodes that the run goes to; null is all that make something."""
    nodes: dict[str, NodeState] = Field(default_factory=dict)


class RunRow(RunFacts):
    """One run in a list."""

    done: int
    total: int
    left_s: float | None
    """Seconds that the run takes yet, as they were at `left_at`; null until there is a number to trust."""
    left_at: float
    """In seconds since the epoch on the server's clock."""
    is_left_least: bool
    """Whether something is yet to come of which nobody knows how long it takes."""
    num_results: int
    newest_result: str | None
    """Its id."""


class LiveRun(RunParts, RunRow):
    """One run as the WebSocket tells it: all of its facts, and those of its nodes that changed."""


class RunWithGraph(LiveRun):
    """One run with all of its nodes."""

    graph: WorkflowFile | None
    """The workflow with this run's values; null where it was lost."""
    versions: dict[str, str | None]
    """The versions of the packages that made it; empty where its manifest is gone, and so are the next."""
    values: dict[str, dict[str, Any]]
    """What 0, "" and "auto" were in the run, by node and socket."""
    inputs: dict[str, dict[str, Any]]
    """Every plain input as it was in the run, by node and socket, with the beginnings of long texts."""
    models: dict[str, ModelFacts]
    """The models that nodes gave."""


class Cancelled(Answer):
    """What one request cancelled: runs that waited are over, those under way end at their next step."""

    runs: tuple[str, ...]


class LeftOut(Answer):
    """A point of a sweep that is not begun, and why."""

    varied: dict[str, Any]
    problems: tuple[Problem, ...]


class Submitted(Answer):
    """What one request started, and the points of its sweep that cannot be made."""

    batch: str
    runs: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    """The first of them; the next is how many there are."""
    num_left_out: int = 0
    shared_out: str = ""
    """Into how many groups the sweep puts the devices, and why; empty where that is not chosen."""


class MadeFacts(Answer):
    """What is kept of a picture, video or sound that a run made, and told of it. A sound has no sides."""

    id: str
    node: str
    part: str = ""
    """The node whose picture it is, where `node` saved a batch of several nodes' pictures."""
    kind: Kind
    name: str
    width: int
    height: int
    frames: int = 1
    fps: float = 0.0
    rate: int = 0
    """Samples a second of a sound, or of a video's; 0 is silence."""
    channels: int = 0
    length_s: float = 0.0
    """Of a sound, in seconds."""
    poster: int = 0
    """The frame, from 0, that stands for a video."""
    bytes: int
    time: float
    """Seconds since the epoch."""
    prompt: str = ""
    seed: Exact | None = None
    models: tuple[str, ...] = ()
    """The sources of the models behind it."""
    is_starred: bool = False
    tags: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    """The ids of the boards that it is on."""


class Result(MadeFacts):
    """One picture, video or sound with what made it."""

    run: str
    batch: str
    workflow_name: str
    workflow_id: str | None
    params: dict[str, Any]
    varied: dict[str, Any]
    plan: str
    seconds: float


class QueuePlace(Answer):
    """One place of the queue; another user's has neither `id` nor `name`."""

    id: str | None
    is_mine: bool
    state: State
    name: str
    priority: Priority = "normal"
    left_s: float | None = None
    """Seconds that it takes yet, as they were at `left_at`; null where nobody knows."""
    left_at: float = 0.0
    """In seconds since the epoch on the server's clock; 0 of a run that waits, whose seconds do not pass yet."""


def _no_default(schema: dict[str, Any]) -> None:
    # null would be none of its type: it is left out then
    schema.pop("default", None)


class LiveMessage(Answer):
    """One message of the WebSocket: what changed since the last one; all of it where `full`."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    seq: int
    full: bool
    t: int
    """Milliseconds since the epoch of the newest event in it."""
    server: str
    """A random id of the server process; another one means that it was restarted."""
    runs: dict[str, LiveRun]
    removed: list[str]
    library: int
    """Counts the changes of the user's workflows."""
    results: int
    """Counts the changes of the user's results."""
    downloads: int
    """Counts the changes of the user's downloads, at most one a second."""
    queue: list[QueuePlace] | SkipJsonSchema[None] = Field(None, json_schema_extra=_no_default)
    """Left out where it did not change."""
    devices: list[DeviceNow] | SkipJsonSchema[None] = Field(None, json_schema_extra=_no_default)
    """Left out where they did not change."""

    def to_plain(self) -> dict[str, Any]:
        """As it is sent."""
        stayed = {name for name in ("queue", "devices") if getattr(self, name) is None}
        return self.model_dump(exclude=stayed)


class Board(Answer):
    """A named set of results; one result may be on several."""

    model_config = FROM_DISK

    id: str
    name: str
    created: float
    """Seconds since the epoch."""


class BoardRow(Board):
    """A board in a list."""

    count: int
    cover: str | None
    """The id of its newest result."""


class TagRow(Answer):
    """A tag, and how many results have it."""

    tag: str
    count: int


class Maker(Answer):
    """The name of workflows that made results, and how many."""

    name: str
    count: int


class FileHash(Answer):
    """One file of weights, once it was read whole."""

    name: str
    num_bytes: int
    sha256: str


class Hashing(Answer):
    """The files of a model being hashed in the background."""

    id: str
    source: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    done_bytes: int
    total_bytes: int
    files: tuple[FileHash, ...]
    error: str
    """Why it failed, in a sentence."""
