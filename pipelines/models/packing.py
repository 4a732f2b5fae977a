"""How weights are packed: of a single file in which numbers, scale and rotation, and by torchao in those of a folder.

Read as they are published: plain fp8; fp8 with a scale for each weight (ComfyUI's `scale_weight` beside the marker
`scaled_fp8`, and its `weight_scale` beside `comfy_quant`) or for each row (Black Forest Labs); int8 with a scale for
each weight or row, and with ComfyUI's rotation (*ConvRot*); GGUF. Whatever says that a weight means something else than
its numbers, and is not known here, is refused by its name: a cast would make a picture of noise.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .gguf_file import TYPES, read_gguf_file
from .regular_file import open_regular, parse_object
from .source import checkpoints_of, is_allowed
from .tensor_file import TensorEntry, TensorFile, read_tensor_file

# Before the names of a transformer, where a file may hold text encoders and a VAE besides.
PREFIXES = ("model.diffusion_model.", "diffusion_model.")
FLOATS = ("F64", "F32", "F16", "BF16")
FP8 = ("F8_E4M3", "F8_E5M2")
GGML = tuple(name for name, per_block, _ in TYPES.values() if per_block > 1)
SCALES = (".weight_scale", ".scale_weight")  # the same, in ComfyUI's newer names and in its older ones
SETTINGS = ".comfy_quant"  # a layer's settings, as JSON in bytes
# For activations in fp8, which are computed in the model's number format here.
IGNORED = (".input_scale", ".scale_input")
# What a layer whose weight is packed may have.
KNOWN_BESIDE = {"weight", "bias", *(each[1:] for each in (*SCALES, SETTINGS, *IGNORED))}
MARKERS = ("scaled_fp8",)
METADATA = "_quantization_metadata"
# ComfyUI's name of a packing -> the numbers that it is made of.
FORMATS = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "int8_tensorwise": "I8"}
ROTATED = {"convrot", "convrot_groupsize"}
KNOWN_SETTINGS = {"format", "full_precision_matrix_mult", "params", *ROTATED}
# In the last part of a tensor's name: that it tells how others are meant.
FOREIGN = re.compile(
    r"weight_?scale|scale_?weight|scales?_?inv|(input|output|act|block|group|quant)_?scale|scale_?(input|[0-9]$)"
    r"|zero_?point|zeros|absmax|quant|qweight|g_idx|rotat|hadamard|codebook|s_rel$|s_channel$|smooth|nested|lookup|^lut"
)
MAX_SETTINGS_BYTES = 4096
# How many numbers of a row may be rotated together: a regular Hadamard matrix has a power of 4.
ROTATIONS = (4, 16, 64, 256, 1024, 4096)
# The kinds of torchao that are read, and of which numbers they are.
NUMBERS = {"Int8Tensor": ("I8",), "Float8Tensor": ("F8_E4M3", "F8_E5M2")}
PARTS = ("qdata", "scale", "zero_point")
PLAIN_TENSOR = "Tensor"
PACKED = "torchao "  # before the numbers that it is made of: the dtype of a weight that is put together


@dataclass(frozen=True, kw_only=True)
class Packing:
    """How one tensor of a file becomes the one that it stands for."""

    kind: Literal["plain", "fp8", "int8", "ggml"]
    scale: str = ""  # the name of the tensor that holds its scale, or one for each row
    rotation: int = 0  # how many numbers of a row were rotated together; 0 for none


PLAIN = Packing(kind="plain")


def read_checkpoint(path: Path) -> TensorFile:
    """The header of a single file, checked. Raises `ValueError`."""
    return read_gguf_file(path) if path.suffix.lower() == ".gguf" else read_tensor_file(path)


def read_packing(file: TensorFile) -> dict[str, Packing]:
    """How each tensor of the file's transformer is packed, by its name; scales and settings are none of them.

    Raises `ValueError` naming the tensor for a packing that is not known, or lacks what it needs.
    """
    tensors = transformer_tensors(file)
    settings = _settings(file, tensors)
    found = {name: _packing(file, name, settings) for name in tensors if not _is_companion(file, name)}
    _check_rest(file, tensors, found)
    return found


def check_checkpoints(file: Path, components: Collection[str], *, roots: Sequence[Path] | None) -> dict[str, Path]:
    """As `checkpoints_of`, with a look at the headers. Raises `ValueError` where one is not allowed, whole or known."""
    found = checkpoints_of(file, components)
    for path in found.values():
        if not is_allowed(path, roots):
            raise ValueError(f"{path} links to a place outside the allowed folders; copy it")
        header = read_checkpoint(path)
        if not header.tensors:
            raise ValueError(f"{path} holds no tensors; copy it again")
        read_packing(header)
    return found


def check_unpacked(files: Sequence[TensorFile]) -> None:
    """Refuse files of a component's folder whose weights mean something else than their numbers: a scale may lie in
    another file than its weight.

    Raises `ValueError` naming the first tensor that says so.
    """
    held = {name: (entry.dtype, file) for file in files for name, entry in file.tensors.items()}
    if not {dtype for dtype, _ in held.values()} & {*FP8, "I8", "U8"}:
        return
    for name, (dtype, file) in held.items():
        if dtype == "I8" or FOREIGN.search(_last(name)):
            raise ValueError(
                f"{file.path} is quantized ({printable(name[:100])}); such weights are read from a single file, as "
                "FILE.safetensors@FOLDER: get those of this folder in bf16, fp16 or fp32"
            )


def transformer_tensors(file: TensorFile) -> Mapping[str, TensorEntry]:
    """Those of the transformer, by their names in the file, where it holds other components as well."""
    for prefix in PREFIXES:
        if inside := {name: entry for name, entry in file.tensors.items() if name.startswith(prefix)}:
            return inside
    return file.tensors


GET_ANOTHER = "get the file in bf16, fp8, int8 or GGUF"


def _refused(file: TensorFile, reason: str, remedy: str = GET_ANOTHER) -> ValueError:
    """Its reason names tensors, whose names may hold anything."""
    return ValueError(f"{file.path}: {printable(reason)}; {remedy}")


def printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _packing(file: TensorFile, name: str, settings: Mapping[str, Mapping[str, Any]]) -> Packing:
    entry, layer = file.tensors[name], name.removesuffix(".weight")
    is_weight = name.endswith(".weight")
    said = settings.get(layer, {}) if is_weight else {}
    scale = next((layer + end for end in SCALES if layer + end in file.tensors), "") if is_weight else ""
    if said and FORMATS.get(str(said.get("format"))) != entry.dtype:
        raise _refused(file, f"{name[:100]} is packed as {str(said.get('format'))[:40]!r} in {entry.dtype}")
    if entry.dtype in GGML:
        return Packing(kind="ggml")
    if entry.dtype in FLOATS or entry.dtype == "I64":
        if scale or FOREIGN.search(_last(name)):
            raise _refused(file, f"{(scale or name)[:100]} is a scale or the like that is not known here")
        return PLAIN
    if entry.dtype in FP8:
        if not scale and said:
            raise _refused(file, f"{name[:100]} lacks its scale ({layer[:100]}{SCALES[0]})", "copy it again")
        if scale:
            _check_scale(file, scale, name)
        if _rotation(file, name, said):
            raise _refused(file, f"{name[:100]} is fp8 and rotated, which is not known here")
        return Packing(kind="fp8", scale=scale)
    if entry.dtype == "I8" and is_weight:
        if not scale:
            raise _refused(file, f"{name[:100]} is int8 and lacks its scale ({layer[:100]}{SCALES[0]})")
        _check_scale(file, scale, name)
        return Packing(kind="int8", scale=scale, rotation=_rotation(file, name, said))
    raise _refused(file, f"{name[:100]} is of {entry.dtype}, which is not known here")


def _check_scale(file: TensorFile, scale: str, name: str) -> None:
    """By its shape: it is one number, or one for each row."""
    shape, given = file.tensors[name].shape, file.tensors[scale]
    rows = shape[0] if shape else 1
    if given.dtype not in FLOATS or not (given.numel == 1 or given.shape in ((rows,), (rows, 1))):
        found = f"{scale[:100]} is {given.dtype} of shape {given.shape}"
        raise _refused(file, f"{found}, where one number or {rows} are right")


def _rotation(file: TensorFile, name: str, said: Mapping[str, Any]) -> int:
    shape = file.tensors[name].shape
    is_rotated, size = said.get("convrot") or False, said.get("convrot_groupsize", 256)
    if type(is_rotated) is not bool:
        raise _refused(file, f"{name[:100]} says {str(is_rotated)[:20]!r} of its rotation, not true or false")
    if not is_rotated:
        return 0
    if size not in ROTATIONS or len(shape) != 2 or shape[1] % size:
        raise _refused(file, f"{name[:100]} is rotated by {str(size)[:20]}, which does not divide its shape {shape}")
    return int(size)


def _settings(file: TensorFile, tensors: Mapping[str, TensorEntry]) -> dict[str, Mapping[str, Any]]:
    """What the file says of each layer, by the layer's name: in its metadata, or in a tensor beside the weight."""
    found: dict[str, Mapping[str, Any]] = {}
    if METADATA in file.metadata:
        layers = parse_object(file.metadata[METADATA], what=f"{METADATA} of {file.path}").get("layers")
        if not isinstance(layers, dict):
            raise _refused(file, f"{METADATA} names no layers", "copy it again")
        for layer, said in layers.items():
            names = (layer, *(prefix + layer for prefix in PREFIXES))
            full = [each for each in names if f"{each}.weight" in file.tensors]
            if not full:
                raise _refused(file, f"{METADATA} tells how {layer[:100]} is packed, which the file has not")
            full = [each for each in full if f"{each}.weight" in tensors]  # else of another component
            found |= dict.fromkeys(full, said if isinstance(said, dict) else {"format": said})
    for name, entry in tensors.items():
        if name.endswith(SETTINGS):
            found[name.removesuffix(SETTINGS)] = _read_settings(file, name, entry)
    for layer, said in found.items():
        inner = said.get("params") or {}
        inner = inner if isinstance(inner, dict) else {f"params {inner}": ""}
        found[layer] = {**inner, **said}  # whatever else is in there is refused
        if unknown := sorted((said.keys() - KNOWN_SETTINGS) | (inner.keys() - ROTATED)):
            raise _refused(file, f"{layer[:100]} says {unknown[0][:40]!r} of its packing, which is not known here")
    return found


