"""From what the user chose to a `Model`: which files, which device, which number format; and what it cannot be here.

Where this machine's packages or the model's files forbid it, it cannot be quantized, compiled or read in shares, which
is asked long before it is loaded. No weights are read.
"""

import dataclasses
import hashlib
import importlib.util
import logging
import math
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ...parallel.errors import BadInput
from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ..families import FAMILIES
from ..families.family import Card
from ..values import Dtype, Engine, Graphs, Lora, Model, Quantization, TextEncoder
from .component_files import fingerprint_of_parts, inspect_components, inspect_model
from .facts import read_card
from .folder import read_allowed_index
from .loras.lora_file import check_lora
from .outlines import Outlines
from .packing import check_checkpoints, read_checkpoint
from .regular_file import sha256_of
from .source import PICKLES, ResolvedSource, exists, is_allowed, resolve_source, split_source
from .tensor_file import content_mark, read_tensor_file

logger = logging.getLogger("latentloom")

DtypeChoice = Literal["auto", "fp32", "bf16", "fp16"]
DEVICE = re.compile(r"cpu|mps|cuda(:\d{1,3})?")
# bf16 on MPS too (macOS 14): T5 and FLUX overflow in fp16.
DEFAULT_DTYPES: dict[str, Dtype] = {"cpu": "fp32", "cuda": "bf16", "mps": "bf16"}
MAX_SCALE = 100.0
# Quantizations whose kernels are for NVIDIA's GPUs, in bf16; fp8's for those from Ada and Hopper on.
ON_CUDA = ("int4", "fp8_dynamic")
# Of a denoise that is captured in CUDA graphs where nobody asked for it, and nobody knows whether its like comes
# again.
LEAST_STEPS = 6
KEEPS_KEYS = ("qwen_image_21",)  # families whose transformers are given a cache of keys in each step


def describe_model(
    source: str,
    *,
    revision: str = "",
    dtype: DtypeChoice = "auto",
    device: str = "auto",
    quantization: Quantization = "none",
    engine: Engine = "eager",
    graphs: Graphs = "auto",
    text_encoder: TextEncoder = "device",
    loras: Sequence[Lora] = (),
    roots: Sequence[Path] | None = None,
    is_here: bool = True,
    outlines: Outlines | None = None,
) -> Model:
    """Find and check a model's files and settle its device and dtype. Raises `ValueError`; reads headers only.

    A single-file checkpoint is `FILE.safetensors@BASE` or `FILE.gguf@BASE`; the model's `folder` is then that of BASE.
    Of a device that is another machine's (`is_here` False) nothing is looked at. With `outlines` a model of the hub
    that is not here is one that can be planned, and not run.
    """
    found = resolve_source(source, revision=revision, roots=roots, outlines=outlines)
    allowed = roots if found.is_local else None  # of the hub's cache everybody may read
    files = inspect_model(found.folder, roots=allowed)
    single = {} if found.file is None else check_checkpoints(found.file, files.components, roots=allowed)
    read_card(found.folder, files.family)
    chosen = pick_device(device) if is_here else device
    number = pick_dtype(dtype, device=chosen)
    asked = {"quantization": (quantization, Quantization), "engine": (engine, Engine), "graphs": (graphs, Graphs)}
    asked |= {"text_encoder": (text_encoder, TextEncoder)}
    for name, (value, choices) in asked.items():
        if value not in get_args(choices):
            raise BadInput("{} is {!r}; choose one of {}", name, value, ", ".join(get_args(choices)))
    if is_here:
        check_engine(engine, device=chosen, quantization=quantization)
    check_graphs(graphs, device=chosen)
    if quantization != "none" and is_here:
        check_quantization(quantization, device=chosen, dtype=number)
    if text_encoder == "cpu" and quantization in ON_CUDA:
        told = "text_encoder is cpu, and quantization {} needs CUDA; choose text_encoder device, or quantization int8"
        raise BadInput(told, quantization)
    model = _described(found, files.family.name, fingerprint_of(files.fingerprint, single), chosen, number)
    model = dataclasses.replace(model, quantization=quantization, engine=engine, graphs=graphs, loras=tuple(loras))
    return model if chosen == "cpu" else dataclasses.replace(model, text_encoder=text_encoder)  # where it is anyway


