"""Run Pipeline itself: how its sockets are chosen, which model it runs and where, whole, here or on all devices."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from ....parallel.progress import SILENT, Progress
from ....parallel.wording import worded
from ....pipelines.models.describe import add_lora, describe_whole, pick_device
from ....pipelines.models.folder import components_of, read_allowed_index
from ....pipelines.models.packed.experts import check_checkpoints
from ....pipelines.models.source import resolve_source
from ....pipelines.place import LEFT_OPEN, read_plan
from ....pipelines.signatures.table import SCALES, class_names, signature_of
from ....pipelines.values import Audio, Image, Model, Video
from ....pipelines.whole.guarded import why_no_guard
from ...files.workspace import HERE, Workspace
from ...graph.signature import read_spec
from ...graph.sketch import Denoising, Given, Refusal, Refused, Unknown
from ...graph.spec import ARGUMENTS, VALUE_TYPES, Chooser, InputSpec, NodeSpec, Socket
from ..arguments import checked
from ..models import (
    described,
    means_of_spread,
    named_plan,
    plan_refusals,
    remedies,
    sketch_of_spread,
    spread,
    with_lora,
)
from ..sockets import Seed
from .sockets import TYPES, arguments_of, input_of, inputs_of, outputs_of, tell_size, values_of, why_not

BOBBIN = "builtin:bobbin"
CHOSEN = ("source", "revision", "dtype")  # sockets that say which model
AUTO = "auto"  # the class that the model folder names
PROMPTS = ("prompt", "negative_prompt")
LORAS = ("loras", "lora_scales")  # sockets of the classes that take LoRAs


@checked
def run_pipeline(
    source: Annotated[
        str,
        Socket(widget="model"),
        "builtin:bobbin, a folder, FILE.safetensors@BASE (or .gguf), or a hub id by `latentloom models pull`",
    ] = BOBBIN,
    *,
    pipeline: Annotated[str, "The class, which decides the sockets; auto is the folder's own"] = AUTO,
    loras: Annotated[Sequence[str], Socket(advanced=True), "LoRAs, .safetensors files, in order"] = (),
    lora_scales: Annotated[
        Sequence[float], Socket(min=-10, max=10, advanced=True), "A number for each LoRA; empty is 1, as trained"
    ] = (),
    seed: Annotated[Seed, "Its noise is what diffusers draws: other noise in bf16 than in fp32"] = 0,
    revision: Annotated[str, Socket(advanced=True), "Branch, tag or commit of a hub id"] = "",
    dtype: Annotated[
        Literal["auto", "fp32", "bf16", "fp16"], Socket(advanced=True), "auto is bf16 on CUDA and fp32 on a CPU"
    ] = "auto",
    device: Annotated[str, Socket(advanced=True), "auto, cpu, cuda, cuda:1 or mps"] = "auto",
    devices: Annotated[str, Socket(advanced=True), "Several, such as all, cuda*4 or cpu*2; empty is one"] = "",
    plan: Annotated[str, Socket(advanced=True), "auto, or degrees such as cfg=2,ulysses=2"] = "auto",
    workspace: Workspace = HERE,
    progress: Progress = SILENT,
    **inputs: Any,
) -> tuple[Image, Video, Audio]:
    """Any pipeline of diffusers whose transformer can be split, run whole; the sockets are those of its class.

    With several devices, each is a rank; `latentloom run --devices` and `--plan` take precedence. From Python, what the
    class takes is given by name, and what it does not give is None.
    """
    found = find({"source": source, "revision": revision, "pipeline": pipeline}, workspace)
    signature = signature_of(str(found.get("pipeline", pipeline)))
    arguments = arguments_of(signature, inputs)
    if loras and not signature.takes_loras:
        raise ValueError(worded("{} takes no LoRAs; leave loras out", signature.name))
    if not (devices or workspace.place.devices) and (named := read_plan(plan)) not in LEFT_OPEN:
        raise ValueError(
            worded("plan is {}, but devices is empty; name devices for it, such as cpu*2, or take auto", named)
        )
    chosen = {"source": source, "revision": revision, "dtype": dtype}
    model = whole_model(chosen, device, workspace, is_here=not workspace.place.cluster)
    model = adapted(model, loras, lora_scales, workspace)
    if devices or workspace.place.devices:
        model = spread(model, devices, plan, workspace=workspace)
    from torch import Generator

    from ....pipelines import placement

    fixed = {"generator": Generator().manual_seed(seed), "output_type": "np"}
    made = placement.run_whole(model, signature, {**arguments, **fixed}, progress)
    values = values_of(signature, made, arguments)
    tell_size(signature.name, arguments, values[:2])
    return values


def find(values: Mapping[str, Any], workspace: Workspace) -> Mapping[str, Any]:
    """The class that the model's folder names, where it is asked for. Reads model_index.json."""
    if values.get("pipeline", AUTO) != AUTO:
        return {}
    try:
        with remedies(workspace):
            source, index = index_of(values, workspace)
            if index["_class_name"] not in class_names():
                raise ValueError(
                    f"{source[:300]} is a {index['_class_name'][:100]}, which is no class that is run whole"
                )
            if why := why_no_guard(signature_of(index["_class_name"])):
                raise ValueError(why)
            return {"pipeline": index["_class_name"]}
    except ValueError as error:
        words = "pipeline is auto, which is the class that the model's folder names, but"
        raise ValueError(f"{words} {error}; or write the class") from None


