"""The header of a GGUF file, checked without reading a tensor.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Not by the `gguf` package's reader, which maps the
file and believes it: it makes a list of as many items, and takes as many bytes, as a header asks for. Here nothing is
believed that the file has no room for.
"""

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from .regular_file import open_regular
from .tensor_file import MAX_HEADER_BYTES, MAX_TENSORS, TensorEntry, TensorFile

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMS = 5  # ggml has 4, and a convolution's original shape 5
MAX_NAME_BYTES = 256
MAX_ENTRIES = 20_000  # of metadata
MAX_ITEMS = 1_000_000  # texts in all lists of the metadata; the largest vocabularies have 300,000
MAX_ALIGNMENT = 1 << 16
# Number of a type of metadata -> its form; a text is 8 and a list 9.
NUMBERS = dict(enumerate(("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")))
TEXT, LIST = 8, 9
ORIGINAL_SHAPE = "comfy.gguf.orig_shape."  # before a tensor's name: a list of its dims, where ggml's are others
# ggml's number of a type -> its name, how many weights a block has, and how many bytes.
TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    20: ("IQ4_NL", 32, 18),
    23: ("IQ4_XS", 256, 136),
    30: ("BF16", 1, 2),
}
OTHER_TYPES = {
    **{9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S"},
    **{24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0"},
    **{39: "MXFP4", 40: "NVFP4", 41: "Q1_0"},
}


@dataclass
class _Header:
    """Reads numbers and texts one after the other, never beyond the file or the most bytes that a header may have."""

    path: Path
    file: BufferedReader
    left: int
    read: bytearray
    num_items: int = 0  # texts in the lists that were read

    def fault(self, reason: str, remedy: str = "copy it again") -> ValueError:
        """The error: what is wrong with the file, as a verb and its object, and what to do."""
        return ValueError(f"{self.path} {reason}; {remedy}")

    def take(self, num_bytes: int) -> bytes:
        if num_bytes > self.left:
            raise self.fault("is truncated, or asks for more than it holds")
        found = self.file.read(num_bytes)
        if len(found) != num_bytes:
            raise self.fault("is truncated")
        self.left -= num_bytes
        self.read += found
        return found

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self, max_bytes: int) -> str:
        length = self.number("Q")
        if length > max_bytes:
            raise self.fault(f"has a text of {length:,} bytes where at most {max_bytes:,} are right")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise self.fault("has a text that is no UTF-8") from None


def read_gguf_file(path: Path) -> TensorFile:
    """Raises `ValueError` when the header lies: counts, lengths, types, dims, or offsets that overlap or leave it.

    Shapes are torch's, which names the slowest dim first; of the metadata only texts are kept.
    """
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            header = _Header(path, file, min(status.st_size, MAX_HEADER_BYTES), bytearray())
            tensors, metadata = _parse(header, status.st_size)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}); copy it again") from None
    stamps = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return TensorFile(path, bytes(header.read), status.st_size, stamps, tensors, metadata)


