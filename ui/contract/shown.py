"""What the page shows of the server: errors, who asks, the catalog of nodes, devices, models, LoRAs and plans."""

from typing import Any

from pydantic import ConfigDict, Field, create_model

from ...nodes.graph.problems import Problem
from ...nodes.graph.spec import OutputSpec, Widget
from ...nodes.preview.choices import Choice
from ...nodes.preview.meant import Sizes
from ...nodes.preview.table import ModelRow
from ...parallel.machine.now import DeviceNow
from ...parallel.plan import DEGREES
from ...pipelines.forecast.history import HistoryRow
from ...pipelines.models.loras.installed import Verdict
from ...pipelines.tokens.counter import TokenCount
from .answer import Answer
from .kept import Draft, DraftWithGraph, Template


class Words(Answer):
    """How a sentence was made, for who says it in another language."""

    text_id: str
    """Its English, with `{}` for each value."""
    values: tuple[str, ...]
    """As they stand in the sentence; one may be a sentence itself."""


class ErrorAnswer(Answer):
    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    error: str
    """One sentence for people."""
    code: str
    """What it is, for programs: one of those that `latentloom.parallel.errors` and `latentloom.ui.errors` name."""
    problems: tuple[Problem, ...] = ()
    """All that is wrong with a workflow."""
    said: dict[str, Words] = Field(default_factory=dict[str, Words])
    """How the sentences in it were made, by each; in any other answer, too, that has such sentences."""


class Problems(Answer):
    problems: list[Problem]
    values: dict[str, dict[str, Any]]
    """What 0, "" and "auto" will be, by node and socket, as far as it is known before the run."""
    sizes: dict[str, Sizes]
    """Which sizes the models of nodes with a canvas paint, by node."""


class Tokens(Answer):
    tokens: dict[str, dict[str, tuple[TokenCount, ...]]]
    """What the text encoders make of each text that one reads, by node and socket, the one with the least room first;
    none where that is not known."""


class Me(Answer):
    """Who asks, and what this server allows."""

    user: str
    has_auth: bool
    version: str
    output_dir_name: str
    max_upload_bytes: int
    most_waiting: int
    """How many runs of one user may wait at a time."""
    allows_downloads: bool
    """Whether pages may have models fetched from the hub."""
    template_files: list[str]
    """Pictures and sounds that templates come with, by the names by which workflows load them."""


class Start(Answer):
    """What a page begins with, in one answer."""

    me: Me
    drafts: list[Draft]
    """The newest, at most as many as a list's page may have."""
    newest: DraftWithGraph | None
    """The first of them, whole; null where there is none."""


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
    auto: bool
    """Whether zero stands for the model's own number."""
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


class TemplateNeeds(Answer):
    """What a ready workflow needs to run here."""

    id: str
    runs: bool
    model: str
    """The model that is not here; empty where something else is missing, or nothing."""
    why: str
    """What keeps it from running, or may do so; empty where it runs."""
    fit: str
    """Whether that model would fit this machine, and how, by its known size; empty where that is not known."""


class NodeUse(Answer):
    """Where a node can be seen at work."""

    example: Template | None
    """The smallest workflow that shows it; null for a node from outside."""
    node: str
    """The node in the example."""
    needs: TemplateNeeds | None
    """Of the example."""
    templates: list[str]
    """The ids of the ready workflows that have such a node."""


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


class LoraRow(Answer):
    """One LoRA. What it tells of itself is anybody's: plain text of one line, cut."""

    id: str
    path: str
    """What Load LoRA takes."""
    name: str
    """The file's name without its ending."""
    folder: str
    """Where it lies in its folder of models; empty at the top."""
    bytes: int
    rank: int
    """That of most of its layers; 0 where it has none."""
    made_for: str
    """The model that it names; empty where it names none."""
    triggers: list[str]
    """Words that call it up in a prompt."""
    title: str
    author: str
    licence: str
    has_picture: bool
    verdict: Verdict
    """Whether it fits the model that was asked for: its layers do, what it says it is for does, nobody knows, or no."""
    why: str
    """Why it does not fit, or is refused whatever the model; empty where it may fit."""


class LorasView(Answer):
    """The LoRAs of this server, those first that fit."""

    loras: list[LoraRow]
    is_whole: bool
    """Whether all files were looked at: else there were too many for one look, and the next sees more."""
    problem: str
    """Why nobody can say which fit the model that was asked for; empty where they can, or none was."""


_DEGREES: dict[str, Any] = dict.fromkeys(DEGREES, (int, ...))


class PlanStrategies(create_model("_Degrees", __base__=Answer, **_DEGREES)):
    """The degrees of a plan."""

    text: str


class NoStrategies(Answer):
    """`{}`: there is no plan."""


class PlanRank(Answer):
    """What one rank would need; `fits` is null where nobody can tell."""

    rank: int
    device: str
    bytes: int
    fits: bool | None


class PlanMachine(Answer):
    """What a plan is predicted for."""

    name: str
    title: str
    num_devices: int
    memory_bytes: int
    """Of each device; on a CPU, of all ranks together."""
    is_measured: bool
    """Whether its own measurements are under the predictions, or data sheets."""
    is_assumed: bool
    """Whether no data sheet tells of it either."""


class RejectedPlan(Answer):
    """A plan that is not taken, with the seconds of a step, and why not."""

    plan: str
    step_s: float | None
    why: str


class PredictedPlan(Answer):
    """One of all plans, with the seconds of a run."""

    plan: str
    num_devices: int
    seconds: float | None
    bytes: int
    """On the device that holds most."""
    lacking_bytes: int
    """What does not fit there."""
    is_shown: bool
    """Whether it is the one whose numbers are told."""


class Prediction(Answer):
    """What one denoise, and the run around it, are predicted to take by a plan, in seconds; null where they would
    follow from what is assumed of the machine alone."""

    machine: PlanMachine
    plan: str
    why: str
    """Empty for one that was written by hand, or does not fit."""
    num_devices: int
    steps: int
    step_s: float | None
    steps_s: float | None
    """Of all steps."""
    text_s: float | None
    decode_s: float | None
    seconds: float | None
    """Of text, steps and decoding."""
    load_s: float | None
    """Before the first run, to read the weights."""
    bytes: int
    """On the device that holds most."""
    lacking_bytes: int
    rejected: list[RejectedPlan]
    plans: list[PredictedPlan]
    """The fastest first, the best of each kind."""
    remedy: str
    """What to change so that a plan fits."""
    hint: str
    """What would make it faster."""


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
    prediction: Prediction | None = None
    """Null where nobody can tell, as of a pipeline that is run whole."""


class History(Answer):
    rows: list[HistoryRow]


class PlanView(Answer):
    devices: list[DeviceNow]
    nodes: list[PlanNode]
    choices: list[Choice]
    problem: str
    """What cannot be of what was asked for."""
    examples: list[str]
    """Names of machines that one does not have, to plan for."""
