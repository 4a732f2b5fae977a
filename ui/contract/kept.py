"""What users keep, as the server tells it: workflows with their versions, drafts, files that they brought, models."""

from typing import Literal

from .answer import FROM_DISK, Answer, Exact, WorkflowFile


class NamedGraph(Answer):
    name: str
    graph: WorkflowFile


class Template(Answer):
    """A ready workflow to start from."""

    id: str
    name: str
    description: str
    graph: WorkflowFile


class FileText(Answer):
    text: str


class Workflow(Answer):
    """A saved workflow in a list. Times are seconds since the epoch."""

    id: str
    name: str
    folder: str
    summary: str
    """The beginning of the workflow's description."""
    updated: float
    version: int
    num_nodes: int
    has_thumb: bool


class WorkflowWithGraph(Workflow):
    graph: WorkflowFile


class WorkflowVersion(Answer):
    """One state of a workflow that was saved."""

    model_config = FROM_DISK

    version: int
    time: float
    num_nodes: int


class Token(Answer):
    token: str


class Draft(Answer):
    """What a page had on its canvas last."""

    model_config = FROM_DISK

    key: str
    name: str
    workflow_id: str | None = None
    base_version: int | None = None
    updated: float
    """Seconds since the epoch."""


class DraftWithGraph(Draft):
    graph: WorkflowFile
    """What was on the canvas; it need not be a sound workflow."""


UploadKind = Literal["image", "audio", "video"]  # a video comes from a result only


class UploadRow(Answer):
    path: str
    """What Load Image, Load Audio or Load Video takes."""
    kind: UploadKind
    bytes: int
    time: float
    """Seconds since the epoch."""


class Upload(Answer):
    path: str
    """What Load Image, Load Audio or Load Video takes."""
    name: str
    kind: UploadKind
    width: int
    height: int
    length_s: float
    """Of a sound, in seconds; a sound has no sides."""


class ForeignFacts(Answer):
    """What a picture of another program says of how it was made: read, never run. What it does not say is empty."""

    tool: str
    """The program's name."""
    prompt: str
    negative_prompt: str
    seed: Exact | None
    steps: int | None
    guidance: float | None
    sampler: str
    scheduler: str
    model: str
    loras: tuple[str, ...]
    strength: float | None
    width: int | None
    height: int | None
    more: dict[str, str]
    """What else it says, by the program's own words."""


KeptName = Literal["workflows", "drafts", "uploads", "runs", "results", "boards", "models"]


class KeptKind(Answer):
    """All things of one kind that a user keeps."""

    kind: KeptName
    num_bytes: int
    count: int
    most_count: int
    is_counted: bool
    """Whether their bytes count: results and models do where there is a login."""


class Kept(Answer):
    """What a user keeps on the server's disk, and how much that may be."""

    num_bytes: int
    """Of what is counted."""
    most_bytes: int
    free_bytes: int
    """How much the disk itself still takes, whoever asks."""
    kinds: tuple[KeptKind, ...]


DownloadState = Literal["waiting", "fetching", "done", "failed", "cancelled"]


class HubLook(Answer):
    """A model on the hub, without its weights; `problem` is why it cannot be fetched, or not now."""

    id: str
    revision: str
    commit: str
    licence: str
    """As its makers name it; empty where they do not."""
    licence_url: str
    """Its text, where they say where."""
    is_gated: bool
    """Whether its makers ask for their terms to be accepted on the hub first."""
    family: str
    does: str
    """What its family makes of what."""
    num_files: int
    num_bytes: int
    """Of all that a run needs."""
    had_bytes: int
    """Of these, what is on the server's disk already."""
    free_bytes: int
    """What the disk takes yet."""
    room_bytes: int | None
    """What the user may keep yet; null where that is not counted."""
    problem: str
    code: str


class Download(Answer):
    """One model that the user had fetched. Bytes and files are those that are there."""

    model_config = FROM_DISK

    id: str
    model: str
    revision: str
    commit: str
    licence: str
    state: DownloadState
    done_bytes: int
    total_bytes: int
    done_files: int
    total_files: int
    bytes_per_s: float | None
    """Of late; null where nobody can tell."""
    left_s: float | None
    num_before: int
    """How many of this server's go first."""
    error: str
    """Why it failed, in a sentence."""
    code: str