def _parse(header: _Header, size_bytes: int) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    if header.take(4) != MAGIC:
        raise header.fault("is no GGUF file")
    version = header.number("I")
    if version not in VERSIONS:
        raise header.fault(f"is GGUF of version {version}, not {' or '.join(map(str, VERSIONS))}")
    num_tensors, num_entries = header.number("Q"), header.number("Q")
    # before anything is made of them: some bytes can ask for 2**64 of each
    if num_tensors > MAX_TENSORS or num_entries > MAX_ENTRIES:
        raise header.fault(f"counts {num_tensors:,} tensors and {num_entries:,} entries, more than any model has")
    metadata: dict[str, Any] = {}
    for _ in range(num_entries):
        name = header.text(1 << 16)
        if name in metadata:
            raise header.fault(f"has two entries {name[:100]!r}")
        metadata[name] = _value(header)
    infos = [_info(header) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 8 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise header.fault(f"is aligned to {str(alignment)[:20]} bytes, which is out of range")
    tensors = _placed(header, infos, metadata, alignment, size_bytes)
    return tensors, {name: value for name, value in metadata.items() if isinstance(value, str)}


def _value(header: _Header) -> Any:
    """One of metadata: a text, a number, or a list of either."""
    kind = header.number("I")
    if kind == TEXT:
        return header.text(header.left)
    if kind != LIST:
        return header.number(_form(header, kind))
    # A long list of numbers is passed over, and so are texts: nothing here asks for them.
    kind, count = header.number("I"), header.number("Q")
    if kind == TEXT:
        header.num_items += count
        if header.num_items > MAX_ITEMS:
            raise header.fault(f"has lists of {header.num_items:,} texts")
        for _ in range(count):
            header.text(header.left)
        return ()
    form = _form(header, kind)
    content = header.take(count * struct.calcsize("<" + form))
    return struct.unpack(f"<{count}{form}", content) if count <= MAX_DIMS else ()


def _form(header: _Header, kind: int) -> str:
    if form := NUMBERS.get(kind):
        return form
    raise header.fault(f"has an entry of type {kind}, which does not exist here")


@dataclass(frozen=True)
class _Info:
    name: str
    dtype: str
    dims: tuple[int, ...]
    offset: int
    num_bytes: int


def _info(header: _Header) -> _Info:
    name = header.text(MAX_NAME_BYTES)
    num_dims = header.number("I")
    if not 1 <= num_dims <= MAX_DIMS:
        raise header.fault(f"gives tensor {name[:100]!r} {num_dims} dims")
    dims = tuple(header.number("Q") for _ in range(num_dims))
    kind, offset = header.number("I"), header.number("Q")
    if kind not in TYPES:
        what = OTHER_TYPES.get(kind, f"number {kind}")
        known = "Q8_0, Q6_K, Q5_K, Q4_K or another of " + ", ".join(sorted(dtype for dtype, *_ in TYPES.values()))
        raise header.fault(f"packs tensor {name[:100]!r} as {what}, which is not read here", f"get it as {known}")
    dtype, per_block, block_bytes = TYPES[kind]
    if not all(1 <= dim < 1 << 40 for dim in dims) or dims[0] % per_block:
        raise header.fault(f"gives tensor {name[:100]!r} the dims {dims}, which {dtype} cannot have")
    return _Info(name, dtype, dims, offset, math.prod(dims) // per_block * block_bytes)


def _placed(
    header: _Header, infos: list[_Info], metadata: Mapping[str, Any], alignment: int, size_bytes: int
) -> dict[str, TensorEntry]:
    start = -(-len(header.read) // alignment) * alignment  # of the first tensor: behind the header, aligned
    reached, found = 0, {}
    # in the order in which they lie, so that the end of the one before tells whether two overlap
    for info in sorted(infos, key=lambda info: info.offset):
        if info.offset % alignment or info.offset < reached:
            raise header.fault(f"has tensors that overlap or are not aligned, first {info.name[:100]!r}")
        reached = info.offset + info.num_bytes
        if start + reached > size_bytes:
            raise header.fault(f"has no room for tensor {info.name[:100]!r}, of {info.num_bytes:,} bytes")
        if info.name in found:
            raise header.fault(f"has two tensors {info.name[:100]!r}")
        shape = metadata.get(ORIGINAL_SHAPE + info.name, info.dims[::-1])
        is_shape = isinstance(shape, tuple) and all(type(dim) is int and dim > 0 for dim in shape)
        if not is_shape or math.prod(shape) != math.prod(info.dims):
            said = f"says that tensor {info.name[:100]!r} was of shape {str(shape)[:100]}"
            raise header.fault(f"{said}, which it cannot have")
        found[info.name] = TensorEntry(info.dtype, shape, start + info.offset)
    return {info.name: found[info.name] for info in infos}
