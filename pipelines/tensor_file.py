"""The header of a safetensors file, checked without reading a tensor.

Format: https://github.com/huggingface/safetensors#format (8 bytes little-endian header length, JSON header, data).
"""

from __future__ import annotations

import hashlib
import math
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .file_hash import sha256_of
from .json_file import parse_object

MAX_HEADER_BYTES = 32 << 20
MAX_HASHED_BYTES = 64 << 20
"""Larger files are told apart by what the file system says of them: reading a whole model takes minutes."""
BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


@dataclass(frozen=True)
class TensorEntry:
    dtype: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class TensorFile:
    """What one safetensors file says it holds."""

    path: Path
    header: bytes
    size_bytes: int
    stamps: tuple[int, int, int]
    """mtime_ns, ctime_ns and inode."""
    tensors: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]


def read_tensor_file(path: Path) -> TensorFile:
    """Raises `ValueError` when the header lies: length, JSON, types, or offsets that overlap or leave the file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is not a file; a safetensors file should be here, copy the model again")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if status.st_size < 8 or length > min(MAX_HEADER_BYTES, status.st_size - 8):
                raise ValueError(f"{path} is truncated or no safetensors file (header length); copy it again")
            header = file.read(length)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}); copy it again") from None
    plain = parse_object(header, what=f"the header of {path}")
    metadata = plain.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(item, str) for item in metadata.values()):
        raise ValueError(f"{path} has metadata that is not text; copy it again")
    tensors = _read_entries(path, plain, status.st_size - 8 - length)
    stamps = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return TensorFile(path, header, status.st_size, stamps, tensors, metadata)


def content_mark(file: TensorFile) -> str:
    """Changes when the file changes: the hash of its content; of a file beyond 64 MiB, of its header, size and stamps.

    A large file that is copied or linked anew has another mark although its content is the same.
    """
    if file.size_bytes > MAX_HASHED_BYTES:
        return hashlib.sha256(f"{file.size_bytes}:{file.stamps}:".encode() + file.header).hexdigest()
    try:
        return sha256_of(file.path)
    except OSError as error:
        raise ValueError(f"{file.path} cannot be read ({error.strerror}); copy it again") from None


def _read_entries(path: Path, plain: Mapping[str, Any], data_bytes: int) -> dict[str, TensorEntry]:
    tensors, spans = {}, []
    for name, entry in plain.items():
        match entry:
            case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(start), int(end)]} if dtype in BITS:
                pass
            case _:
                raise ValueError(f"{path} describes tensor {name[:100]!r} wrongly; copy it again")
        if not all(type(size) is int and 0 <= size < 1 << 40 for size in shape):
            raise ValueError(f"{path}: tensor {name[:100]!r} has an impossible shape; copy it again")
        if (end - start) * 8 != math.prod(shape) * BITS[dtype]:
            raise ValueError(f"{path}: tensor {name[:100]!r} has a size that is not its shape's; copy it again")
        tensors[name] = TensorEntry(dtype, tuple(shape))
        spans.append((start, end))
    reached = 0
    for start, end in sorted(spans):
        if start != reached or end < start:
            raise ValueError(f"{path} has tensors that overlap or leave gaps; copy it again")
        reached = end
    if reached != data_bytes:
        raise ValueError(
            f"{path} is damaged: it should hold {reached} bytes of tensors and has {data_bytes}; copy it again"
        )
    return tensors
