"""A connection: messages as small pieces of JSON, beside them bodies with tensors in files without names; no pickle.

A body is one safetensors file: its tensors, and in its metadata the JSON in which `{"$tensor": name}` stands for each.
The reader maps it, so that one request given to many ranks is in memory once; a mapped tensor may be written to, which
copies the page. Connections are SOCK_SEQPACKET pairs without a name, so that nobody else can speak.
"""

from __future__ import annotations

import array
import errno
import itertools
import json
import os
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, cast

from ..errors import BadMessage, Closed
from ..staging import in_host_memory, unnamed_file
from .messages import M, Message, decode, encode

if TYPE_CHECKING:
    from torch import Tensor

MAX_BYTES = 64 << 10  # the most bytes of a message, without its body
MAX_FDS = 4
TENSOR = "$tensor"
PLAIN, GAP = "plain", "gap"
ALIGNED = 64  # bytes, as torch's own memory of a CPU is
# What safetensors calls torch's dtypes.
DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "complex64": "C64",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}


@dataclass(frozen=True)
class Received(Generic[M]):
    """One message received. Whoever receives it owns the descriptors."""

    message: M
    fds: tuple[int, ...] = ()  # None where this process may open no more: the kernel drops them then


class Channel(Generic[M]):
    """One end of a connection, which hears certain messages. Many threads may send; one receives."""

    def __init__(self, end: socket.socket, hears: Collection[type[M]]) -> None:
        self.socket = end
        self._hears = hears

    @classmethod
    def pair(cls, hears: Collection[type[M]]) -> tuple[Channel[M], socket.socket]:
        """This process's end, and the other's."""
        # Of packets: a message is received whole, and its descriptors come with it, not with bytes of its neighbour.
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(mine, hears), theirs

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Raises `Closed`, or `OSError` where it cannot be sent now; the caller keeps its descriptors."""
        data = json.dumps(encode(message)).encode()
        assert len(data) <= MAX_BYTES, f"a message of {len(data)} bytes; what is large belongs into a body"
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], rights)
        except ConnectionError as error:
            raise Closed(str(error)) from None

    def receive(self) -> Received[M] | None:
        """The next message, or None where there is none yet and this end does not wait.

        Raises `Closed`, or `BadMessage` for what is not understood or not for this end; then its descriptors are shut.
        """
        size = MAX_FDS * array.array("i").itemsize
        try:
            data, rights, flags, _ = self.socket.recvmsg(MAX_BYTES, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except ConnectionResetError:  # told once, and before what the other side had still said
            return self.receive()
        fds = array.array("i")
        for level, kind, given in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(given[: len(given) - len(given) % fds.itemsize])
        if flags & socket.MSG_CTRUNC:  # some were dropped, and which one is meant follows from how many there are
            for fd in fds:
                os.close(fd)
            fds = array.array("i")
        if not data:
            raise Closed("the other side has gone")
        try:
            try:
                plain = json.loads(data)
            except (ValueError, RecursionError):
                raise BadMessage(f"a message of {len(data)} bytes is no JSON") from None
            return Received(decode(plain, self._hears), tuple(fds))
        except BadMessage:
            for fd in fds:
                os.close(fd)
            raise

    def close(self) -> None:
        self.socket.close()


def write_body(plain: Any) -> int:
    """A new file without a name that holds plain data: dicts with str keys, lists, scalars, None and tensors on any
    device. In memory, but for what is large (`unnamed_file`).

    Nothing is copied on the way but an accelerator's tensors, piece by piece: what is written is what the file takes.
    A tensor that stands in several places is written once.
    """
    found: dict[int, tuple[int, Tensor]] = {}
    text = json.dumps(_without_tensors(plain, found))
    tensors = [tensor.detach() for _, tensor in found.values()]
    pieces = safetensors_of(tensors, text)
    header = next(pieces)
    fd = unnamed_file(len(header) + sum(each.nbytes + -each.nbytes % ALIGNED for each in tensors))
    try:
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.writelines(itertools.chain([header], pieces))
    except BaseException:
        os.close(fd)
        raise
    return fd


def safetensors_of(tensors: Sequence[Tensor], text: str = "") -> Iterator[memoryview]:
    """The pieces of a safetensors file, its header first, of tensors that are called by their place: "0", "1".

    Each begins where torch would have it begin, with a tensor that nobody reads before the next: CPU kernels round by
    where memory begins.
    """
    entries: dict[str, Any] = {"__metadata__": {PLAIN: text}}
    end = 0
    for index, tensor in enumerate(tensors):
        start, end = end, end + tensor.nbytes
        name = str(tensor.dtype).removeprefix("torch.")
        assert name in DTYPES, f"a tensor of {name} cannot be sent; send one of {', '.join(DTYPES)}"
        entries[str(index)] = {"dtype": DTYPES[name], "shape": list(tensor.shape), "data_offsets": [start, end]}
        if gap := -end % ALIGNED:
            entries[f"{GAP}{index}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [end, end + gap]}
            end += gap
    data = json.dumps(entries).encode()
    data += b" " * (-(8 + len(data)) % ALIGNED)  # tensors begin behind it
    yield memoryview(len(data).to_bytes(8, "little") + data)
    for tensor in tensors:
        yield from in_host_memory(tensor)
        yield memoryview(bytes(-tensor.nbytes % ALIGNED))


def read_body(fd: int) -> Any:
    """The plain data in such a file; closes it. Its tensors are views of the mapping."""
    from safetensors import safe_open

    try:
        with safe_open(f"/proc/self/fd/{fd}", framework="pt") as body:  # it takes a path, and maps what is there
            names = [name for name in body.keys() if not name.startswith(GAP)]  # noqa: SIM118 (it is no mapping)
            tensors = {name: body.get_tensor(name) for name in names}
            return _with_tensors(json.loads(body.metadata()[PLAIN]), tensors)
    except FileNotFoundError:  # it is there; what safetensors was refused is a descriptor
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None
    finally:
        os.close(fd)


def _without_tensors(plain: Any, found: dict[int, tuple[int, Tensor]]) -> Any:
    """Plain data with numbers for its tensors, which are put into `found` by their identity."""
    if plain is None or isinstance(plain, str | int | float):
        return plain
    if isinstance(plain, Mapping):
        assert TENSOR not in plain, f"{TENSOR} is no name for a value"
        return {key: _without_tensors(value, found) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_without_tensors(value, found) for value in plain]
    number, _ = found.setdefault(id(plain), (len(found), cast("Tensor", plain)))
    return {TENSOR: str(number)}


def _with_tensors(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(plain, dict):
        if TENSOR in plain:
            return tensors[plain[TENSOR]]
        return {key: _with_tensors(value, tensors) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_with_tensors(value, tensors) for value in plain]
    return plain
