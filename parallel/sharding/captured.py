"""Forwards replayed as CUDA graphs: one launch for all the kernels of a forward, collectives included.

Calls are told apart by their shapes, formats and plain arguments, and by the state of the module (`graphs/watched.py`).
The first of a kind runs as ever, but for padding, which no call of a kind leaves out: a graph may be given another
text. The second runs on the stream to capture on, from buffers that stand for its tensors: libraries and compilers make
there what they make once. The third is captured; from then on tensors are copied into the buffers, and the graph is
launched.

A graph holds addresses and runs no Python. So whatever the forward reads is kept as long as its graph, what it answers
is copied, for the next launch writes over it, and what waits for the device or reads from the host is never captured:
such a module runs as ever, and a warning says why.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from ..attention import packed
from ..collectives import add
from ..group import Axis, Count, Group
from ..mesh import Mesh
from .graphs.watched import Watched
from .padding import leaving_out

logger = logging.getLogger("latentloom")

MOST = 4
"""Kinds of calls that one series may have, such as branches of guidance whose texts differ in length."""
PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size)
"""Arguments that say all by their value."""

_living: weakref.WeakSet[Captured] = weakref.WeakSet()
_registering = threading.Lock()
"""A weak set may not grow while it is read."""
_capturing = threading.Lock()
"""Torch captures one graph of a process at a time."""


def forget_all() -> None:
    """Drop every graph of this process, from any thread, once a capture under way is over.

    Before a process group is aborted or destroyed: NCCL waits for the graphs that hold its work.
    """
    with _registering:
        living = list(_living)
    for each in living:
        each.forget()


class Graph(Protocol):
    """Of which `torch.cuda.CUDAGraph` is one."""

    def replay(self) -> None: ...
    def reset(self) -> None: ...
    def pool(self) -> Any: ...


class Recorder(Protocol):
    """What makes graphs of actions on one device."""

    device: torch.device

    def aside(self, action: Callable[[], Any]) -> Any:
        """What it gives, by way of the stream that `record` captures."""
        ...

    def settle(self) -> None:
        """Wait for all that the device has been asked for."""
        ...

    def record(self, action: Callable[[], Any], *, beside: Graph | None) -> tuple[Graph, Any, int]:
        """A graph of the action, what a replay writes to, and the bytes that were taken for it.

        It shares its memory with one `beside` that never runs at the same time. RuntimeError if the device does not let
        it be captured.
        """
        ...


class Cuda:
    """Captures on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)

    def aside(self, action: Callable[[], Any]) -> Any:
        here = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            found = action()
        here.wait_stream(self._stream)
        return found

    def settle(self) -> None:
        torch.cuda.synchronize(self.device)

    def record(self, action: Callable[[], Any], *, beside: Graph | None) -> tuple[Graph, Any, int]:
        graph, pool = torch.cuda.CUDAGraph(), None if beside is None else beside.pool()
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


@dataclass(eq=False)
class _Kind:
    """The calls of one kind: how many there were, and what replays them."""

    num_calls: int = 0
    is_used: bool = True
    buffers: list[Tensor] = field(default_factory=list)
    graph: Graph | None = None
    answer: Any = None
    num_bytes: int = 0
    sent: Sequence[Count] = ()
    kept: object = None

    def replay(self, given: Sequence[Tensor]) -> Any:
        assert self.graph is not None, "it was captured"
        self.take(given)
        self.graph.replay()
        return tree_map_only(Tensor, Tensor.clone, self.answer)

    def take(self, given: Sequence[Tensor]) -> None:
        for buffer, x in zip(self.buffers, given, strict=True):
            buffer.copy_(x, non_blocking=True)


