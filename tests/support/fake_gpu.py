"""A GPU that is none: its tensors say that they are on `cuda:0`, and are computed on the CPU, values and all.

What on a GPU would make the host wait for the device is counted, with the line that asked for it.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import latentloom

GPU = torch.device("cuda:0")
# Operators whose answer's shape, or whose answer, the host has to know.
SHAPED_BY_VALUES = {
    *("nonzero", "masked_select", "bincount", "_unique2", "unique_dim", "unique_consecutive"),
    *("_local_scalar_dense", "equal", "_linalg_check_errors"),
}
# Which argument of an operator its CUDA kernel is given as a number.
READ_BY_THE_HOST = {"masked_fill": 2, "masked_fill_": 2, "index_fill": 3, "index_fill_": 3}
NUMBERS = {Tensor.item, Tensor.__float__, Tensor.__int__, Tensor.__bool__, Tensor.__index__, Tensor.__complex__}
GUARDED = {Tensor.contiguous, Tensor.__invert__, F.scaled_dot_product_attention}
INDEXING = {"index", "index_put", "index_put_", "_unsafe_index", "_unsafe_index_put", "_index_put_impl_"}
OURS = str(Path(latentloom.__file__).resolve().parent) + "/"
TESTS = str(Path(__file__).resolve().parents[1]) + "/"
DIFFUSERS = "/site-packages/diffusers/"


class OnGpu(Tensor):
    """A tensor of the device that is none; `inner` holds its values."""

    inner: Tensor

    @staticmethod
    def __new__(cls: type[OnGpu], inner: Tensor) -> OnGpu:
        like = torch.empty_strided(inner.shape, inner.stride(), dtype=inner.dtype, device="meta")
        made = Tensor._make_subclass(cls, like, False, dispatch_device=True, device_for_backend_keys=GPU)
        made.inner = inner
        return made

    @property
    def device(self) -> torch.device:
        return GPU

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return GPU
        return computed(func, args, kwargs or {})


class FakeGpu(TorchDispatchMode):
    """While it is entered, `cuda:0` is a device, and `waits` counts what waits for it: {(what, whose line): times}."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return GPU
        if what := wait_of(func, args, kwargs or {}):
            self.wait(what)
        return computed(func, args, kwargs or {})

    def wait(self, what: str) -> None:
        self.waits[what, _line()] += 1


class _Calls(TorchFunctionMode):
    """What has to be seen before torch looks for the device: it lacks one, and a build for the CPU lacks its guards."""

    def __init__(self, mode: FakeGpu) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not any(isinstance(each, OnGpu) for each in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        if func is Tensor.tolist:
            return args[0].cpu().tolist()
        if func in NUMBERS:
            self.mode.wait("item")
        elif func is Tensor.new_tensor:
            self.mode.wait("copy from the host")
        elif func in (Tensor.nonzero, torch.nonzero):
            self.mode.wait("nonzero")
        elif func in (Tensor.__getitem__, Tensor.__setitem__):
            if what := _place_looked_up(*args):
                self.mode.wait(what)
        elif func is Tensor.copy_:
            if what := _copied(args[1], args[0].device, {"non_blocking": args[2:] == (True,), **kwargs}):
                self.mode.wait(what)
        elif func not in GUARDED:
            return func(*args, **kwargs)
        found = func(*tree_map(_inner, tuple(args)), **tree_map(_inner, kwargs))
        if args and found is _inner(args[0]):
            return args[0]
        is_host = func is Tensor.__getitem__ and not isinstance(args[0], OnGpu)
        return OnGpu(found) if isinstance(found, Tensor) and not is_host else found


@contextlib.contextmanager
def fake_gpu() -> Iterator[FakeGpu]:
    """Within, this thread has a GPU that is none."""
    mode = FakeGpu()
    total = SimpleNamespace(total_memory=1 << 36)
    stream = SimpleNamespace(synchronize=lambda: mode.wait("synchronize"))
    answers = {
        "_lazy_init": None,
        "empty_cache": None,
        "reset_peak_memory_stats": None,
        "get_device_name": "a GPU that is none",
        "get_device_properties": total,
        "max_memory_allocated": 0,
        "current_stream": stream,
        "Event": mock.Mock(),
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, lambda *_, answer=answer, **__: answer))
        stack.enter_context(mock.patch.object(torch.cuda, "synchronize", lambda *_: mode.wait("synchronize")))
        before = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        stack.callback(torch._C._set_only_lift_cpu_tensors, before)
        torch._C._ensureCUDADeviceGuardSet()
        stack.enter_context(_Calls(mode))
        stack.enter_context(mode)
        yield mode


def moved(module: nn.Module) -> nn.Module:
    """A module with its parameters and buffers on the GPU that is none."""
    made: dict[Tensor, Any] = {}
    for each in module.modules():
        for kept in (each._parameters, each._buffers):
            for name, value in kept.items():
                if value is not None and not isinstance(value, OnGpu):
                    if value not in made:
                        new = OnGpu(value.detach())
                        made[value] = nn.Parameter(new, requires_grad=False) if kept is each._parameters else new
                    kept[name] = made[value]
    return module


