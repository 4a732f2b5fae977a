"""What the API answers, for its description as OpenAPI; a test holds every answer against them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ..live.state import NodeState, State


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProblemShape(_Shape):
    """One thing that is wrong with a workflow; `node` and `socket` are empty where it concerns all of it."""

    node: str
    socket: str
    code: str
    message: str


class ErrorShape(_Shape):
    error: str
    """One sentence for people."""
    code: str
    """What it is, for programs: one of those that `latentloom.parallel.errors` and `latentloom.ui.errors` name."""
    problems: list[ProblemShape] = []


class Problems(_Shape):
    problems: list[ProblemShape]


class Me(_Shape):
    user: str
    has_auth: bool
    version: str
    output_dir_name: str
    max_upload_bytes: int


class Catalog(_Shape):
    """The nodes as `latentloom nodes --json` has them."""

    version: str
    nodes: list[dict[str, Any]]
    types: list[str]


class NamedGraph(_Shape):
    name: str
    graph: dict[str, Any]


class Template(NamedGraph):
    id: str
    description: str


class FileText(_Shape):
    text: str


class Workflow(_Shape):
    """Times are seconds since the epoch."""

    id: str
    name: str
    folder: str
    summary: str
    """The beginning of its description."""
    updated: float
    version: int
    num_nodes: int
    has_thumb: bool


class WorkflowWithGraph(Workflow):
    graph: dict[str, Any]


class WorkflowVersion(_Shape):
    version: int
    time: float
    num_nodes: int


class Token(_Shape):
    token: str


class Draft(_Shape):
    key: str
    name: str
    workflow_id: str | None
    base_version: int | None
    updated: float


class DraftWithGraph(Draft):
    graph: dict[str, Any]


class Submitted(_Shape):
    batch: str
    runs: list[str]


class RunRow(_Shape):
    """One run in a list. Times are seconds since the epoch, `seconds` and `left_s` are durations."""

    id: str
    batch: str
    name: str
    workflow_id: str | None
    state: State
    created: float
    started: float | None
    ended: float | None
    seconds: float
    done: int
    total: int
    left_s: float | None
    error: str
    code: str
    """Of the error."""
    note: str
    varied: dict[str, Any]
    """Its values in its batch; in a list of long texts the beginning."""
    plan: str


class RunWithGraph(RunRow):
    overrides: dict[str, Any]
    targets: list[str] | None
    nodes: dict[str, NodeState]
    graph: dict[str, Any] | None
    """The workflow with this run's values; null where it was lost."""
    versions: dict[str, str | None]
    """Of the packages that made it; empty where its manifest is gone."""


class ResultShape(_Shape):
    id: str
    run: str
    batch: str
    node: str
    kind: Literal["image", "video"]
    name: str
    width: int
    height: int
    frames: int
    fps: float
    bytes: int
    time: float
    workflow_name: str
    workflow_id: str | None
    params: dict[str, Any]
    prompt: str
    seed: int | None
    plan: str
    seconds: float
    varied: dict[str, Any]


class UploadRow(_Shape):
    """`path` is what Load Image takes."""

    path: str
    bytes: int
    time: float


class Uploaded(_Shape):
    """`path` is what Load Image takes."""

    path: str
    name: str
    width: int
    height: int


Responses = dict[int | str, dict[str, Any]]
ERRORS: Responses = {
    status: {"model": ErrorShape, "description": description}
    for status, description in (
        (400, "The request is wrong; the sentence says how."),
        (401, "Nobody is logged in."),
        (403, "The request comes from a foreign page, or for a foreign host."),
        (404, "There is no such thing, or it is another user's."),
        (408, "The rest of the body stopped coming."),
        (413, "The body is too large."),
        (415, "The body is not marked as JSON."),
        (429, "Too much at a time from one address."),
        (507, "As much is kept as may be; the sentence says what to delete."),
    )
}
CONFLICT: Responses = {409: {"model": ErrorShape, "description": "The thing is not as the caller believes."}}


def answers(shape: Any, status: int = 200) -> Responses:
    """The description of a good answer."""
    return {status: {"model": shape}}


def sends(*media_types: str) -> Responses:
    """The description of an answer that is a file."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": dict.fromkeys(media_types, schema)}}


def takes(*media_types: str) -> dict[str, Any]:
    """The description of a body that is a file."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": dict.fromkeys(media_types, schema)}}
