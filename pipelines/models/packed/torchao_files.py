"""Weights that torchao has quantized, in the files of a diffusers folder: each is several tensors there.

A weight `a.weight` lies as `a._weight_qdata`, `a._weight_scale` and maybe `a._weight_zero_point`, in any of the files,
and the metadata of a file says of what kind each is. torchao is not needed to read them: kinds are names here, and
no class is made of what a file says.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..regular_file import parse_object
from ..tensor_file import TensorEntry, TensorFile

# The kinds that are read, and of which numbers they are.
NUMBERS = {"Int8Tensor": ("I8",), "Float8Tensor": ("F8_E4M3", "F8_E5M2")}
PARTS = ("qdata", "scale", "zero_point")
PLAIN = "Tensor"
PACKED = "torchao "  # before the numbers that it is made of: the dtype of a weight that is put together


def part_of(name: str, part: str) -> str:
    """The name under which one of the parts of a weight lies."""
    module, _, leaf = name.rpartition(".")
    return f"{module}._{leaf}_{part}"


def is_torchao(config: Any) -> bool:
    """Whether a component's `quantization_config` says that torchao did it."""
    return isinstance(config, dict) and config.get("quant_method") == "torchao"


def put_together(files: Sequence[TensorFile]) -> tuple[TensorFile, ...]:
    """The files with each weight as one entry, of dtype `torchao I8` or the like, where its numbers lie.

    Raises `ValueError` naming a weight of another kind, or one whose parts are missing or have other shapes.
    """
    # of all files first: parts of one weight may lie in several, and what is said of it in any
    held = {name: entry for file in files for name, entry in file.tensors.items()}
    told = {name: text for file in files for name, text in file.metadata.items()}
    parts: dict[str, str] = {}
    for name in told:
        said = parse_object(told[name].encode(), what=f"metadata of {name[:100]}") if told[name].startswith("{") else {}
        if said.get("_type", PLAIN) != PLAIN:
            _check(name, said, held, place=str(files[0].path.parent))
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


def _check(name: str, said: dict[str, Any], held: dict[str, TensorEntry], *, place: str) -> None:
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