def describe_whole(
    source: str,
    *,
    revision: str = "",
    dtype: DtypeChoice = "auto",
    device: str = "auto",
    roots: Sequence[Path] | None = None,
    is_here: bool = True,
) -> Model:
    """A model of any pipeline of diffusers, to be run as a whole: it has no family. As `describe_model` otherwise."""
    found = resolve_source(source, revision=revision, roots=roots)
    allowed = roots if found.is_local else None
    parts = inspect_components(found.folder, read_allowed_index(found.folder, roots=allowed), roots=allowed)
    single = {} if found.file is None else check_checkpoints(found.file, parts, roots=allowed)
    mark = fingerprint_of(fingerprint_of_parts(found.folder, parts), single)
    chosen = pick_device(device) if is_here else device
    return _described(found, "", mark, chosen, pick_dtype(dtype, device=chosen))


def _described(found: ResolvedSource, family: str, fingerprint: str, device: str, dtype: Dtype) -> Model:
    source = {"source": found.id, "folder": str(found.folder), "revision": found.revision}
    return Model(**source, family=family, fingerprint=fingerprint, device=device, dtype=dtype)


def card_of(model: Model) -> Card:
    """The model's defaults: its family's, overridden by `latentloom.json` in its folder."""
    return read_card(Path(model.folder), FAMILIES[model.family])


def filled(model: Model, **asked: Any) -> dict[str, Any]:
    """What is asked for, by the names of a card's fields, and the model's own where that is 0 or "".

    The stages ask here for what they use, and so does whoever tells of a run before it.
    """
    card = card_of(model)
    return {name: value or getattr(card, name) for name, value in asked.items()}


def add_lora(model: Model, path: str, scale: float = 1.0, *, roots: Sequence[Path] | None = None) -> Model:
    """The model with one more LoRA, after those it has. Reads the whole file once, for its hash."""
    if not (isinstance(scale, int | float) and math.isfinite(scale) and abs(scale) <= MAX_SCALE):
        raise BadInput("LoRA scale is {}; give a number from -{:g} to {:g}, such as 1.0", scale, MAX_SCALE, MAX_SCALE)
    file = find_lora(path, roots)
    check_lora(read_tensor_file(file))
    try:
        mark = sha256_of(file)
    except OSError as error:
        raise BadInput("LoRA {} cannot be read ({}); copy it again", file, error.strerror) from None
    stem = re.sub(r"\W+", "_", file.stem)[:64].strip("_") or "lora"
    taken = {lora.adapter for lora in model.loras}
    names = (stem, *(f"{stem}_{number}" for number in range(2, len(taken) + 3)))
    adapter = next(name for name in names if name not in taken)
    lora = Lora(path=str(file), sha256=mark, adapter=adapter, scale=float(scale))
    return dataclasses.replace(model, loras=(*model.loras, lora))


def pick_device(device: str, *, accelerators: Sequence[str] | None = None) -> str:
    """The device to use; "auto" takes CUDA, else MPS, else the CPU. Raises `ValueError` for one that is not here.

    `accelerators` names what this machine has; without it torch is asked, for any but the CPU.
    """
    if device == "cpu":
        return device
    here = torch_accelerators() if accelerators is None else accelerators
    num_cuda, has_mps = sum(name.startswith("cuda") for name in here), "mps" in here
    if device == "auto":
        return "cuda" if num_cuda else "mps" if has_mps else "cpu"
    if not DEVICE.fullmatch(device):
        raise BadInput("device is {!r}; choose auto, cpu, cuda, cuda:1 (and so on) or mps", device[:50])
    kind, _, index = device.partition(":")
    if not {"mps": has_mps, "cuda": num_cuda > int(index or 0)}[kind]:
        found = ["cpu", *(["mps"] if has_mps else []), *(f"cuda:{i}" for i in range(num_cuda))]
        raise BadInput("device {} is not on this machine; it has {}: choose one, or auto", device, ", ".join(found))
    return device


