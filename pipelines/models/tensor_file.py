"""The header of a safetensors file, checked without reading a tensor.

Format: https://github.com/huggingface/safetensors#format (8 bytes little-endian header length, JSON header, data).
Not by that project's own reader (0.8), which takes no header apart from its data. It opens a path by itself: maybe not
the file whose kind and size were looked at, and a pipe keeps it waiting. It maps the file, so that one that is cut
short meanwhile ends the process (SIGBUS). And it takes one name twice. One that reads the bytes of a header could
replace `_read_entries`; what refuses names twice and counts before anything is parsed would stay.
"""

import hashlib
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...parallel.recent import Recent
from .regular_file import JsonFault, is_settled, open_regular, parse_object, sha256_of, without_texts

MAX_HEADER_BYTES = 32 << 20
MAX_TENSORS = 100_000  # the most tensors in one file; the largest models have some thousands
TEXTS_PER_TENSOR = 5  # texts in the header for each tensor: its name, three keys and its dtype
MARKS_PER_TENSOR = 16  # three brackets, and commas: six for a tensor of four dims
MAX_METADATA_TEXTS = 20_000
MAX_KEPT_BYTES = 128 << 20  # memory for the headers of files read before; one of 100,000 tensors takes about 50 MiB
ENTRY_BYTES = 300  # what one tensor's entry takes beside its name, roughly
# Larger files are told apart by what the file system says of them: reading a whole model takes minutes.
MAX_HASHED_BYTES = 64 << 20
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
    dtype: str  # as safetensors names it, or ggml
    shape: tuple[int, ...]
    start: int = 0  # where in the file its bytes begin

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class TensorFile:
    """What one safetensors file, or GGUF file, says it holds."""

    path: Path
    header: bytes
    size_bytes: int
    stamps: tuple[int, int, int]  # mtime_ns, ctime_ns and inode
    tensors: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]

    @cached_property
    def kept_bytes(self) -> int:
        """The memory of its entries and texts; one strange character makes all of a text four times as wide."""
        texts = (*self.tensors, *self.metadata, *self.metadata.values())
        return len(self.header) + len(self.tensors) * ENTRY_BYTES + sum(map(sys.getsizeof, texts))


# What stands for the headers of files that hold nothing, by their paths: those of `outlines.py`.
STANDING: dict[Path, TensorFile] = {}
READ = Recent[TensorFile](MAX_KEPT_BYTES)  # by path, size and stamps: one load asks for a header several times


def read_tensor_file(path: Path) -> TensorFile:
    """Raises `ValueError` when the header lies: length, JSON, types, or offsets that overlap or leave the file; and for
    one of more than 100,000 tensors, which are counted before it is parsed.
    """
    if standing := STANDING.get(path):
        return standing
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            stamps = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            key = path, status.st_size, stamps
            if known := READ.get(key):
                return known
            length = int.from_bytes(file.read(8), "little")
            if status.st_size < 8 or length > min(MAX_HEADER_BYTES, status.st_size - 8):
                raise ValueError(f"{path} is truncated or no safetensors file (header length); copy it again")
            header = file.read(length)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}); copy it again") from None
    check_counts(path, header, texts=TEXTS_PER_TENSOR, marks=MARKS_PER_TENSOR)
    plain = parse_object(header, what=f"the header of {path}")
    metadata = plain.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(item, str) for item in metadata.values()):
        raise ValueError(f"{path} has metadata that is not text; copy it again")
    tensors = _read_entries(path, plain, first=8 + length, data_bytes=status.st_size - 8 - length)
    found = TensorFile(path, header, status.st_size, stamps, tensors, metadata)
    if is_settled(stamps[:2]):
        READ.put(key, found, {key: found.kept_bytes})
    return found


def check_counts(path: Path, data: bytes, *, texts: int, marks: int) -> None:
    """Refuse JSON with more in it than 100,000 tensors need, so many texts, brackets and commas each, before anything
    is made of it: what costs three bytes to write must not cost a microsecond and a hundred bytes to read.
    """
    try:
        between = without_texts(data, max_texts=texts * MAX_TENSORS + MAX_METADATA_TEXTS)
    except JsonFault:
        is_too_much = True
    else:
        num_tensors = between.count(b"{") - 1 - (b'"__metadata__"' in data)
        num_marks = sum(map(between.count, (b"{", b"[", b",")))
        is_too_much = num_tensors > MAX_TENSORS or num_marks > marks * MAX_TENSORS + MAX_METADATA_TEXTS
    if is_too_much:
        raise ValueError(
            f"{path} describes more than {MAX_TENSORS:,} tensors, the most that one component may have; copy it again"
        )


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


def _read_entries(path: Path, plain: Mapping[str, Any], *, first: int, data_bytes: int) -> dict[str, TensorEntry]:
    tensors, spans = {}, []
    for name, entry in plain.items():
        match entry:
            case {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]} if (
                type(dtype) is str
                and dtype in BITS
                and type(start) is type(end) is int  # true is an int, and no offset
            ):
                pass
            case _:
                raise ValueError(f"{path} describes tensor {name[:100]!r} wrongly; copy it again")
        if not all(type(size) is int and 0 <= size < 1 << 40 for size in shape):
            raise ValueError(f"{path}: tensor {name[:100]!r} has an impossible shape; copy it again")
        if (end - start) * 8 != math.prod(shape) * BITS[dtype]:
            raise ValueError(f"{path}: tensor {name[:100]!r} has a size that is not its shape's; copy it again")
        tensors[name] = TensorEntry(dtype, tuple(shape), first + start)
        spans.append((start, end))
    # without gaps and overlaps each byte has one owner: no two names share numbers, and nothing hides in between
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