class Captured:
    """The calls of a module, hooks and all, replayed as CUDA graphs until `restore`.

    Ranks that share its tokens have to be called alike. One thread at a time calls it; `forget` may come from another.
    """

    def __init__(self, module: nn.Module, *, mesh: Mesh | None = None, recorder: Recorder | None = None) -> None:
        self.title = type(module).__name__
        self._module = module
        self._watched = Watched(module, by_address=True)
        self._recorder = recorder or Cuda(next(module.parameters()).device)
        self._peers = None if mesh is None or mesh[Axis.SEQUENCE].size == 1 else mesh[Axis.SEQUENCE]
        self._groups = _distinct(mesh.groups.values() if mesh else ())
        self._kinds: dict[Hashable, _Kind] = {}
        self._lock = threading.Lock()
        """Held while a graph is made, launched or dropped."""
        self.reasons: list[str] = []
        """Why calls ran without a graph, each once."""
        self._is_off = False
        vars(module)["_compiled_call_impl"] = self  # as torch's own `Module.compile` has itself called
        with _registering:
            _living.add(self)

    @property
    def num_bytes(self) -> int:
        """What graphs hold of the device beside the weights."""
        return sum(kind.num_bytes for kind in list(self._kinds.values()))

    def restore(self) -> None:
        """Calls run as before; a second time does nothing."""
        if vars(self._module).get("_compiled_call_impl") is self:
            del vars(self._module)["_compiled_call_impl"]
        self.forget()

    def begin(self) -> None:
        """All ranks alike, before a series of calls: what the last one did not use makes way."""
        with self._lock:
            for key, kind in list(self._kinds.items()):
                if not kind.is_used:
                    _drop(self._kinds.pop(key))
                kind.is_used = False

    def forget(self) -> None:
        """Drop all graphs; calls begin anew, which all ranks have to do alike."""
        with self._lock:
            while self._kinds:
                _drop(self._kinds.popitem()[1])
            self._is_off = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives, in tensors that are the caller's."""
        leaves, spec = tree_flatten((args, kwargs))
        kind = self._kind(leaves, spec)
        if kind is None:
            return self._run(leaves, spec)
        with leaving_out(False):  # the graph may be given another text, and runs before it make what it needs
            return self._answer(kind, leaves, spec)

    def _answer(self, kind: _Kind, leaves: Sequence[Any], spec: TreeSpec) -> Any:
        kind.num_calls, kind.is_used = kind.num_calls + 1, True
        given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if kind.num_calls == 1:
            return self._run(leaves, spec)
        if kind.num_calls == 2:
            kind.buffers = [x.clone() for x in given]
            return self._recorder.aside(lambda: self._run(_in_place_of(leaves, kind.buffers), spec))
        if kind.graph is None and not self._capture(kind, _in_place_of(leaves, kind.buffers), spec):
            return self._run(leaves, spec)
        with self._lock:  # in which nothing waits for other ranks
            if kind.graph is not None:
                for group, sent in zip(self._groups, kind.sent, strict=True):
                    group.count.sent_bytes += sent.sent_bytes
                    group.count.calls += sent.calls
                return kind.replay(given)
        return self._run(leaves, spec)  # dropped by another thread: it says why, if it has to

    def _run(self, leaves: Sequence[Any], spec: TreeSpec) -> Any:
        args, kwargs = tree_unflatten(leaves, spec)
        return self._module._call_impl(*args, **kwargs)

    def _kind(self, leaves: Sequence[Any], spec: TreeSpec) -> _Kind | None:
        """Of a call; None if it is never captured."""
        if self._is_off:
            return None
        if reason := self._obstacle(leaves):
            self._say(reason)
            return None
        values = tuple((leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else (type(leaf), leaf) for leaf in leaves)
        key = (repr(spec), values, self._watched.state(), torch.is_inference_mode_enabled())
        if key not in self._kinds:
            if len(self._kinds) == MOST:
                self._say(f"it is called in more than {MOST} ways, by shapes, numbers and what hangs on it")
                return None
            self._kinds[key] = _Kind()
        return self._kinds[key]

    def _obstacle(self, leaves: Sequence[Any]) -> str:
        if torch.is_grad_enabled():
            return "gradients are on"
        for leaf in leaves:
            if not isinstance(leaf, Tensor) and not isinstance(leaf, PLAIN):
                return f"it is given a {type(leaf).__name__}, which may change from step to step"
            if isinstance(leaf, Tensor) and leaf.device != self._recorder.device:
                return f"it is given a tensor on {leaf.device}"
        return ""

    def _capture(self, kind: _Kind, leaves: Sequence[Any], spec: TreeSpec) -> bool:
        """Collective among ranks that share tokens: whether all of them could."""
        reason, watch = "", _Watch(self._recorder.device)
        self._recorder.settle()  # before a lock is held: other ranks are waited for, and an abort needs the lock
        try:
            with _capturing, self._lock, self._counted(kind):
                if kind not in self._kinds.values():
                    raise RuntimeError("its graphs were dropped meanwhile")
                beside = next((each.graph for each in self._kinds.values() if each.graph is not None), None)
                with watch:
                    found = self._recorder.record(lambda: self._run(leaves, spec), beside=beside)
                kind.graph, kind.answer, kind.num_bytes = found
                kind.kept = watch.kept()
        except (RuntimeError, ValueError) as error:  # how torch, and the watch, say that it cannot be
            reason = str(error).strip().partition("\n")[0]
        if self._peers is not None:
            failed = torch.tensor([float(bool(reason))], device=self._recorder.device)
            if add(failed, group=self._peers) and not reason:
                reason = "another rank could not capture it"
        if reason:
            self.forget()
            self._is_off = True
            self._say(reason)
        return not reason

    @contextlib.contextmanager
    def _counted(self, kind: _Kind) -> Iterator[None]:
        """What is sent within is what a replay sends; by the capture itself nothing is."""
        before = [Count(group.count.sent_bytes, group.count.calls) for group in self._groups]
        try:
            yield
        finally:
            kind.sent = [
                Count(group.count.sent_bytes - had.sent_bytes, group.count.calls - had.calls)
                for group, had in zip(self._groups, before, strict=True)
            ]
            for group, had in zip(self._groups, before, strict=True):
                group.count.sent_bytes, group.count.calls = had.sent_bytes, had.calls

    def _say(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)
            logger.warning("steps of %s run without a CUDA graph: %s", self.title, reason)


class _Watch(TorchDispatchMode):
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
            storage = x.untyped_storage()
            self._read.setdefault(storage._cdata, weakref.ref(storage))
        return func(*args, **kwargs)


def _waits(func: Any, given: Sequence[Tensor]) -> bool:
    """Whether the numbers in tensors decide what comes out, in which shape: somebody has to look at them."""
    if func.overloadpacket is torch.ops.aten.index:
        return any(index.dtype in (torch.bool, torch.uint8) for index in given[1:])
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))


def _in_place_of(leaves: Sequence[Any], buffers: Sequence[Tensor]) -> list[Any]:
    """The leaves with buffers for tensors."""
    rest = iter(buffers)
    return [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in leaves]


def _distinct(groups: Iterable[Group]) -> list[Group]:
    return list({id(group.count): group for group in groups}.values())


def _drop(kind: _Kind) -> None:
    graph, kind.graph = kind.graph, None
    if graph is not None:
        graph.reset()
    kind.answer = kind.kept = None