def _read_settings(file: TensorFile, name: str, entry: TensorEntry) -> Mapping[str, Any]:
    if entry.dtype not in ("U8", "I8") or entry.numel > MAX_SETTINGS_BYTES:
        found = f"{name[:100]} is {entry.dtype} of shape {entry.shape}"
        raise _refused(file, f"{found}, not the bytes of a short JSON")
    try:
        with open_regular(file.path) as opened:
            opened.seek(entry.start)
            content = opened.read(entry.numel)
    except OSError as error:
        raise ValueError(f"{file.path} cannot be read ({error.strerror}); copy it again") from None
    return parse_object(content, what=f"{name[:100]} of {file.path}")


def _is_companion(file: TensorFile, name: str) -> bool:
    """Whether it only tells how a weight is meant, in a way that is known here."""
    layer, _, last = name.rpartition(".")
    tells = f".{last}" in (*SCALES, *IGNORED, SETTINGS) and f"{layer}.weight" in file.tensors
    return tells or last in MARKERS


def _check_rest(file: TensorFile, tensors: Mapping[str, TensorEntry], found: Mapping[str, Packing]) -> None:
    """No scale is left over, no weight of fp8 is without one where others have it, and nothing else lies beside a
    packed weight or below it: whatever it is, it tells more of how that one is meant.
    """
    used = {packing.scale for packing in found.values()}
    for name in tensors:
        if name.endswith(SCALES) and name not in used and name not in found:
            raise _refused(file, f"{name[:100]} is one scale of two, or belongs to no packed weight")
    fp8 = {name: packing.scale for name, packing in found.items() if packing.kind == "fp8"}
    has_scales = any(fp8.values()) or any(_last(name) in MARKERS for name in tensors)
    if has_scales and (bare := next((name for name, scale in fp8.items() if not scale), "")):
        raise _refused(file, f"{bare[:100]} lacks its scale, which others or a marker say it has", "copy it again")
    packed = {name for name, packing in found.items() if packing.kind in ("fp8", "int8") and name.endswith(".weight")}
    layers = {name.removesuffix(".weight") for name in packed}
    for name in tensors:
        layer, _, last = name.rpartition(".")
        if layer in packed or (layer in layers and last not in KNOWN_BESIDE):
            raise _refused(file, f"{name[:100]} lies beside a packed weight and is not known here")


