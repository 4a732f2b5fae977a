"""Load Model, Load LoRA and Parallel Plan: which weights are used, and on which devices. No weights are read."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from ...parallel.errors import BadInput
from ...pipelines import place as places
from ...pipelines.families import OUTSIDE
from ...pipelines.models.describe import (
    add_lora,
    check_engine,
    check_graphs,
    check_quantization,
    describe_model,
    find_lora,
    pick_device,
    pick_dtype,
)
from ...pipelines.models.loras.lora_file import check_lora, why_of_another
from ...pipelines.models.source import NotPulled, OutsideRoots
from ...pipelines.models.tensor_file import read_tensor_file
from ...pipelines.values import COMPILED, Lora, Model
from ..files.workspace import ALLOW, HERE, PULL, Workspace, content_hash
from ..graph.signature import read_spec
from ..graph.sketch import Given, Refusal, Unknown, if_known
from ..graph.spec import Socket
from .arguments import checked, refused_by


@checked
def load_model(
    source: Annotated[
        str,
        Socket(widget="model"),
        "builtin:bobbin, a folder, FILE.safetensors@BASE (or .gguf), or a hub id by `latentloom models pull`",
    ] = "builtin:bobbin",
    *,
    revision: Annotated[str, Socket(advanced=True), "Branch, tag or commit of a hub id"] = "",
    dtype: Annotated[Literal["auto", "fp32", "bf16", "fp16"], "auto is bf16 on CUDA and fp32 on a CPU"] = "auto",
    device: Annotated[str, Socket(advanced=True), "auto, cpu, cuda, cuda:1 or mps"] = "auto",
    quantization: Annotated[
        Literal["none", "int8", "int4", "fp8", "fp8_dynamic"],
        Socket(advanced=True),
        "Weights of transformer and text encoders, by latentloom[quant]; fp8_dynamic computes in fp8 too",
    ] = "none",
    engine: Annotated[
        Literal["eager", "inductor", "tensorrt"],
        Socket(advanced=True),
        "inductor: torch.compile the transformer; tensorrt: Torch-TensorRT (not run on a GPU yet). The first "
        "step is slow, and numbers round differently",
    ] = "eager",
    graphs: Annotated[
        Literal["auto", "on", "off"],
        Socket(advanced=True),
        "Replay each step as one CUDA graph, from the third on; takes memory, same results",
    ] = "auto",
    text_encoder: Annotated[
        Literal["device", "cpu"],
        Socket(advanced=True),
        "cpu: the prompt is read on the CPU, slower and in other rounding; all of the device is the transformer's",
    ] = "device",
    workspace: Workspace = HERE,
) -> Model:
    """A model by name, described: family, number format, device. Nothing is downloaded and no weights are read yet."""
    chosen = {"source": source, "revision": revision, "dtype": dtype, "quantization": quantization}
    chosen |= {"engine": engine, "graphs": graphs, "text_encoder": text_encoder}
    return _model(chosen, device, workspace, is_here=not workspace.place.cluster)


def _model(chosen: Mapping[str, Any], device: str, workspace: Workspace, *, is_here: bool) -> Model:
    """The model by the node's inputs, where the run says that it works, else on this device."""
    place = workspace.place
    device = place.devices[0] if place.devices else device
    with remedies(workspace):
        where: dict[str, Any] = {"device": device, "roots": workspace.roots, "outlines": workspace.outlines}
        return places.placed(describe_model(**chosen, **where, is_here=is_here), place)


@contextlib.contextmanager
def remedies(workspace: Workspace) -> Iterator[None]:
    """A model that may not be read, or is not here, is refused with what this host has for that."""
    try:
        yield
    except OutsideRoots as error:
        raise ValueError(f"{error.what}; {ALLOW[workspace.host]}") from None
    except NotPulled as error:
        if workspace.host not in PULL:
            raise
        raise BadInput(f"{error.what}; {PULL[workspace.host]}", code=error.code) from None


@checked
def load_lora(
    model: Model,
    path: Annotated[str, Socket(widget="lora"), "A .safetensors file"],
    *,
    scale: Annotated[float, Socket(widget="strength", min=-10, max=10, step=0.05), "1 is the LoRA as trained"] = 1.0,
    workspace: Workspace = HERE,
) -> Model:
    """The model with a LoRA on top. Several in a row add up, in order."""
    return add_lora(model, str(workspace.input_path(path, socket="path")), scale, roots=workspace.roots)


