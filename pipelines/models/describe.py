"""From what the user chose to a `Model`: which files, which device, which number format. No weights are read."""

import dataclasses
import hashlib
import logging
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from ...parallel.wording import worded
from ..families.card import Card
from ..values import Dtype, Engine, Graphs, Lora, Model, Quantization
from .checks import check_engine, check_graphs, check_quantization
from .component_files import fingerprint_of_parts, inspect_components, inspect_model
from .facts import read_card
from .folder import families, read_allowed_index
from .loras.lora_file import check_lora
from .packed.experts import check_checkpoints
from .packed.packing import read_checkpoint
from .regular_file import sha256_of
from .source import PICKLES, ResolvedSource, exists, is_allowed, resolve_source
from .tensor_file import content_mark, read_tensor_file

logger = logging.getLogger("latentloom")

DtypeChoice = Literal["auto", "fp32", "bf16", "fp16"]
DEVICE = re.compile(r"cpu|mps|cuda(:\d{1,3})?")
# bf16 on MPS too (macOS 14): T5 and FLUX overflow in fp16.
DEFAULT_DTYPES: dict[str, Dtype] = {"cpu": "fp32", "cuda": "bf16", "mps": "bf16"}
MAX_SCALE = 100.0


def describe_model(
    source: str,
    *,
    revision: str = "",
    dtype: DtypeChoice = "auto",
    device: str = "auto",
    quantization: Quantization = "none",
    engine: Engine = "eager",
    graphs: Graphs = "auto",
    loras: Sequence[Lora] = (),
    roots: Sequence[Path] | None = None,
    is_here: bool = True,
) -> Model:
    """Find and check a model's files and settle its device and dtype. Raises `ValueError`; reads headers only.

    A single-file checkpoint is `FILE.safetensors@BASE` or `FILE.gguf@BASE`; the model's `folder` is then that of BASE.
    Of a device that is another machine's (`is_here` False) nothing is looked at.
    """
    found = resolve_source(source, revision=revision, roots=roots)
    allowed = roots if found.is_local else None  # of the hub's cache everybody may read
    files = inspect_model(found.folder, roots=allowed)
    single = {} if found.file is None else check_checkpoints(found.file, files.components, roots=allowed)
    read_card(found.folder, files.family)
    chosen = pick_device(device) if is_here else device
    number = pick_dtype(dtype, device=chosen)
    asked = {"quantization": (quantization, Quantization), "engine": (engine, Engine), "graphs": (graphs, Graphs)}
    for name, (value, choices) in asked.items():
        if value not in get_args(choices):
            raise ValueError(worded("{} is {!r}; choose one of {}", name, value, ", ".join(get_args(choices))))
    if is_here:
        check_engine(engine, device=chosen, quantization=quantization)
    check_graphs(graphs, device=chosen)
    if quantization != "none" and is_here:
        check_quantization(quantization, device=chosen, dtype=number)
    model = _described(found, files.family.name, fingerprint_of(files.fingerprint, single), chosen, number)
    return dataclasses.replace(model, quantization=quantization, engine=engine, graphs=graphs, loras=tuple(loras))


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
    return read_card(Path(model.folder), families()[model.family])


def add_lora(model: Model, path: str, scale: float = 1.0, *, roots: Sequence[Path] | None = None) -> Model:
    """The model with one more LoRA, after those it has. Reads the whole file once, for its hash."""
    if not (isinstance(scale, int | float) and math.isfinite(scale) and abs(scale) <= MAX_SCALE):
        raise ValueError(
            worded("LoRA scale is {}; give a number from -{:g} to {:g}, such as 1.0", scale, MAX_SCALE, MAX_SCALE)
        )
    file = find_lora(path, roots)
    check_lora(read_tensor_file(file))
    try:
        mark = sha256_of(file)
    except OSError as error:
        raise ValueError(worded("LoRA {} cannot be read ({}); copy it again", file, error.strerror)) from None
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
        raise ValueError(worded("device is {!r}; choose auto, cpu, cuda, cuda:1 (and so on) or mps", device[:50]))
    kind, _, index = device.partition(":")
    if not {"mps": has_mps, "cuda": num_cuda > int(index or 0)}[kind]:
        found = ["cpu", *(["mps"] if has_mps else []), *(f"cuda:{i}" for i in range(num_cuda))]
        raise ValueError(
            worded("device {} is not on this machine; it has {}: choose one, or auto", device, ", ".join(found))
        )
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
        raise ValueError(worded("dtype is {!r}; choose one of auto, {}", dtype, ", ".join(get_args(Dtype))))
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
        raise ValueError(worded("LoRA path is {!r}; give a .safetensors file", path[:100]))
    if path.lower().endswith(PICKLES):
        raise ValueError(
            worded("LoRA {!r} is a pickle, which can run code when opened; get the safetensors file", path[:300])
        )
    given = Path(path)
    places = [given] if given.is_absolute() or roots is None else [root / given for root in roots]
    found = next((place for place in places if exists(place)), None)
    if not is_allowed(found or places[0] if places else given, roots):
        allowed = ", ".join(map(str, roots or ()))
        raise ValueError(worded("LoRA {!r} lies outside the allowed folders ({}); move it there", path[:300], allowed))
    if found is None:
        raise ValueError(worded("LoRA {!r} does not exist; check the path", path[:300]))
    return found.absolute()
