"""Sharded attention as one opaque operator, so that `torch.compile` takes a block in one graph.

Collectives have no place in a traced graph: lengths, groups and counts live in the session. No graph names one, so
that transformers of a class, plans and runs share graphs: the operator asks the session whose forward runs in its
thread.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C import _len_torch_function_stack
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

Function = TypeVar("Function", bound=Callable[..., Any])


def in_no_graph(function: Function) -> Function:
    """What asks the session: a graph would keep the lengths and shares of the forward that it was made in."""
    return torch.compiler.disable(function)


class Asked(NamedTuple):
    """A call of `F.scaled_dot_product_attention`, by its names for the arguments."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    def as_it_is(self) -> Tensor:
        """Torch's own answer."""
        return F.scaled_dot_product_attention(*self[:6], scale=self.scale, enable_gqa=self.enable_gqa)

    def by_operator(self, kind: int) -> Tensor:
        """What the operator gives, which counts the call when it runs."""
        given = (self.query, self.key, self.value, self.attn_mask, self.scale, self.is_causal)
        return torch.ops.latentloom.attend(*given, kind)


class Intercepting(TorchFunctionMode):
    """Sees the attention calls of its thread, and answers them by `_intercepted`, while `depth` is not zero.

    The operator asks that of the forward under way: `session.Session`, or `unsharded.Unsharded` on one device.
    """

    depth = 1
    num_calls = 0
    is_throughout = False  # whether the mode is on for the whole of a forward, not within its blocks alone

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention and self.depth:
            return self._intercepted(Asked(*args, **(kwargs or {})))
        if func is Tensor.unflatten:  # its body calls super(), which torch.compile cannot trace under a mode
            func = torch.unflatten
        return func(*args, **(kwargs or {}))

    def _intercepted(self, asked: Asked) -> Tensor:
        """The answer to a call."""
        raise NotImplementedError

    def attend(self, asked: Asked, kind: int) -> Tensor:
        """Collective: one attention call of a forward's."""
        raise NotImplementedError

    def leave(self) -> None:
        """The forward has ended."""
        raise NotImplementedError

    def take_off(self) -> None:
        """Leave the mode, be it below others: what was entered inside a forward may outlive an interrupt of it."""
        above: list[TorchFunctionMode] = []  # of others, which go back as they were
        while _len_torch_function_stack() and (top := _pop_mode()) is not self:
            above.append(top)
        for other in reversed(above):
            _push_mode(other)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Within it the calls of this thread are not seen: a graph has them answered inside."""
        self.take_off()
        try:
            yield
        finally:
            self.__enter__()


class _SessionsAtWork(threading.local):
    """The sessions whose forwards run in a thread, the innermost last."""

    def __init__(self) -> None:
        self.sessions: list[Intercepting] = []


_at_work = _SessionsAtWork()


def enter(session: Intercepting) -> None:
    """From now on the operator asks this session, in this thread."""
    _at_work.sessions.append(session)


def leave(session: Intercepting) -> None:
    """It does so no more; what was entered within and never left, as an interrupt may have it, goes too."""
    if session in _at_work.sessions:
        del _at_work.sessions[_at_work.sessions.index(session) :]


def leave_all() -> None:
    """No forward is under way in this thread: what an interrupt ended without its hooks sees no attention any more."""
    for session in reversed(_at_work.sessions[:]):
        session.leave()
    _at_work.sessions.clear()


def at_work() -> Intercepting | None:
    """Who answers the attention of the forward under way in this thread, if anybody does."""
    return _at_work.sessions[-1] if _at_work.sessions else None


# Torch's `custom_op` would do as well, and costs a call three times as much around nothing.
_library = torch.library.Library("latentloom", "FRAGMENT")
_library.define(
    "attend(Tensor q, Tensor k, Tensor v, Tensor? mask, float? scale, bool causal, int kind) -> Tensor",
    tags=(torch.Tag.cudagraph_unsafe,),  # no CUDA graph may hold it: replayed, its Python would not run
)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, causal: bool, kind: int
) -> Tensor:
    """Collective: `Intercepting.attend`; B H S D in, B H S D out, laid out as B S H D."""
    assert _at_work.sessions, "a graph of a sharded block runs in a forward of its transformer"
    found = _at_work.sessions[-1]
    found.num_calls += 1
    out = found.attend(Asked(q, k, v, mask, is_causal=causal, scale=scale), kind).transpose(1, 2)  # B S H D
    # A graph was promised this layout, and an operator may not give back one of its inputs.
    own = out.untyped_storage().data_ptr()
    is_own = all(own != x.untyped_storage().data_ptr() for x in (q, k, v))
    out = out if is_own and out.is_contiguous() else out.clone(memory_format=torch.contiguous_format)
    return out.transpose(1, 2)


def _promised(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, causal: bool, kind: int
) -> Tensor:
    batch, heads, tokens, _ = q.shape
    return q.new_empty(batch, tokens, heads, v.shape[3]).transpose(1, 2)


_library.impl("attend", _attend, "CompositeExplicitAutograd")
torch.library.register_fake("latentloom::attend", _promised, lib=_library)