def _last(name: str) -> str:
    return name.rpartition(".")[2]


# ---- Weights that torchao has quantized, in the files of a diffusers folder: each is several tensors there.
#
# A weight `a.weight` lies as `a._weight_qdata`, `a._weight_scale` and maybe `a._weight_zero_point`, in any of the
# files, and the metadata of a file says of what kind each is. torchao is not needed to read them: kinds are names here,
# and no class is made of what a file says.


def part_of(name: str, part: str) -> str:
    """The name under which one of the parts of a weight lies."""
    module, _, leaf = name.rpartition(".")
    return f"{module}._{leaf}_{part}"


def put_together(files: Sequence[TensorFile]) -> tuple[TensorFile, ...]:
    """The files with each weight as one entry, of dtype `torchao I8` or the like, where its numbers lie.

    Raises `ValueError` naming a weight of another kind, or one whose parts are missing or have other shapes.
    """
    # of all files first: parts of one weight may lie in several, and what is said of it in any
    held = {name: entry for file in files for name, entry in file.tensors.items()}
    told = {name: text for file in files for name, text in file.metadata.items()}
    parts: dict[str, str] = {}
    for name in told:
        said = parse_object(told[name], what=f"metadata of {name[:100]}") if told[name].startswith("{") else {}
        if said.get("_type", PLAIN_TENSOR) != PLAIN_TENSOR:
            _check_parts(name, said, held, place=str(files[0].path.parent))
            parts |= {part_of(name, part): name if part == "qdata" else "" for part in PARTS}
    return tuple(_with_whole(file, parts) for file in files)


