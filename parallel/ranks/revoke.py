"""Revoking groups of NCCL: what they have under way ends in an error, and their memory stays until they are aborted.

NCCL asks for it since abort frees memory at once that kernels of other ranks may still read: all ranks stop first, and
free afterwards. It does so from 2.28.7 on, by a function that torch 2.13 does not offer (pytorch pull request 190753
is to); so it is called here, on the communicators that torch tells. Torch's `shrink_group` does not serve: it excludes
one rank at least, needs all others at the same time, and aborts every other group one by one.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

DEFAULT, SUCCESS = 0, 0  # NCCL's flag, and its answer

Revoke = Callable[[int], int]  # of NCCL: a communicator's address to its answer


def revoke(groups: Sequence[Any], device: torch.device) -> bool:
    """Whether there are such groups, and all were revoked; otherwise they are to be aborted. Not collective.

    On idle communicators it takes 0.5 to 1 s, and longer where a driver hangs: who calls this bounds it.
    """
    call = _nccl()
    backends = [group._get_backend(device) for group in groups]
    if not backends or call is None or not all(hasattr(backend, "_comm_ptr") for backend in backends):
        return False
    return _at_once(lambda backend: call(backend._comm_ptr()), backends, device) == [SUCCESS] * len(backends)


def abort(groups: Sequence[Any], device: torch.device) -> None:
    """Each takes up to 1 s where it was not revoked."""
    _at_once(lambda backend: backend.abort(), [group._get_backend(device) for group in groups], device)


def _at_once(action: Callable[[Any], Any], backends: Sequence[Any], device: torch.device) -> list[Any]:
    """What it gives for each, in a thread for each: a kernel of one may wait for that of another, and NCCL's own
    grouping holds for one thread, while torch aborts in others.

    It waits for the last. What is under way ends at once, but NCCL then joins its proxy threads, which look for an
    abort each 500 ms, one of them twice. An abort beside a revoke would join a thread for the second time, and both
    would wait for ever (seen with NCCL 2.28.9 and 2.30.7, of one rank and of two).
    """

    def act(backend: Any) -> Any:
        if device.type == "cuda":
            torch.cuda.set_device(device)  # of this thread
        return action(backend)

    if not backends:
        return []
    with ThreadPoolExecutor(len(backends), thread_name_prefix="latentloom nccl") as threads:
        return list(threads.map(act, backends))


def _nccl() -> Revoke | None:
    """NCCL's function, of the library that torch has loaded; None where there is neither."""
    try:
        function = ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOW | os.RTLD_NOLOAD).ncclCommRevoke
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_int), ctypes.c_int
    return lambda address: function(address, DEFAULT)
