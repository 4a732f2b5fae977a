"""Weights that are mapped, so that the host and all ranks hold them once between them.

ComfyUI's loaders copy each weight out of the mapped file. At the hand-over that copy becomes one that ranks map too
(`Lease`); each weight begins at a multiple of 64 bytes, as torch's own, by which the last bit of a product depends on a
CPU. Where dynamic VRAM holds none, ranks take weights as they lie in the file (`as_mapped`). What a LoRA changes is
each process's own: a page that is written to becomes the writer's.
"""

import contextlib
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ....parallel.ranks.heap import give_back_rest
from ....parallel.staging import in_host_memory

ALIGNED = 64
ROUND_BYTES = 64 << 20  # after so many bytes moved, the heap gives back what is free
LEASE = "latentloom_lease"  # an attribute of ComfyUI's model, which shells of it have too


class Lease:
    """What is alive as long as something in the host may ask for a model: this one of a loader, others of the same
    recipe, and shells of them, until ComfyUI's cache lets go of them."""

    def __init__(self) -> None:
        self._shared: dict[str, Any] = {}

    def share(self, module: nn.Module) -> Mapping[str, Any]:
        """Have the weights of this host's module in memory that ranks map by what is given back (`take`)."""
        layout, num_bytes = _layout(module)
        if not num_bytes or any(each.is_meta for each in module.parameters()):  # on a device, or a shell's
            return self._shared
        if self._shared.get("layout") != layout:
            fd = os.memfd_create("latentloom-weights", os.MFD_CLOEXEC)
            weakref.finalize(self, os.close, fd)
            os.ftruncate(fd, num_bytes)
            path = f"/proc/{os.getpid()}/fd/{fd}"
            self._shared = {"file": path, "inode": os.fstat(fd).st_ino, "layout": layout, "size": num_bytes}
            with os.fdopen(fd, "wb", closefd=False) as file:
                _point(module, self._shared, file)
        else:  # another model of the recipe, or one that was moved to a device and back
            _point(module, self._shared)
        give_back_rest()
        return self._shared


LEASES: weakref.WeakValueDictionary[str, Lease] = weakref.WeakValueDictionary()


def lease_of(model: Any, key: str, forget: Callable[[], None]) -> Lease:
    """The lease of a loader's model. `forget` is called, on a thread of its own, when it and all others of the recipe
    `key` have gone."""

    def gone() -> None:
        if key not in LEASES:  # it was not loaded anew meanwhile
            forget()

    if (lease := LEASES.get(key)) is None:
        LEASES[key] = lease = Lease()
        # Not at once: it may come of a garbage collection, at any place of any thread, and `forget` takes locks.
        weakref.finalize(lease, threading.Thread(target=gone, daemon=True).start).atexit = False
    vars(model)[LEASE] = lease
    return lease


def take(module: nn.Module, shared: Mapping[str, Any]) -> bool:
    """In a rank: the weights that the host shares, where it has the same; whether it has."""
    if shared["layout"] != _layout(module)[0]:
        return False
    with contextlib.suppress(OSError):  # the host has let go of it meanwhile
        _point(module, shared)
        return True
    return False


def as_mapped(*, skips: bool = False) -> contextlib.AbstractContextManager[Any]:
    """While it is entered, a parameter that is to be a copy of a tensor takes that itself, where both are alike; with
    `skips` it is left without a value, and without memory, until it is given one (`take`)."""

    class AsMapped(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.copy_ and len(args) == 2 and not kwargs and _is_weight(*args):
                target, source = args
                if not skips and target.dtype == source.dtype and source.is_contiguous():
                    target.data = source
                    return target
                if skips:
                    return target
            return func(*args, **(kwargs or {}))

    return AsMapped()


def _is_weight(target: Any, source: Any) -> bool:
    is_weight = isinstance(target, nn.Parameter) and type(source) is Tensor and target.shape == source.shape
    return is_weight and target.device.type == source.device.type == "cpu"


def _point(module: nn.Module, shared: Mapping[str, Any], file: Any = None) -> None:
    """Make weights views of the mapping; `file` is written with them first, one by one, so that none is there twice."""
    fd = os.open(shared["file"], os.O_RDONLY)
    try:
        if os.fstat(fd).st_ino != shared["inode"]:
            raise FileNotFoundError("another file has its number by now")
        room, num_bytes = torch.from_file(f"/proc/self/fd/{fd}", False, shared["size"], dtype=torch.uint8), 0
    finally:
        os.close(fd)
    for _, each, start in _places(module):
        if file is not None:
            file.seek(start)
            file.writelines(in_host_memory(each.data))
            file.flush()
        each.data = room[start : start + each.nbytes].view(each.dtype).view(each.shape)
        if (num_bytes := num_bytes + each.nbytes) >= ROUND_BYTES:
            num_bytes = 0
            give_back_rest()


def _places(module: nn.Module) -> Iterator[tuple[str, Tensor, int]]:
    """The weights of the host's memory that can be shared, and where each begins."""
    end = 0
    for name, each in module.named_parameters():
        if each.device.type == "cpu" and type(each.data) is torch.Tensor and each.numel():
            yield name, each, end
            end += each.nbytes + -each.nbytes % ALIGNED


def _layout(module: nn.Module) -> tuple[str, int]:
    """A name for what is shared and where it begins, and how many bytes that are."""
    rows = [(name, str(each.dtype), tuple(each.shape), start, each.nbytes) for name, each, start in _places(module)]
    size = rows[-1][3] + rows[-1][4] if rows else 0
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16] if rows else "", size