def why_no_fit(values: Mapping[str, Any], workspace: Workspace) -> str:
    """Why the model's folder makes no pipeline of the class that is written; "" where it may, or is not here."""
    name = str(values.get("pipeline", AUTO))
    if why := why_no_guard(signature_of(name)) if name in class_names() else "":
        return why
    try:
        source, index = index_of(values, workspace)
    except ValueError:
        return ""
    why = signature_of(name).why_not_of(index) if name in class_names() else ""
    return why and f"{source[:300]} makes no {name}: {why}"


def choose(values: Mapping[str, Any]) -> NodeSpec | None:
    """The node with the sockets of the class that is named."""
    name = values.get("pipeline", AUTO)
    return None if name == AUTO else _spec(signature_of(str(name)).name)


@functools.cache
def _spec(name: str) -> NodeSpec:
    signature, base = signature_of(name), base_spec()
    lora_sockets = [each for each in _own_spec().inputs if each.name in LORAS and signature.takes_loras]
    sockets = [*base.inputs, *lora_sockets, *inputs_of(signature)]
    outputs = tuple(outputs_of(signature).values())
    names = [output.name for output in outputs]

    def call(**given: Any) -> Any:
        made = dict(zip((output.name for output in base.outputs), run_pipeline(**given), strict=True))
        return tuple(made[name] for name in names) if len(names) > 1 else made[names[0]]

    return dataclasses.replace(
        base,
        help=f"{name} of diffusers, run whole.",
        inputs=tuple(sorted(sockets, key=lambda socket: socket.advanced)),
        outputs=outputs,
        call=call,
        chooser=None,
        chosen=name,
        left_out={each: f"it {why}" for each, why in signature.left_out.items()},
    )


@functools.cache
def base_spec() -> NodeSpec:
    """The node with the sockets that it has for every class."""
    spec = _own_spec()
    classes = tuple(name for name in class_names() if not why_not(signature_of(name)))
    inputs = tuple(
        dataclasses.replace(each, type="choice", choices=(AUTO, *classes)) if each.name == "pipeline" else each
        for each in spec.inputs
        if each.name not in LORAS
    )
    return dataclasses.replace(spec, inputs=inputs)


@functools.cache
def _own_spec() -> NodeSpec:
    """As its function says."""
    return read_spec(
        run_pipeline,
        title="Run Pipeline",
        category="model",
        uses_device=True,
        fingerprint=whole_fingerprint,
        denoises=whole_denoises,
        means=whole_means,
        takes_more=True,
        chooser=Chooser(
            by=("source", "revision", "pipeline"), choose=choose, find=find, fits=why_no_fit, fixed=tuple(_fixed())
        ),
        id="LoomRunPipeline",
    )


def _fixed() -> list[InputSpec]:
    """For ComfyUI: the prompts, what comes by a wire for any class, and JSON for the rest."""
    every = {each.name: each for name in class_names() for each in signature_of(name).parameters}
    wires = [input_of(each) for each in every.values() if TYPES.get(each.kind) in VALUE_TYPES]
    prompts = [input_of(every[name]._replace(is_required=False, default="")) for name in PROMPTS]
    rest = InputSpec(
        name=ARGUMENTS,
        type="string",
        required=False,
        default="",
        widget="json",
        help='What else the class takes, as JSON: {"height": 512, "num_inference_steps": 20}',
    )
    named = [dataclasses.replace(each, required=False, advanced=True) for each in wires]
    return [*prompts, *sorted(named, key=lambda socket: socket.name), rest]


# ---- Which model Run Pipeline runs and where: described with its LoRAs, named for the cache, and told before a run.


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
        raise Refused("source", Refusal(code="no_model", why=str(error))) from None
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


NODES = {"LoomRunPipeline": base_spec()}