def torch_accelerators() -> tuple[str, ...]:
    """Accelerators that torch can work on.

    `machine.accelerators` also counts GPUs whose driver is too old for this torch, for it only asks the driver's list
    and starts nothing; whoever asked for no device must not get one of them.
    """
    import torch

    num_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return *(f"cuda:{index}" for index in range(num_cuda)), *(("mps",) if torch.backends.mps.is_available() else ())


def pick_dtype(dtype: str, *, device: str) -> Dtype:
    """The number format to compute in; "auto" is fp32 on a CPU and bf16 elsewhere."""
    kind = device.partition(":")[0]
    if dtype == "auto":
        return DEFAULT_DTYPES[kind]
    chosen = next((known for known in get_args(Dtype) if known == dtype), None)
    if chosen is None:
        raise BadInput("dtype is {!r}; choose one of auto, {}", dtype, ", ".join(get_args(Dtype)))
    if chosen == "fp16" and kind == "cpu":
        logger.warning("dtype fp16 on a CPU is about 8 times slower than fp32; bf16 is the fast small format there")
    return chosen


def fingerprint_of(folder: str, checkpoints: Mapping[str, Path]) -> str:
    """The folder's fingerprint, joined with those of the single files where there are some, by their components."""
    for name, path in sorted(checkpoints.items()):
        folder = hashlib.sha256(f"{folder}:{name}:{content_mark(read_checkpoint(path))}".encode()).hexdigest()
    return folder


def find_lora(path: str, roots: Sequence[Path] | None) -> Path:
    if "\0" in path or not path.strip():
        raise BadInput("LoRA path is {!r}; give a .safetensors file", path[:100])
    if path.lower().endswith(PICKLES):
        raise BadInput("LoRA {!r} is a pickle, which can run code when opened; get the safetensors file", path[:300])
    given = Path(path)
    places = [given] if given.is_absolute() or roots is None else [root / given for root in roots]
    found = next((place for place in places if exists(place)), None)
    if not is_allowed(found or places[0] if places else given, roots):
        allowed = ", ".join(map(str, roots or ()))
        raise BadInput("LoRA {!r} lies outside the allowed folders ({}); move it there", path[:300], allowed)
    if found is None:
        raise BadInput("LoRA {!r} does not exist; check the path", path[:300])
    return found.absolute()


# ---- What a model cannot be here: quantized, compiled, or read in shares.


def check_quantization(quantization: Quantization, *, device: str, dtype: Dtype) -> None:
    """Raises `ValueError` naming the extra to install when torchao is missing, or what the device lacks."""
    if quantization in ON_CUDA and (not device.startswith("cuda") or dtype != "bf16"):
        found = f"not {device} and {dtype}"
        raise BadInput("quantization {} needs CUDA and bf16, {}; choose int8 or none", quantization, found)
    if importlib.util.find_spec("torchao") is None:
        raise BadInput(
            "quantization {} needs torchao, which is not installed; run `pip install "
            "'latentloom[quant]'`, or choose quantization none",
            quantization,
        )


