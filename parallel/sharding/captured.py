"""The calls of a module replayed as CUDA graphs: one launch for all the kernels of a forward, collectives included.

Calls are told apart by their shapes, formats and plain arguments, and by the state of the module (`graphs/watched.py`).
The first of a kind runs on the stream to capture on, from buffers that stand for its tensors: libraries, compilers and
communicators make there what they make once. The second is captured; from then on tensors are copied into the buffers,
and the graph is launched. Kernels are those of a module that is not captured, and so are the bits.

    call 1    worth one? (vote)   tensors -> buffers   run on the capture's stream            the answer is handed out
    call 2    settle, room? (vote)   record: computes nothing   could all? (vote)             as call 3
    call 3..  tensors -> buffers   launch   the answer is copied out                          no Python, no vote

Every vote is a collective of the ranks that share tokens, and a "no" of one of them is everybody's: who launched a
graph while its neighbour dropped it would be alone in the next vote.

A graph holds addresses and runs no Python. What waits for the device or reads from the host is never captured: such a
module runs as ever, and the log says why. Unless it is asked for, a series of calls is captured only where it is long,
or an earlier one of this process had calls of the kind, and memory allows it, on all ranks that share its tokens or on
none.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
import threading
import weakref
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.cuda import CUDAGraph
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map_only, tree_unflatten

from ..collectives import add
from ..group import Axis, Count
from ..mesh import Mesh
from .graphs.recording import CaptureWatch, Cuda
from .graphs.watched import Watched
from .padding import KeptKeys, Texts, keeping
from .split_plan import Padding

logger = logging.getLogger("latentloom")
MOST = 4  # kinds of calls that one series may have, such as branches of guidance whose texts differ in length
# How much of what a forward took has to be free for a graph that nobody asked for, or beside graphs for another.
ROOM = 1.3
MOST_KNOWN = 256
# Arguments that say all by their value.
PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size)
GIB = 1 << 30

_living: weakref.WeakSet[Captured] = weakref.WeakSet()
_registering = threading.Lock()  # a weak set may not grow while it is read
_capturing = threading.Lock()  # Torch captures one graph of a process at a time
# Forms of calls that this process's earlier series had, the last used last: these come again.
_known: dict[Hashable, None] = {}


def forget_all() -> None:
    """Drop every graph of this process, from any thread, once a capture or a launch under way is over.

    Before a process group is aborted or destroyed: NCCL waits for the graphs that hold its work.
    """
    with _registering:
        living = list(_living)
    for each in living:
        each.forget()


@dataclass(eq=False)
class _Kind:
    """The calls of one kind, and what replays them."""

    form: Hashable  # what tells it from others, but for what of the module may be another in the next process
    is_wanted: bool | None = None  # whether it is to be captured; None before its first call
    is_used: bool = True
    is_anew: bool = False  # whether a capture failed in which something was compiled
    buffers: list[Tensor] = field(default_factory=list)
    taken_bytes: int = 0  # by its first call
    graph: CUDAGraph | None = None
    answer: Any = None
    num_bytes: int = 0
    sent: list[Count] = field(default_factory=list)  # by each launch, over each group
    kept: object = None  # what the graph reads, which nobody may free before it

    def replay(self, given: Sequence[Tensor]) -> Any:
        assert self.graph is not None, "it was captured"
        # All three go to the current stream, which keeps their order: nothing is waited for between them.
        for buffer, x in zip(self.buffers, given, strict=True):
            buffer.copy_(x, non_blocking=True)
        self.graph.replay()
        return tree_map_only(Tensor, Tensor.clone, self.answer)  # over which the next launch writes


class Captured:
    """The calls of a module, hooks and all, replayed as CUDA graphs until `restore`.

    Ranks that share its tokens have to be called alike. One thread at a time calls it; `forget` may come from another.
    Where it is not asked for, calls run without a graph where one does not pay or has no room. `paddings` are those of
    the texts that it is given, whose hidden keys are left out.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        mesh: Mesh | None = None,
        recorder: Cuda | None = None,
        is_asked: bool = True,
        paddings: Sequence[Padding] = (),
    ) -> None:
        self.title = type(module).__name__
        self._module = module
        self._watched = Watched(module, by_address=True)
        self._recorder = recorder or Cuda(next(module.parameters()).device)
        self._peers = None if mesh is None or mesh[Axis.SEQUENCE].size == 1 else mesh[Axis.SEQUENCE]
        self._groups = [*mesh.groups.values()] if mesh else []
        self._is_asked = is_asked
        self._is_long = False
        self._names = list(inspect.signature(type(module).forward).parameters)[1:]
        self._texts = Texts(paddings)
        self._kinds: dict[Hashable, _Kind] = {}
        # Held while a graph is made, launched or dropped; nothing waits for other ranks or the device within.
        self._lock = threading.Lock()
        self.reasons: list[str] = []  # why calls ran without a graph, each once
        self._is_off = False  # since a capture failed for good: each other would, and would cost all ranks a vote
        # Not `forward`: hooks run inside of what torch calls here, so what they send and cut is part of the graph.
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

    def begin(self, *, is_long: bool = False) -> None:
        """All ranks alike, before a series of calls, which pays for graphs if it `is_long`: what the last one did not
        use, or not to capture it, makes way."""
        # Memory follows use: graphs of a series before, of another size or text, would stand beside those to come.
        with self._lock:
            self._is_long = is_long
            for key, kind in list(self._kinds.items()):
                if not (kind.is_used and kind.buffers):
                    _drop(self._kinds.pop(key))
                kind.is_used = False

    def forget(self) -> None:
        """Drop all graphs; calls begin anew, which all ranks have to do alike."""
        with self._lock:
            while self._kinds:
                _drop(self._kinds.popitem()[1])
            self._is_off = False
            self._texts = Texts(self._texts.paddings)  # a rank that began anew has read no mask either

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives, in tensors that are the caller's."""
        leaves, spec = tree_flatten((args, kwargs))
        # No vote: ranks that share tokens are called alike, so that what stands in the way of one does of all.
        reason = "" if self._is_off else self._obstacle(leaves)
        if reason:
            self._say(reason)
        if self._is_off or reason:
            return self._run(leaves, spec)
        left_out = self._texts.kept_in({**dict(zip(self._names, args, strict=False)), **kwargs})
        with keeping(left_out):  # on all calls alike: those before a graph make what it needs
            kind = self._kind(leaves, spec, left_out)
            return self._run(leaves, spec) if kind is None else self._answer(kind, leaves, spec)

    def _answer(self, kind: _Kind, leaves: Sequence[Any], spec: TreeSpec) -> Any:
        kind.is_used = True
        given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if kind.is_wanted is None:
            # Asked once for a kind, before its first call: ranks meet new kinds at the same call, and may vote only
            # there. What makes way goes first, so that the first call finds the room that its graph will.
            self._make_way(kind)
            kind.is_wanted = self._is_worth(kind)
        if not kind.is_wanted:
            return self._run(leaves, spec)
        if not kind.buffers:
            buffers = [x.clone() for x in given]
            inside = _in_place_of(leaves, buffers)
            found, kind.taken_bytes = self._recorder.aside(lambda: self._run(inside, spec))
            kind.buffers = buffers  # not of a call that failed: whatever it was to make is not there
            return found
        if kind.graph is None and not self._capture(kind, _in_place_of(leaves, kind.buffers), spec):
            return self._run(leaves, spec)
        # Under the lock: `forget` comes from the thread that aborts a process group, and no graph may be reset while it
        # is launched.
        with self._lock:
            if kind.graph is not None:
                # A launch runs no Python, so the groups' counters see nothing of what it sends.
                for group, sent in zip(self._groups, kind.sent, strict=True):
                    group.count.sent_bytes += sent.sent_bytes
                    group.count.calls += sent.calls
                return kind.replay(given)
        return self._run(leaves, spec)  # dropped by another thread: it says why, if it has to

    def _run(self, leaves: Sequence[Any], spec: TreeSpec) -> Any:
        args, kwargs = tree_unflatten(leaves, spec)
        # What torch's `Module.__call__` runs where nothing is in its place: that itself would come back here.
        return self._module._call_impl(*args, **kwargs)

    def _kind(self, leaves: Sequence[Any], spec: TreeSpec, left_out: tuple[KeptKeys, ...]) -> _Kind | None:
        """Of a call; None if there are too many."""
        values = tuple((leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else (type(leaf), leaf) for leaf in leaves)
        form = self.title, repr(spec), values
        # The state holds addresses, which a fresh load has otherwise: `form` is what is remembered of kinds, `key` what
        # tells graphs apart. Buffers of inference mode may not be written into outside of it.
        key = (form, left_out, self._watched.state(), torch.is_inference_mode_enabled())
        if key not in self._kinds:
            if len(self._kinds) == MOST:
                self._say(f"it is called in more than {MOST} ways, by shapes, numbers and what hangs on it")
                return None
            self._kinds[key] = _Kind(form)
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

    def _make_way(self, kind: _Kind) -> None:
        """Collective among ranks that share tokens, if there are graphs: they go where one rank may have no room."""
        # Room beside them is wanted for a forward of another kind, which takes about as much. Free memory differs from
        # rank to rank. If only the rank without room dropped its graphs, it would capture them again later, and vote
        # there alone.
        held = [each.num_bytes for each in self._kinds.values() if each.graph is not None]
        if held and self._agreed("" if self._recorder.free_bytes() >= ROOM * max(held) else "no room"):
            with self._lock:
                for key, each in list(self._kinds.items()):
                    if each is not kind:
                        _drop(self._kinds.pop(key))

    def _is_worth(self, kind: _Kind) -> bool:
        """Collective among ranks that share tokens, where a series is short and nobody asked to capture it: whether all
        of them have met the form of these calls before."""
        # Noted before the vote, whatever comes of it: the second short series of a kind pays for the graph.
        with _registering:
            is_known = kind.form in _known
            _known[kind.form] = _known.pop(kind.form, None)
            if len(_known) > MOST_KNOWN:
                del _known[next(iter(_known))]
        if self._is_asked or self._is_long:
            return True
        reason = self._agreed("" if is_known else "so few do not pay for one the first time")
        if reason:
            self._say(reason)
        return not reason

    def _capture(self, kind: _Kind, leaves: Sequence[Any], spec: TreeSpec) -> bool:
        """Collective among ranks that share tokens: whether all of them could."""
        self._recorder.settle()  # before a lock is held: other ranks are waited for, and an abort needs the lock
        if not self._is_asked and (lacking := self._agreed(self._why_no_room(kind))):
            kind.is_wanted, kind.buffers = False, []
            self._say(lacking)
            return False
        reason, watch, num_compiled = "", CaptureWatch(self._recorder.device), _num_compiled()
        # Nothing is computed within: a failure here has changed no tensor, and the call can run as ever.
        try:
            with _capturing, self._lock, self._counted(kind):
                if kind not in self._kinds.values():
                    raise RuntimeError("its graphs were dropped meanwhile")
                # Graphs of one module never run at once, so they write into the same memory.
                beside = next((each.graph for each in self._kinds.values() if each.graph is not None), None)
                with watch:
                    found = self._recorder.record(lambda: self._run(leaves, spec), beside=beside)
                kind.graph, kind.answer, kind.num_bytes = found
                kind.kept = watch.kept()
        except (RuntimeError, ValueError) as error:  # how torch, and the watch, say that it cannot be
            reason = str(error).strip().partition("\n")[0]
        if reason := self._agreed(reason):
            if kind.is_anew or not self._agreed("compiled" if _num_compiled() > num_compiled else ""):
                self.forget()
                self._is_off = True
                self._say(reason)
            else:  # what the first call did not: no device lets that be captured
                with self._lock:
                    _drop(kind)
                kind.buffers, kind.is_anew = [], True
        return not reason

    def _why_no_room(self, kind: _Kind) -> str:
        """ "" where there is room."""
        # Graphs of one module share their memory, since one runs at a time: only what is beyond the largest is new.
        held = max((each.num_bytes for each in self._kinds.values()), default=0)
        asked, free = ROOM * max(0, kind.taken_bytes - held), self._recorder.free_bytes()
        return "" if asked <= free else f"{asked / GIB:.1f} GiB should be free for one, and {free / GIB:.1f} are"

    def _agreed(self, reason: str) -> str:
        """Collective among ranks that share tokens: "" if none of them has a reason against."""
        if self._peers is None:
            return reason
        # Who has a reason votes as well: the others are in this collective, and would wait for it.
        against = torch.tensor([float(bool(reason))], device=self._recorder.device)
        return "another rank could not capture it" if add(against, group=self._peers) and not reason else reason

    @contextlib.contextmanager
    def _counted(self, kind: _Kind) -> Iterator[None]:
        """What is sent within is what a replay sends; by the capture itself nothing is."""
        before = [replace(group.count) for group in self._groups]
        try:
            yield
        finally:
            kind.sent = []
            for group, had in zip(self._groups, before, strict=True):
                now, group.count = group.count, had
                kind.sent.append(Count(now.sent_bytes - had.sent_bytes, now.calls - had.calls))

    def _say(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)
            level = logging.WARNING if self._is_asked else logging.INFO
            logger.log(level, "steps of %s run without a CUDA graph: %s", self.title, reason)


def _num_compiled() -> int:
    """Graphs that torch.compile has made in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else dynamo.counters["stats"]["unique_graphs"]


def _in_place_of(leaves: Sequence[Any], buffers: Sequence[Tensor]) -> list[Any]:
    """The leaves with buffers for tensors."""
    rest = iter(buffers)
    return [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in leaves]


def _drop(kind: _Kind) -> None:
    # The graph before what it reads: until it is reset its kernels hold the addresses of both.
    graph, kind.graph = kind.graph, None
    if graph is not None:
        graph.reset()
    kind.answer = kind.kept = None
