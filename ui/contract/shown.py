"""What the page shows of the server: errors, who asks, the catalog of nodes, devices, models and plans."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from ...nodes.graph.problems import Problem
from ...nodes.graph.spec import OutputSpec, Widget
from ...nodes.preview.choices import Choice
from ...nodes.preview.table import ModelRow
from ...parallel.machine.now import DeviceNow
from .answer import Answer


class ErrorAnswer(Answer):
    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    error: str
    """One sentence for people."""
    code: str
    """What it is, for programs: one of those that `latentloom.parallel.errors` and `latentloom.ui.errors` name."""
    problems: tuple[Problem, ...] = ()
    """All that is wrong with a workflow."""


class Problems(Answer):
    problems: list[Problem]
    values: dict[str, dict[str, Any]]
    """What 0, "" and "auto" will be, by node and socket, as far as it is known before the run."""


class Me(Answer):
    """Who asks, and what this server allows."""

    user: str
    has_auth: bool
    version: str
    output_dir_name: str
    max_upload_bytes: int


class CatalogInput(Answer):
    """One input socket of a node."""

    name: str
    type: str
    """One of "int", "float", "bool", "string", "choice", the name of a value type such as "Latents", or a list of one
    of these such as "list[float]"."""
    required: bool
    default: bool | int | float | str | list[bool | int | float | str] | None
    choices: list[str]
    min: int | float | None
    max: int | float | None
    step: int | float | None
    widget: Widget
    """The widget that draws the input; "" is the type's own."""
    advanced: bool
    help: str


class CatalogNode(Answer):
    """One node, as `latentloom nodes --json` has it."""

    id: str
    version: int
    title: str
    category: str
    help: str
    inputs: list[CatalogInput]
    outputs: list[OutputSpec]
    origin: str
    """Where a node from outside comes from, and its version; empty for ours."""
    is_output: bool
    """Whether the node acts, and so runs although nothing asks for its value."""
    uses_device: bool
    is_kept: bool
    """Whether what the node gives is kept; else it holds for this machine and this run only."""
    chosen_by: list[str]
    """The inputs that decide which others the node has, and which outputs (`POST /sockets`); these are always there."""


class Catalog(Answer):
    version: str
    """What changes when any node does."""
    nodes: list[CatalogNode]
    types: list[str]


class LoadedPart(Answer):
    """One part of a model that is in memory."""

    name: str
    component: str
    device: str
    bytes: int


class ModelsView(Answer):
    models: list[ModelRow]
    devices: list[DeviceNow]
    loaded: list[LoadedPart]


class PlanStrategies(Answer):
    """The degrees of a plan."""

    cfg: int
    ulysses: int
    ring: int
    allgather: int
    weights: int
    text: str


class NoStrategies(Answer):
    """`{}`: there is no plan."""


class PlanRank(Answer):
    """What one rank would need; `fits` is null where nobody can tell."""

    rank: int
    device: str
    bytes: int
    fits: bool | None


class PlanNode(Answer):
    """How one denoise would run, or `problem`: why it cannot."""

    node: str
    model: str
    family: str
    plan: str
    why: str
    is_chosen_by_hand: bool
    num_ranks: int
    strategies: PlanStrategies | NoStrategies
    ranks: list[PlanRank]
    need_bytes: int
    """The bytes of the whole model's weights."""
    problem: str


class PlanView(Answer):
    devices: list[DeviceNow]
    nodes: list[PlanNode]
    choices: list[Choice]
    problem: str
    """What cannot be of what was asked for."""
