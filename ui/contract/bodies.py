"""What requests may say: the JSON bodies of the API, with their limits."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from .answer import WorkflowFile
from .run import Priority

Text = Annotated[str, StringConstraints(strict=True, max_length=200)]
LongText = Annotated[str, StringConstraints(strict=True, max_length=1 << 20)]
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]
Scalar = StrictBool | StrictInt | StrictFloat | LongText
Value = Scalar | Annotated[list[Scalar], Field(max_length=10_000)]
Overrides = Annotated[dict[Annotated[str, StringConstraints(max_length=130)], Value], Field(max_length=1000)]


class Body(BaseModel):
    """What a request says, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class Empty(Body):
    """`{}`"""


class GraphBody(Body):
    graph: WorkflowFile


class CheckBody(GraphBody):
    overrides: Overrides = {}
    page: Text = ""
    """Which page asks: a newer question of the same one ends the older. Without it every question is answered."""


class ScriptBody(GraphBody):
    targets: Annotated[list[Text], Field(max_length=10_000)] | None = None
    """Nodes or outputs that it makes; all where none is named."""


class SocketsBody(Body):
    """A node whose sockets depend on what is given at some of them, and what is given there."""

    type: Name
    values: Annotated[dict[Name, LongText], Field(max_length=8)]


class PlacedBody(GraphBody):
    overrides: Overrides = {}
    devices: Text = ""
    plan: Text = ""


class PlanBody(CheckBody, PlacedBody):
    machine: Text = ""
    """One that is not this one, such as `8xH100-nvlink`."""


class RunBody(PlacedBody):
    """One run, or with `sweep` (such as `seed=1..4`) one for each combination of values."""

    force: StrictBool = False
    """Whether what is only reckoned, such as memory, keeps nothing from running."""
    sweep: Annotated[list[LongText], Field(max_length=32)] = []
    targets: Annotated[list[Text], Field(max_length=10_000)] | None = None
    workflow_id: Text | None = None
    priority: Priority = "normal"
    """Among the user's own; "idle" gives way to everybody's."""


class NamedRunBody(Body):
    """One run of a workflow by its name, or with `sweep` (such as `seed=1..4`) one for each combination of values."""

    params: Overrides = {}
    """By a param's name, or for single inputs as node.socket. A text is read as `--set` reads it where none belongs."""
    sweep: Annotated[list[LongText], Field(max_length=32)] = []
    priority: Priority = "normal"
    force: StrictBool = False
    """Whether what is only reckoned, such as memory, keeps nothing from running."""


class PublishBody(Body):
    version: Annotated[StrictInt, Field(ge=1)]
    """Of the saved workflow: which the app runs from now on."""


class AppRunBody(Body):
    """What whoever opens an app may say: the values of its settings, and nothing else."""

    params: Annotated[dict[Name, Value], Field(max_length=1000)] = {}


class AppCheckBody(AppRunBody):
    page: Text = ""
    """Which page asks: a newer question of the same one ends the older."""


RunId = Annotated[str, StringConstraints(strict=True, max_length=64)]
Runs = Annotated[list[RunId], Field(min_length=1, max_length=1000)]


class CancelBody(Body):
    runs: Runs | None
    """Null is all that wait or run."""


class PriorityBody(Body):
    runs: Runs
    """They have to wait."""
    priority: Priority


class MoveBody(Body):
    """Null is the end of the queue."""

    before: Text | None


class PosterBody(Body):
    frame: Annotated[StrictInt, Field(ge=0, le=10**6)]
    """Of a video, from 0."""


class NewWorkflowBody(GraphBody):
    name: Name | None = None
    folder: Text = ""


class SaveBody(GraphBody):
    base_version: StrictInt
    """The version that was opened: another one by now is a conflict."""


class RenameBody(Body):
    name: Name | None = None
    folder: Text | None = None


class DraftBody(GraphBody):
    workflow_id: Text | None = None
    base_version: StrictInt | None = None


ResultId = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Tag = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=60)]


class MarkBody(Body):
    """What changes of some results at once."""

    ids: Annotated[list[ResultId], Field(min_length=1, max_length=1000)]
    star: StrictBool | None = None
    """Null leaves each as it is."""
    add_tags: Annotated[list[Tag], Field(max_length=32)] = []
    remove_tags: Annotated[list[Tag], Field(max_length=32)] = []
    add_boards: Annotated[list[ResultId], Field(max_length=32)] = []
    """Ids of boards."""
    remove_boards: Annotated[list[ResultId], Field(max_length=32)] = []


class BoardBody(Body):
    name: Name


Commit = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{40}$")]


class HubBody(Body):
    id: Name
    """Of a model on the hub, such as Qwen/Qwen-Image."""
    revision: Text = ""
    """A branch, tag or commit; empty is the default."""


class DownloadBody(HubBody):
    commit: Commit
    """The one that `POST /hub` told of, with its licence and size."""


class HashBody(Body):
    """A model of a run: the node that gave it."""

    run: ResultId
    node: Name
