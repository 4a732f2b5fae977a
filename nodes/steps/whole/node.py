"""Run Pipeline itself, and how its sockets are chosen: run whole, in this process or on all devices."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from ....parallel.errors import BadInput
from ....parallel.progress import SILENT, Progress
from ....pipelines.guarded import why_no_guard
from ....pipelines.place import LEFT_OPEN, read_plan
from ....pipelines.signatures.table import class_names, signature_of
from ....pipelines.values import Audio, Image, Video
from ...files.workspace import HERE, Workspace
from ...graph.signature import read_spec
from ...graph.spec import ARGUMENTS, VALUE_TYPES, Chooser, InputSpec, NodeSpec, Socket
from ..arguments import checked
from ..models import remedies, spread
from ..sockets import Seed
from .model import BOBBIN, adapted, index_of, whole_denoises, whole_fingerprint, whole_means, whole_model
from .sockets import TYPES, arguments_of, input_of, inputs_of, outputs_of, tell_size, values_of, why_not

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
        raise BadInput("{} takes no LoRAs; leave loras out", signature.name)
    if not (devices or workspace.place.devices) and (named := read_plan(plan)) not in LEFT_OPEN:
        raise BadInput("plan is {}, but devices is empty; name devices for it, such as cpu*2, or take auto", named)
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
            name = index["_class_name"]
            if name not in class_names():
                raise ValueError(f"{source[:300]} is a {name[:100]}, which is no class that is run whole")
            if why := why_no_guard(signature_of(name)):
                raise ValueError(why)
            return {"pipeline": name}
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


NODES = {"LoomRunPipeline": base_spec()}