def model_fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
    """What the files of the model say now, where they are, and which device it would get.

    The folder belongs to it, and the kind of device, but not how many of them: the result is the same. `KeyError`
    where a value is not known yet.
    """
    chosen = {name: inputs[name] for name in ("source", "revision", "dtype", "device", "quantization")}
    model = load_model(**chosen, workspace=workspace)
    plan = named_plan(workspace)
    kind = model.device.partition(":")[0] if workspace.place.devices else model.device
    _, origin = OUTSIDE.get(model.family, (None, ""))  # the code of a family from outside may have changed
    named = " ".join(each for each in (plan, origin) if each)
    return f"{model.fingerprint} {kind} {model.dtype} {model.folder} {model.source}{named and ' '}{named}"


def model_recipe(values: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Version 1, whose results are still good; `graphs` changes no bit of them, and texts were read on the device."""
    left_out = ("engine", "graphs", *["text_encoder"] * (values["text_encoder"] == "device"))
    kept = {name: value for name, value in values.items() if name not in left_out}
    return 1, {**kept, "compiled": COMPILED.get(values["engine"], values["engine"]), "cuda_graph": False}


def model_migration(version: int, inputs: dict[str, Any]) -> dict[str, Any]:
    """From version 1, which had `compiled` and `cuda_graph`. Files of ComfyUI's editor have their values in this order
    and without names, so that they come at those that are there now.
    """
    inputs = dict(inputs)
    for new, old, words in (("engine", "compiled", ("eager", "inductor")), ("graphs", "cuda_graph", ("auto", "on"))):
        former = inputs.pop(old, None)
        value = inputs.get(new, former)  # what a run was given for the new socket of an old node comes first
        if isinstance(value, dict | list) and new not in inputs:
            raise BadInput("{} came by a wire, and {} cannot; write {} or {}", old, new, words[0], words[1])
        if value is not None:
            inputs[new] = words[value] if type(value) is bool else value
    return inputs


def lora_fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
    """The content and the place of the file that Load LoRA reads."""
    path = workspace.input_path(inputs["path"], socket="path")
    read_tensor_file(path)  # whose header says how long it is: what is no LoRA is not read to its end
    return f"{content_hash(path, socket='path')} {path}"


def model_sketch(given: Given) -> Model:
    """The model as Load Model would give it, of which nothing is compiled, quantized or hashed."""
    names = ("source", "revision", "dtype", "quantization", "engine", "graphs", "text_encoder")
    chosen, device = {name: given.value(name) for name in names}, str(given.value("device"))
    if not given.workspace.place.devices:
        device = pick_device(device, accelerators=given.accelerators)
    return _model(chosen, device, given.workspace, is_here=False)


def model_means(given: Given) -> dict[str, Any]:
    """Where the run names devices, these come before the one that is written."""
    if not given.is_machine_known:
        raise Unknown("nobody has looked for this machine's devices")
    return described(model_sketch(given))


def described(model: Model) -> dict[str, Any]:
    """What is settled of a model where it is loaded."""
    return {"device": model.device, "dtype": model.dtype, "revision": model.revision}


def model_refusals(given: Given) -> dict[str, str | Refusal]:
    """A device that is none, a model that is not here, may not be read or is damaged, and what this machine lacks to
    quantize or compile it.
    """
    asked, here, is_placed = str(given.value("device")), given.accelerators, bool(given.workspace.place.devices)
    looks_here = given.is_machine_known and not is_placed
    if looks_here and (why := refused_by("no_device", lambda: pick_device(asked, accelerators=here))):
        return {"device": why}
    source, revision = str(given.value("source")), str(given.value("revision"))

    def describe() -> None:
        with remedies(given.workspace):
            describe_model(source, revision=revision, device="cpu", roots=given.workspace.roots, is_here=False)

    if why := refused_by("no_model", describe):
        return {"source": why}
    if not given.is_machine_known or given.workspace.place.cluster:
        return {}
    return _lacking(given, given.workspace.place.devices[0] if is_placed else pick_device(asked, accelerators=here))


def _lacking(given: Given, device: str) -> dict[str, str | Refusal]:
    """What this machine has not for the model, and the values that do without."""
    quantization, dtype = given.value("quantization"), pick_dtype(given.value("dtype"), device=device)
    checks: dict[str, tuple[Any, Callable[[], None]]] = {
        "quantization": ("none", lambda: check_quantization(quantization, device=device, dtype=dtype)),
        "engine": ("eager", lambda: check_engine(given.value("engine"), device=device, quantization=quantization)),
        "graphs": ("auto", lambda: check_graphs(given.value("graphs"), device=device)),
    }
    refusals: dict[str, str | Refusal] = {}
    for socket, (without, check) in checks.items():
        if given.value(socket) != without and isinstance(why := refused_by("not_here", check), Refusal):
            refusals[socket] = dataclasses.replace(why, mends=({socket: without},))
    return refusals


def lora_refusals(given: Given) -> dict[str, str | Refusal]:
    """A file that is not there or no LoRA, or one of another model that is not switched off (by a scale of 0)."""
    path, workspace = given.value("path"), given.workspace
    if why := refused_by("no_lora", lambda: check_lora(read_tensor_file(workspace.input_path(path, socket="path")))):
        return {"path": why}
    lora = read_tensor_file(workspace.input_path(path, socket="path"))
    why = why_of_another(lora, given.value("model")) if given.value("scale") else ""
    return {"path": Refusal(code="other_lora", why=why) if why else ""}


def with_lora(model: Model, path: str, workspace: Workspace) -> Model:
    """The model with a LoRA, whose content does not matter for a plan and is not read."""
    file = find_lora(path, workspace.roots)
    check_lora(read_tensor_file(file))
    return dataclasses.replace(model, loras=(*model.loras, Lora(path=str(file), sha256="", adapter="")))


# ---- Parallel Plan: on which devices a model works, and how a denoise uses them together.


@checked
def parallel_plan(
    model: Model,
    *,
    devices: Annotated[str, "all, or a list such as cuda:0,cuda:1, cuda*4 or cpu*2"] = "all",
    plan: Annotated[
        str,
        "auto, auto,compiled (which rounds differently), or degrees such as cfg=2,ulysses=2,allgather=2,weights=8; "
        "their product, without weights, is the number of devices",
    ] = "auto",
    workspace: Workspace = HERE,
) -> Model:
    """The model spread over devices: one rank on each, started when it is first needed, and kept warm.

    The picture is that of one device. `latentloom run --devices` and `--plan` take precedence, so that a workflow runs
    on another machine too.
    """
    return spread(model, devices, plan, workspace=workspace)


def spread(model: Model, devices: str, plan: str, *, workspace: Workspace, here: Sequence[str] | None = None) -> Model:
    """What the node does; `here` names this machine's accelerators, and without it torch is asked."""
    if (run := workspace.place).devices:
        return places.placed(model, places.checked(dataclasses.replace(run, plan=run.plan or places.read_plan(plan))))
    place = places.read_place(devices, plan, here=here)
    is_typed = workspace.host == "command line"
    places.check_cores(place, more=f"run it with --devices cpu*{len(place.devices)}" if is_typed else "")
    return places.placed(model, place)


def plan_refusals(given: Given) -> dict[str, str]:
    """A plan that is none on any machine."""
    try:
        places.read_plan("" if given.workspace.place.plan else str(given.value("plan")))
    except ValueError as error:
        return {"plan": str(error)}
    return {}


def named_plan(workspace: Workspace) -> str:
    """A plan that the command line names; one that is chosen changes no result."""
    return workspace.place.plan if places.names_plan(workspace.place) else ""


def plan_means(given: Given) -> dict[str, str]:
    """The devices one by one, and a plan that the command line names."""
    if not given.is_machine_known:
        raise Unknown("nobody has looked for this machine's devices")
    return means_of_spread(sketch_of_spread(given.value("model"), given), given)


def means_of_spread(model: Model, given: Given) -> dict[str, str]:
    place, asked = model.place, given.workspace.place.plan
    plan = {"plan": asked} if asked and places.names_plan(place) else {}
    return {**({"devices": listed(place.devices)} if place.devices else {}), **plan}


def listed(devices: Sequence[str]) -> str:
    """Devices as one writes them."""
    return f"cpu*{len(devices)}" if set(devices) == {"cpu"} and len(devices) > 1 else ",".join(devices)


def sketch_of_spread(model: Model, given: Given) -> Model:
    """The model spread as the inputs `devices` and `plan` say; by the plan `auto`, or on its own device, where that is
    all that can be."""
    devices = given.value("devices")
    try:
        return spread(model, devices, given.value("plan"), workspace=given.workspace, here=given.accelerators)
    except ValueError as error:
        given.tell(str(error))
    return if_known(lambda: spread(model, devices, "auto", workspace=given.workspace, here=given.accelerators), model)


NODES = {
    "LoomLoadModel": read_spec(
        load_model,
        title="Load Model",
        category="model",
        version=2,
        is_kept=False,
        fingerprint=model_fingerprint,
        migrate=model_migration,
        recipe=model_recipe,
        sketch=model_sketch,
        refuses=model_refusals,
        means=model_means,
    ),
    "LoomLoadLora": read_spec(
        load_lora,
        title="Load LoRA",
        category="model",
        is_kept=False,
        fingerprint=lora_fingerprint,
        sketch=lambda given: with_lora(given.value("model"), given.value("path"), given.workspace),
        refuses=lora_refusals,
    ),
    "LoomParallelPlan": read_spec(
        parallel_plan,
        title="Parallel Plan",
        category="model",
        is_kept=False,
        fingerprint=lambda inputs, workspace: workspace.place.plan,
        sketch=lambda given: sketch_of_spread(given.value("model"), given),
        refuses=plan_refusals,
        means=plan_means,
    ),
}
