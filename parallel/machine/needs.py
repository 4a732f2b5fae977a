"""What ranks need of the operating system, each tried once; a trial raises OSError where it is missing.

The doctor calls each of them to say what is missing before a pool fails for want of it: memory files, descriptors
passed over sockets, pidfds, forks, the loopback.
"""

import ctypes
import os
import select
import socket
from collections.abc import Callable

PR_GET_PDEATHSIG = 2
CONNECT_S = 5.0


def memory_file() -> None:
    """Tensors travel in memory files whose descriptors are passed on."""
    if not (hasattr(os, "memfd_create") and hasattr(socket, "SOCK_SEQPACKET")):
        raise OSError("this system has no memory files")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.settimeout(CONNECT_S)
        theirs.settimeout(CONNECT_S)
        descriptor = os.memfd_create("latentloom")
        try:
            os.write(descriptor, b"whole")
            socket.send_fds(ours, [b"."], [descriptor])
        finally:
            os.close(descriptor)
        _, received, _, _ = socket.recv_fds(theirs, 1, 1)
        try:
            if not received or os.pread(received[0], 5, 0) != b"whole":
                raise OSError("a descriptor that was passed did not arrive")
        finally:
            for descriptor in received:
                os.close(descriptor)


def loopback() -> None:
    """Ranks of one machine meet on 127.0.0.1, on any free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(CONNECT_S)
        with socket.create_connection(server.getsockname(), timeout=CONNECT_S) as ours:
            theirs, _ = server.accept()
            with theirs:
                theirs.settimeout(CONNECT_S)
                ours.sendall(b".")
                if theirs.recv(1) != b".":
                    raise OSError("what was sent did not arrive")


def loopback_interface() -> None:
    """gloo and NCCL are told to use the interface `lo`."""
    if "lo" not in [name for _, name in socket.if_nameindex()]:
        raise OSError("there is no interface called lo")


def process_descriptor() -> None:
    """A rank's death is seen at once by polling its pidfd."""
    if not hasattr(os, "pidfd_open"):
        raise OSError("this system has no pidfd_open")
    descriptor = os.pidfd_open(os.getpid())
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if poll.poll(0):
            raise OSError("the pidfd of this live process says that it is dead")
    finally:
        os.close(descriptor)


def death_signal() -> None:
    """The kernel ends ranks with their parent (PR_SET_PDEATHSIG)."""
    held = ctypes.c_int(-1)
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is None:
        raise OSError("this system has no prctl")
    if prctl(PR_GET_PDEATHSIG, ctypes.byref(held), 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def forking() -> None:
    """Ranks are forked by a process that has imported torch already."""
    if not hasattr(os, "fork"):
        raise OSError("this system cannot fork")


NEEDS: dict[str, Callable[[], None]] = {
    "memory files": memory_file,
    "loopback": loopback,
    "interface lo": loopback_interface,
    "process descriptors": process_descriptor,
    "death signal": death_signal,
    "fork": forking,
}
