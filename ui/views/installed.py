"""What is on this server: models, what of them is loaded, LoRAs, and which ready workflows run with them."""

import hashlib
from collections.abc import Sequence

from ...nodes.execution.preflight import foretell
from ...nodes.files.thumbnails import checked_picture, picture_thumbnail
from ...nodes.graph.graph import graph_from_plain
from ...nodes.graph.ready import ready
from ...nodes.headless.plans import plan_model
from ...nodes.preview.table import ModelRow, model_rows
from ...nodes.registry import SPECS
from ...parallel.wording import worded
from ...pipelines.components.memory import Held
from ...pipelines.costs.machine import Machine
from ...pipelines.forecast.explained import in_brief
from ...pipelines.forecast.known import machine_at, spot_of
from ...pipelines.models.describe import describe_model
from ...pipelines.models.loras.installed import Fit, InstalledLoras, LoraFacts, Verdict, fit_of, installed_loras
from ...pipelines.models.loras.lora_file import layers_of
from ..contract.kept import Template
from ..contract.shown import LoadedPart, LoraRow, LorasView, ModelsView, NodeUse, TemplateNeeds
from ..errors import NotHere
from ..library.shipped import example_of, templates, templates_with
from ..settings import Settings
from .devices import devices_now
from .newest import Latest

FRESH_S = 30.0  # how long an answer is good for: reading the headers of many models takes seconds
THUMB_SIDE = 192
ORDER: tuple[Verdict, ...] = ("fits", "likely", "unknown", "other")
UNASKED = Fit("unknown")

_TABLE: Latest[list[ModelRow]] = Latest()
_LOOK: Latest[InstalledLoras] = Latest()
_NEEDS: Latest[list[TemplateNeeds]] = Latest()


def models_view(settings: Settings, *, loaded: Sequence[Held] = (), refresh: bool = False) -> ModelsView:
    """`refresh` looks for models again. Raises `ValueError` for a folder of models that is not there."""
    now = devices_now()
    folders = settings.models_dirs
    models = _TABLE.of(folders, lambda: model_rows(folders, now), fresh_s=0.0 if refresh else FRESH_S)
    names = {model.location: model.name for model in models}
    held = [
        LoadedPart(
            name=names.get(each.folder, each.folder), component=each.component, device=each.device, bytes=each.num_bytes
        )
        for each in loaded
    ]
    return ModelsView(models=models, devices=now, loaded=held)


def _installed(settings: Settings, *, refresh: bool = False) -> InstalledLoras:
    last = _LOOK.last(settings.models_dirs)
    return _LOOK.of(
        settings.models_dirs,
        lambda: installed_loras(settings.models_dirs, roots=settings.roots()),
        fresh_s=0.0 if refresh or (last is not None and last.may_grow) else FRESH_S,
    )


def loras_view(settings: Settings, *, source: str = "", revision: str = "", refresh: bool = False) -> LorasView:
    """All of them, the fitting ones first, for a model by its source; without one nobody knows which fit."""
    found, problem, model = _installed(settings, refresh=refresh), "", None
    try:
        if source.strip():
            model = describe_model(source, revision=revision, device="cpu", roots=settings.roots(), is_here=False)
    except ValueError as error:
        problem = str(error)
    if model is None:
        fits = [Fit("other", lora.problem) if lora.problem else UNASKED for lora in found.loras]
    else:
        held = layers_of(model)
        fits = [fit_of(lora, model, held) for lora in found.loras]
    rows = [_lora_row(lora, fit, settings) for lora, fit in zip(found.loras, fits, strict=True)]
    rows.sort(key=lambda row: (ORDER.index(row.verdict), row.name.lower(), row.path))
    return LorasView(loras=rows, is_whole=found.is_whole, problem=problem)


def lora_picture(settings: Settings, id: str) -> bytes:
    """A small WebP of the picture beside a LoRA. Raises `NotHere`, or `ValueError` for one that is not sound."""
    known = _LOOK.last(settings.models_dirs)  # however old: a page shows the pictures of what it was told
    loras = known.loras if known and known.loras else _installed(settings).loras
    found = next((lora for lora in loras if _lora_id(lora) == id), None)
    if found is None or found.picture is None:
        raise NotHere("there is no picture of this LoRA any more; open the list again")
    checked_picture(found.picture, name=found.picture.name, max_pixels=settings.max_pixels)
    return picture_thumbnail(found.picture, side=THUMB_SIDE, name=found.picture.name)


def _lora_row(lora: LoraFacts, fit: Fit, settings: Settings) -> LoraRow:
    below = next((folder for folder in settings.models_dirs if lora.path.is_relative_to(folder)), lora.path.parent)
    return LoraRow(
        id=_lora_id(lora),
        path=str(lora.path.absolute()),
        name=lora.path.stem,
        folder=lora.path.parent.relative_to(below).as_posix().removeprefix("."),
        bytes=lora.num_bytes,
        triggers=list(lora.triggers),
        **{name: getattr(lora, name) for name in ("rank", "made_for", "title", "author", "licence")},
        has_picture=lora.picture is not None,
        verdict=fit.verdict,
        why=fit.why,
    )


def _lora_id(lora: LoraFacts) -> str:
    return hashlib.sha256(str(lora.path).encode()).hexdigest()[:16]


def templates_needs(settings: Settings) -> list[TemplateNeeds]:
    """Of each template. Takes a second the first time: not for the event loop."""
    return _NEEDS.of(settings, lambda: [_needs_of(each, settings) for each in templates()], fresh_s=FRESH_S)


def node_use(type: str, settings: Settings) -> NodeUse:
    """An example of the node, with what it needs, and the templates that have it. Raises `NotHere`."""
    if type not in SPECS:
        raise NotHere(worded("there is no node {!r} on this server; reload the page", type[:40]))
    example, node = example_of(type) or (None, "")
    needs = _needs_of(example, settings) if example else None
    return NodeUse(example=example, node=node, needs=needs, templates=templates_with(type))


def _needs_of(template: Template, settings: Settings) -> TemplateNeeds:
    graph = graph_from_plain(template.graph)
    workspace = settings.reading(settings.place)
    found = foretell(ready(graph, SPECS, workspace=workspace), workspace=workspace, machine=devices_now()).problems
    problem = next((each for each in found if each.kind != "unknown"), None)
    model = ""
    if problem is not None and problem.socket == "source":
        spec = SPECS.get(graph.nodes[problem.node].type)
        is_model = spec is not None and (socket := spec.input("source")) is not None and socket.widget == "model"
        source = graph.params.get("source")
        model = str(source.default) if is_model and source is not None else ""
    why, fit = problem.message if problem else "", _fit(model, machine_at(spot_of(now=devices_now()))) if model else ""
    return TemplateNeeds(id=template.id, runs=problem is None, model=model, why=why, fit=fit)


def _fit(model: str, machine: Machine) -> str:
    try:
        return in_brief(plan_model(model, machine, roots=()))
    except ValueError:  # nobody knows how large it is
        return ""