def wait_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What of a call waits for the device; "" if nothing does.

    Numbers go to a kernel as arguments, tensors of one number on the CPU too: that waits for nothing.
    """
    name = func.overloadpacket.__name__
    if name == "_to_copy":
        return _copied(args[0], torch.device(kwargs.get("device") or args[0].device), kwargs)
    if name == "copy_":
        return _copied(args[1], args[0].device, {"non_blocking": args[2] if len(args) > 2 else False, **kwargs})
    on_gpu = [each for each in tree_leaves((args, kwargs)) if isinstance(each, OnGpu)]
    if not on_gpu:
        return ""
    if name in SHAPED_BY_VALUES:
        return name
    if name == "repeat_interleave" and func._overloadname != "self_int" and kwargs.get("output_size") is None:
        return name
    place = READ_BY_THE_HOST.get(name)
    if place is not None and isinstance(args[place], OnGpu):
        return name
    if name in INDEXING:
        return _indexed(name, args)
    return ""


def _copied(source: Tensor, target: torch.device, options: Mapping[str, Any]) -> str:
    if options.get("non_blocking") or {source.device.type, target.type} != {"cpu", "cuda"}:
        return ""
    return "copy to the host" if isinstance(source, OnGpu) else "copy from the host"


def _indexed(name: str, args: Sequence[Any]) -> str:
    indices = [each for each in args[1] if each is not None]
    masks = [each for each in indices if each.dtype in (torch.bool, torch.uint8)]
    is_fill = (
        "put" in name and len(masks) == len(indices) == 1 and args[2].numel() == 1 and args[2].device.type == "cpu"
    )
    if masks and not is_fill:
        return f"{name} by a mask"
    if any(not isinstance(each, OnGpu) for each in indices):
        return f"{name} by a tensor of the host"
    return ""


def _place_looked_up(tensor: Tensor, place: Any, value: Any = None) -> str:
    """What of `tensor[place]`, or of `tensor[place] = value`, waits for the device."""
    looked_up = [each for each in tree_leaves(place) if isinstance(each, Tensor)]
    are_bounds = [each for one in tree_leaves(place) if isinstance(one, slice) for each in (one.start, one.stop)]
    if any(isinstance(each, OnGpu) and not each.ndim for each in (*looked_up, *are_bounds)):
        return "item"
    if isinstance(tensor, OnGpu) and any(isinstance(each, list) for each in (place, *_several(place))):
        return "index by a list of the host"
    is_number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
    if any(each.dtype in (torch.bool, torch.uint8) for each in looked_up) and not is_number:
        return "index by a mask"
    if any(each.ndim and not isinstance(each, OnGpu) for each in looked_up):
        return "index by a tensor of the host"
    return "" if not isinstance(value, Tensor) or not value.ndim else _copied(value, tensor.device, {})


def _several(place: Any) -> tuple[Any, ...]:
    return place if isinstance(place, tuple) else ()


def computed(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the CPU makes of a call; on the GPU that is none, if the call's device or one of its tensors is."""
    wrappers = {id(each.inner): each for each in tree_leaves((args, kwargs)) if isinstance(each, OnGpu)}
    options = dict(kwargs)
    target = options.get("device")
    if target is not None:
        options["device"] = torch.device("cpu")
    is_on_gpu = bool(wrappers) if target is None else torch.device(target).type == "cuda"
    if func.overloadpacket.__name__ == "copy_":
        is_on_gpu = isinstance(args[0], OnGpu)
    if func is torch.ops.aten._scaled_dot_product_efficient_attention.default:
        found: Any = _efficient(*tree_map(_inner, tuple(args)), **tree_map(_inner, options))
    else:
        if func.overloadpacket.__name__ == "_to_copy" and options.get("dtype") is None:
            options["dtype"] = args[0].dtype  # so that the CPU makes a copy
        found = func(*tree_map(_inner, tuple(args)), **tree_map(_inner, options))

    def wrapped(value: Any) -> Any:
        if not isinstance(value, Tensor) or not is_on_gpu:
            return value
        return wrappers[id(value)] if id(value) in wrappers else OnGpu(value)

    return tree_map(wrapped, found)


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, OnGpu) else value


def _efficient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, with_lse: bool, *_: Any, scale: float | None = None, **__: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What CUDA's memory-efficient kernel gives."""
    scores = (q @ k.transpose(2, 3)) * (q.shape[3] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias
    none = torch.zeros((), dtype=torch.int64)
    return scores.softmax(-1) @ v, scores.logsumexp(-1), none, none


def _line() -> str:
    """The innermost line of ours, or else of diffusers; not where a call only passes through."""
    for frame, number in traceback.walk_stack(None):
        code = frame.f_code
        name = code.co_filename
        is_ours = name.startswith(OURS) and not name.startswith(TESTS) and "/site-packages/" not in name
        if code.co_name == "__torch_function__" or not (is_ours or DIFFUSERS in name):
            continue
        return f"{name.removeprefix(OURS).rpartition('/site-packages/')[2]}:{number}"
    return "a test"