def check_engine(engine: Engine, *, device: str, quantization: Quantization = "none") -> None:
    """Raises `ValueError` when the engine cannot work on `device` here, or not with such weights."""
    kind, is_tensorrt = device.partition(":")[0], engine == "tensorrt"
    if is_tensorrt and kind not in ("cuda", "auto"):
        raise BadInput("engine tensorrt needs a GPU of CUDA, and the device is {}; choose engine inductor", device)
    if is_tensorrt and quantization != "none":
        raise BadInput(
            "engine tensorrt takes no weights of quantization {}; choose quantization none, or engine inductor",
            quantization,
        )
    if is_tensorrt and importlib.util.find_spec("torch_tensorrt") is None:
        raise ValueError(
            "engine tensorrt needs Torch-TensorRT and it was not found; run `pip install torch-tensorrt`, or "
            "choose engine inductor"
        )
    if engine != "inductor":
        return
    if kind == "cpu" and sys.platform != "win32" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        raise ValueError(
            "engine inductor needs a C++ compiler on a CPU and none was found; install g++, or choose engine eager"
        )
    if kind == "cuda" and importlib.util.find_spec("triton") is None:
        raise ValueError(
            "engine inductor needs Triton on CUDA and it was not found; install triton, or choose engine eager"
        )


def why_not_compiled(model: Model, *, has_step_cache: bool) -> str:
    """Why a plan cannot have the transformer compiled, which the model's own engine need not have; "" if it can."""
    if model.is_compiled:
        return worded("Load Model says engine {}", model.engine)
    if has_step_cache:
        return "a step cache runs blocks that a graph would hold"
    if not model.family:
        return "a pipeline that is run whole is left as it is"
    if model.place.cluster:  # where nobody has looked yet
        return ""
    try:
        check_engine("inductor", device=model.device, quantization=model.quantization)
    except ValueError as error:
        return str(error)
    return ""


def compiles(model: Model, *, has_step_cache: bool) -> bool:
    """Whether the plan of its place has the transformer compiled, beside the model's own engine."""
    return model.place.compiles and not why_not_compiled(model, has_step_cache=has_step_cache)


def check_graphs(graphs: Graphs, *, device: str) -> None:
    """Raises `ValueError` where steps are to be replayed as CUDA graphs and cannot be; "auto" may be any device."""
    if graphs == "on" and not device.startswith(("cuda", "auto")):
        raise BadInput(
            "graphs is on, which needs a GPU of CUDA or ROCm, and the device is {}; choose graphs auto", device
        )


def why_no_graphs(model: Model, plan: ParallelPlan, *, has_step_cache: bool) -> str:
    """Why no step is replayed as a CUDA graph; "" where steps can be. Only graphs `on` refuse such a denoise."""
    if model.engine == "tensorrt" and model.graphs == "auto":
        return "nobody has seen engines of TensorRT captured"
    if has_step_cache:
        return "a step cache leaves out blocks that a graph would run"
    if plan.layers > 1:
        return "ranks that hold some of the blocks wait for those of others in every step"
    return "ranks that share weights gather those of each block anew in every step" if plan.weights > 1 else ""


def check_shareable(model: Model, plan: ParallelPlan) -> None:
    """Refuse by name what cannot be read in shares."""
    axis = "layers" if plan.layers > 1 else "weights"
    if plan.layers > 1 and model.family in KEEPS_KEYS:
        told = (
            "plan {}: {} keeps keys from step to step, which some of its ranks would lack; use another plan than layers"
        )
        raise BadInput(told, plan, model.source)
    if model.graphs == "on":
        reason = why_no_graphs(model, plan, has_step_cache=False)
        told = "plan {}: {}, which no CUDA graph can hold; use {}=1, or choose graphs auto of Load Model"
        raise BadInput(told, plan, reason, axis)
    if plan.weights == 1:
        return
    changes = (
        (f"quantization {model.quantization}", model.quantization != "none"),
        ("LoRAs", bool(model.loras)),
        ("a single-file checkpoint", bool(split_source(model.source)[0])),
    )
    if found := [what for what, is_there in changes if is_there]:
        raise BadInput(
            "plan {}: its ranks read shares of the files of a model folder as they are, and this model has {}; use "
            "{}=1, or load the model without",
            plan,
            " and ".join(found),
            axis,
        )
