"""Which model Run Pipeline runs and where: described with its LoRAs, named for the cache, and told before a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from ....parallel.wording import worded
from ....pipelines.models.describe import add_lora, describe_whole, pick_device
from ....pipelines.models.folder import components_of, read_allowed_index
from ....pipelines.models.packing import check_checkpoints
from ....pipelines.models.source import resolve_source
from ....pipelines.signatures.table import SCALES, signature_of
from ....pipelines.values import Model
from ...files.workspace import Workspace
from ...graph.sketch import Denoising, Given, Refused, Unknown
from ..arguments import refusal
from ..models import described, means_of_spread, named_plan, plan_refusals, remedies, sketch_of_spread, with_lora

BOBBIN = "builtin:bobbin"
CHOSEN = ("source", "revision", "dtype")


def whole_model(chosen: Mapping[str, Any], device: str, workspace: Workspace, *, is_here: bool) -> Model:
    """The model of any class by its `CHOSEN` inputs, where the run says that it works, else on this device. Nothing is
    loaded."""
    place = workspace.place
    device = place.devices[0] if place.devices else device
    with remedies(workspace):
        return describe_whole(**chosen, device=device, roots=workspace.roots, is_here=is_here)


def index_of(values: Mapping[str, Any], workspace: Workspace) -> tuple[str, Mapping[str, Any]]:
    """The source among these inputs, and what its model_index.json says. Raises `ValueError`."""
    source, revision = str(values.get("source", BOBBIN)), str(values.get("revision", ""))
    found = resolve_source(source, revision=revision, roots=workspace.roots)
    allowed = workspace.roots if found.is_local else None
    index = read_allowed_index(found.folder, roots=allowed)
    if found.file is not None:
        check_checkpoints(found.file, components_of(index), roots=allowed)
    return source, index


def adapted(model: Model, loras: Sequence[str], scales: Sequence[float], workspace: Workspace) -> Model:
    """The model with LoRAs on top, whose files are read for their hashes."""
    if why := why_not_paired(loras, scales):
        raise ValueError(why)
    for path, scale in zip(loras, scales or [1.0] * len(loras), strict=True):
        model = add_lora(model, str(workspace.input_path(path, socket="loras")), scale, roots=workspace.roots)
    return model


def why_not_paired(loras: Sequence[str], scales: Sequence[float]) -> str:
    if not scales or len(scales) == len(loras):
        return ""
    return worded("loras are {} and lora_scales {}; give one for each, or none", len(loras), len(scales))


def whole_fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
    """What the files of the model and its LoRAs say now, and on which kind of device it would run; not on how many."""
    chosen = {name: inputs[name] for name in CHOSEN}
    model = whole_model(chosen, inputs["device"], workspace, is_here=not workspace.place.cluster)
    model = adapted(model, inputs.get("loras") or (), (), workspace)
    kind = model.device.partition(":")[0]
    loras = "".join(f" {lora.path} {lora.sha256}" for lora in model.loras)
    return f"{model.fingerprint} {kind} {model.dtype} {model.folder} {model.source} {named_plan(workspace)}{loras}"


def whole_denoises(given: Given) -> Denoising:
    """The denoise that the pipeline would do; what its steps take besides its weights is known when it runs."""
    place, device = given.workspace.place, str(given.value("device"))
    if not place.devices:
        device = pick_device(device, accelerators=given.accelerators)
    chosen = {name: given.value(name) for name in CHOSEN}
    try:
        model = whole_model(chosen, device, given.workspace, is_here=False)
    except ValueError as error:
        raise Refused("source", refusal("no_model", error)) from None
    signature = signature_of(str(given.value("pipeline")))
    if place.devices or given.value("devices"):
        model = sketch_of_spread(model, given)
    loras, scales = ([*given.value(name)] if signature.takes_loras else [] for name in ("loras", "lora_scales"))
    for path in loras:
        model = with_lora(model, path, given.workspace)
    asked: dict[str, Any] = {name: given.number(name) for name in SCALES if given.has(name)}
    told = {"negative_prompt": ""} if given.has("negative_prompt") else {}
    return Denoising(
        model=model,
        pipeline=signature.name,
        latents=None,
        guidance=signature.guidance(asked | told),
        refusals={"lora_scales": why_not_paired(loras, scales), **plan_refusals(given)},
    )


def whole_means(given: Given) -> dict[str, Any]:
    """The class, which the folder names, and what is settled of the model and its devices."""
    if not given.is_machine_known:
        raise Unknown("nobody has looked for this machine's devices")
    found = whole_denoises(given)
    return {"pipeline": found.pipeline, **described(found.model), **means_of_spread(found.model, given)}
