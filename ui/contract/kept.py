"""What users keep, as the server tells it: workflows with their versions, drafts, files that they brought."""

from __future__ import annotations

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


UploadKind = Literal["image", "audio", "video"]
"""A video comes from a result only."""


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
