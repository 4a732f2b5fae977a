"""What makes CUDA graphs of actions on one device, and what sees that an action can be repeated by one."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.cuda import CUDAGraph
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...attention import packed


class Cuda:
    """Makes graphs of actions on one device, which it captures on a stream of its own. Tests have a stand-in of it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)

    def aside(self, action: Callable[[], Any]) -> tuple[Any, int]:
        """What it gives, by way of the stream that `record` captures, and the bytes that were taken for it."""
        torch.cuda.empty_cache()  # a stream keeps what it was given: all that this action takes is asked for anew
        before = torch.cuda.memory_reserved(self.device)
        here = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            found = action()
        here.wait_stream(self._stream)
        return found, max(0, torch.cuda.memory_reserved(self.device) - before)

    def settle(self) -> None:
        """Wait for all that the device has been asked for."""
        torch.cuda.synchronize(self.device)

    def free_bytes(self) -> int:
        """What nobody holds of the device, once it is settled."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self.device)[0]

    def record(self, action: Callable[[], Any], *, beside: CUDAGraph | None) -> tuple[CUDAGraph, Any, int]:
        """A graph of the action, what a replay writes to, and the bytes that were taken for it.

        It shares its memory with one `beside` that never runs at the same time. RuntimeError if the device does not let
        it be captured.
        """
        graph, pool = CUDAGraph(), None if beside is None else beside.pool()
        # Torch empties its cache as a capture begins: counted before that, this would hide what the graph takes.
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved(self.device)
        here = torch.cuda.current_stream(self.device)
        # A capture that fails may leave its own stream the current one. What other threads of the process, which decode
        # or load, ask of the device meanwhile is no error.
        with (
            torch.cuda.stream(here),
            torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"),
        ):
            found = action()
        return graph, found, max(0, torch.cuda.memory_reserved(self.device) - before)


class CaptureWatch(TorchDispatchMode):
    """Sees what a capture reads; ValueError for what no graph can repeat."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._read: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled blocks run compiled under it."""
        return True

    def kept(self) -> object:
        """What was read and is not gone with the forward, as its own tensors are; to be held on to."""
        return [storage for ref in self._read.values() if (storage := ref()) is not None], packed.held()

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # A launch repeats addresses. A copy from the host would read where the tensor was when it was captured; an
        # operation that looks at values would have looked at those of one step. CUDA refuses some of both, and with an
        # error that names no operation.
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        name = func.overloadpacket.__name__
        places = {x.device.type for x in given if x.ndim}
        if given and kwargs.get("device") is not None:
            places.add(torch.device(kwargs["device"]).type)
        if self._device.type in places and len(places) > 1:
            raise ValueError(f"its {name} copies between {' and '.join(sorted(places))}")
        if any(x.device.type == self._device.type for x in given) and _waits(func, given):
            raise ValueError(f"its {name} waits for the device")
        for x in given:
            if type(x) not in (Tensor, nn.Parameter):  # a weight in small, whose parts its module keeps
                continue
            # Weakly: what the forward lets go of lies in the graph's own memory, and what lives on, such as weights and
            # tables, is what nobody may free before the graph.
            storage = x.untyped_storage()
            self._read.setdefault(storage._cdata, weakref.ref(storage))
        return func(*args, **kwargs)


def _waits(func: Any, given: Sequence[Tensor]) -> bool:
    """Whether the numbers in tensors decide what comes out, in which shape: somebody has to look at them."""
    if func.overloadpacket is torch.ops.aten.index:
        return any(index.dtype in (torch.bool, torch.uint8) for index in given[1:])
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))
