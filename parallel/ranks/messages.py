"""Messages between host and ranks: a small JSON header, and a body of plain data with tensors in a memfd; no pickle.

A body is one safetensors file: its tensors, and in its metadata the JSON in which `{"$tensor": name}` stands for each.
The reader maps it, so that one request given to many ranks is in memory once; a mapped tensor may be written to, which
copies the page. Connections are SOCK_SEQPACKET pairs without a name, so that nobody else can speak.
"""

from __future__ import annotations

import array
import errno
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch import Tensor

MAX_HEADER = 64 << 10
MAX_FDS = 4
TENSOR = "$tensor"
PLAIN = "plain"


@dataclass(frozen=True)
class Message:
    """One message received. Whoever receives it owns the descriptors."""

    header: dict[str, Any]
    fds: tuple[int, ...] = ()
    """None where this process may open no more: the kernel drops them then."""


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """One end of a connection. Many threads may send; one receives."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(first), cls(second)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, header: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Raises `Closed`, or `OSError` where it cannot be sent now; the caller keeps its descriptors."""
        data = json.dumps(header).encode()
        assert len(data) <= MAX_HEADER, f"a header of {len(data)} bytes; what is large belongs into a body"
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], rights)
        except ConnectionError as error:
            raise Closed(str(error)) from None

    def receive(self) -> Message | None:
        """The next message, or None where there is none yet and this end does not wait. Raises `Closed`."""
        size = MAX_FDS * array.array("i").itemsize
        try:
            data, rights, flags, _ = self.socket.recvmsg(MAX_HEADER, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except ConnectionResetError:  # told once, and before what the other side had still said
            return self.receive()
        fds = array.array("i")
        for level, kind, given in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(given[: len(given) - len(given) % fds.itemsize])
        if flags & socket.MSG_CTRUNC:
            for fd in fds:
                os.close(fd)
            fds = array.array("i")
        if not data:
            raise Closed("the other side has gone")
        return Message(json.loads(data), tuple(fds))

    def close(self) -> None:
        self.socket.close()


def write_body(plain: Any) -> int:
    """A new memfd that holds plain data: dicts with str keys, lists, scalars, None and tensors on any device."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    text = json.dumps(_without_tensors(plain, tensors))
    data = memoryview(save(tensors, metadata={PLAIN: text}))
    fd = os.memfd_create("latentloom", os.MFD_CLOEXEC)
    try:
        while data:
            data = data[os.write(fd, data) :]
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_body(fd: int) -> Any:
    """The plain data in a memfd; closes it. Its tensors are views of the mapping."""
    from safetensors import safe_open

    try:
        with safe_open(f"/proc/self/fd/{fd}", framework="pt") as body:
            return _with_tensors(json.loads(body.metadata()[PLAIN]), body)
    except FileNotFoundError:  # it is there; what safetensors was refused is a descriptor
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None
    finally:
        os.close(fd)


def _without_tensors(plain: Any, tensors: dict[str, Tensor]) -> Any:
    if plain is None or isinstance(plain, str | int | float):
        return plain
    if isinstance(plain, Mapping):
        assert TENSOR not in plain, f"{TENSOR} is no name for a value"
        return {key: _without_tensors(value, tensors) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_without_tensors(value, tensors) for value in plain]
    tensor = cast("Tensor", plain).detach().cpu().contiguous()
    if any(tensor.untyped_storage().data_ptr() == each.untyped_storage().data_ptr() for each in tensors.values()):
        tensor = tensor.clone()  # safetensors takes no two tensors of one storage
    name = str(len(tensors))
    tensors[name] = tensor
    return {TENSOR: name}


def _with_tensors(plain: Any, body: Any) -> Any:
    if isinstance(plain, dict):
        if TENSOR in plain:
            return body.get_tensor(plain[TENSOR])
        return {key: _with_tensors(value, body) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_with_tensors(value, body) for value in plain]
    return plain