def _with_whole(file: TensorFile, parts: dict[str, str]) -> TensorFile:
    found: dict[str, TensorEntry] = {}
    for name, entry in file.tensors.items():
        whole = parts.get(name, name)
        if whole != name and whole:
            found[whole] = dataclasses.replace(entry, dtype=PACKED + entry.dtype)
        elif whole:
            found[name] = entry
    return dataclasses.replace(file, tensors=found)


def _check_parts(name: str, said: dict[str, Any], held: dict[str, TensorEntry], *, place: str) -> None:
    kind, named = str(said.get("_type"))[:40], said.get("_tensor_data_names")
    listed = [str(part) for part in named] if isinstance(named, list) else []
    if kind not in NUMBERS or not {"qdata", "scale"} <= set(listed) <= set(PARTS):
        what = f"{name[:100]} as {kind} of {', '.join(listed)[:80]}"
        raise ValueError(f"{place}: torchao packed {what}, which is not read here; get int8 or fp8 weights")
    numbers = held.get(part_of(name, "qdata"))
    if numbers is None or numbers.dtype not in NUMBERS[kind] or not numbers.shape:
        what = f"{name[:100]} has no numbers ({part_of(name, 'qdata')[:100]})"
        raise ValueError(f"{place}: torchao's {what}; copy it again")
    for part in (each for each in listed if each != "qdata"):
        given = held.get(part_of(name, part))
        if given is None or not (given.numel == 1 or given.shape == (numbers.shape[0], 1)):
            what = f"{part_of(name, part)[:100]} is {given.shape if given else 'missing'}"
            right = f"one number or {numbers.shape[0]} are right"
            raise ValueError(f"{place}: {what}, where {right}; get weights with a scale for each row")
